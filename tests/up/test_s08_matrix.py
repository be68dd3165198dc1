"""S8: everybody who may come, at every route and tool that is about a pod, with each way to call that pod.

What is not granted is refused, and for whom a pod does not exist it is nowhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Literal, cast
from unittest import mock

import pytest

from scrubjay.fleet.access import Action
from scrubjay.server import library
from scrubjay.server.access_table import ACCESS, PUBLIC, Method
from scrubjay.server.app import make_app
from scrubjay.server.doors import Door, list_doors
from scrubjay.server.mcp.endpoint import McpEndpoint
from scrubjay.tape.record import Json
from tests.support.conditions import until_asked
from tests.support.guarded_server import Answer
from tests.support.in_process_up import InProcessUp
from tests.up.access_matrix import EVERYBODY, STRANGERS, TARGET, AccessMatrix, Who, open_neighbourhood
from tests.up.agents import Agent

pytestmark = pytest.mark.anyio

Outcome = Literal["in", "no_credential", "not_allowed", "scope_missing", "no_such_pod"]
_STATUS: dict[Outcome, int] = {"no_credential": 401, "not_allowed": 403, "scope_missing": 403, "no_such_pod": 404}

# By who comes: look, type, control, run.
_EXPECTED: dict[Who, tuple[Outcome, Outcome, Outcome, Outcome]] = {
    "operator": ("in", "in", "in", "in"),
    "viewer": ("in", "not_allowed", "not_allowed", "not_allowed"),
    "runner": ("not_allowed", "not_allowed", "not_allowed", "not_allowed"),
    "itself": ("in", "not_allowed", "not_allowed", "not_allowed"),
    "reader": ("in", "scope_missing", "not_allowed", "not_allowed"),
    "writer": ("scope_missing", "in", "not_allowed", "not_allowed"),
    "colleague": ("in", "in", "not_allowed", "not_allowed"),
    "asker": ("scope_missing", "scope_missing", "not_allowed", "not_allowed"),
    "neighbour": ("scope_missing", "scope_missing", "not_allowed", "not_allowed"),
    "former": ("no_such_pod", "no_such_pod", "not_allowed", "not_allowed"),
    "stranger": ("no_such_pod", "no_such_pod", "not_allowed", "not_allowed"),
    "outside reader": ("in", "scope_missing", "not_allowed", "not_allowed"),
    "outside stranger": ("no_such_pod", "no_such_pod", "not_allowed", "not_allowed"),
    "nobody": ("no_credential", "no_credential", "no_credential", "no_credential"),
}
_ACTIONS: tuple[Action, ...] = ("look", "type", "control", "run")
_AGENTS: tuple[Who, ...] = tuple(who for who in EVERYBODY if who not in ("operator", "viewer", "runner", "nobody"))


def _expected(who: Who, action: Action) -> Outcome:
    return _EXPECTED[who][_ACTIONS.index(action)]


@dataclass(frozen=True, slots=True)
class _Route:
    """A route about a pod: what it needs, and what it answers those who are let in; nothing it is sent ends the pod."""

    action: Action
    answers: tuple[int, ...] = (200,)
    body: Json | None = None
    agents: bool = True  #: whether a scope opens it; else it is for people


_ROUTES: dict[tuple[Method, str], _Route] = {
    ("GET", "/api/v1/pods/{pod}"): _Route("look"),
    ("DELETE", "/api/v1/pods/{pod}"): _Route("run", (409,)),  # it runs
    ("POST", "/api/v1/pods/{pod}/input"): _Route("type", body={"text": "x"}),
    ("POST", "/api/v1/pods/{pod}/resize"): _Route("control", body={"cols": 80, "rows": 24}),
    ("POST", "/api/v1/pods/{pod}/signal"): _Route("control", body={"signal": "CONT"}),
    ("POST", "/api/v1/pods/{pod}/mark"): _Route("type", body={"label": "here"}),
    ("POST", "/api/v1/pods/{pod}/stop"): _Route("run", (400,), body={"grace_s": -1}),
    ("PUT", "/api/v1/pods/{pod}/mute"): _Route("run"),
    ("DELETE", "/api/v1/pods/{pod}/mute"): _Route("run"),
    ("GET", "/api/v1/pods/{pod}/status"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/status/history"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/screen"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/timeline"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/tape"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/why"): _Route("look"),
    ("GET", "/api/v1/pods/{pod}/checkpoints"): _Route("look", (409,), agents=False),  # it has no worktree
    ("GET", "/api/v1/pods/{pod}/diff"): _Route("look", (409,), agents=False),
    ("GET", "/api/v1/pods/{pod}/patch"): _Route("look", (409,), agents=False),
    ("POST", "/api/v1/pods/{pod}/fork"): _Route("run", (409,), body={"at": "0s"}),
    ("GET", "/api/v1/pods/{pod}/inbox"): _Route("look", agents=False),
    ("POST", "/api/v1/pods/{pod}/messages"): _Route("type", (201,), {"text": "hello"}, agents=False),
    ("WEBSOCKET", "/api/v1/pods/{pod}/live"): _Route("look", (101,)),
    ("WEBSOCKET", "/api/v1/pods/{pod}/replay"): _Route("look", (101,)),
    ("DELETE", "/api/v1/passes/{pod}"): _Route("run", (204, 400), agents=False),  # by its id only
}


@pytest.fixture(scope="module")
async def place(up: InProcessUp) -> AsyncGenerator[AccessMatrix]:
    async with open_neighbourhood(up) as opened:
        await until_asked(lambda: up.get("/api/v1/search", q="ready", pod=TARGET), "there is something to find")
        # Each search starts a process that indexes what is new, and nothing is new here.
        with mock.patch.object(library, "bring_up_to_date"):
            yield opened


def _doors(up: InProcessUp) -> list[Door]:
    server = up.server
    return list_doors(make_app(server.coordination, server.gate, McpEndpoint(server.coordination)).routes)


async def test_s8_every_route_about_a_pod_is_in_this_matrix(place: AccessMatrix) -> None:
    doors: set[tuple[Method, str]] = {(door.method, door.template) for door in _doors(place.up)}
    about_a_pod = {key for key in doors if "{pod}" in key[1] or (key in ACCESS and ACCESS[key].pod is not None)}

    assert about_a_pod == set(_ROUTES)
    assert {key: ACCESS[key].action for key in _ROUTES} == {key: route.action for key, route in _ROUTES.items()}
    assert {key for key in _ROUTES if ACCESS[key].pod is not None} == {key for key in _ROUTES if _ROUTES[key].agents}


def _outcome(who: Who, route: _Route) -> Outcome:
    if not route.agents and who in _AGENTS:
        return "not_allowed"
    return _expected(who, route.action)


async def test_s8_who_comes_is_let_in_or_refused_by_this_table(place: AccessMatrix) -> None:
    offenders: list[str] = []
    for (method, template), route in _ROUTES.items():
        for who in EVERYBODY:
            outcome = _outcome(who, route)
            for raw in place.namings():
                path = template.replace("{pod}", raw)
                answer = await place.come(who, method, path, route.body)
                if not _is_as_expected(answer, outcome, route):
                    offenders.append(f"{who}: {method} {path}: {answer.status} {answer.code}, and not {outcome}")

    assert not offenders, "\n".join(offenders)


def _is_as_expected(answer: Answer, outcome: Outcome, route: _Route) -> bool:
    if outcome == "in":
        return answer.status in route.answers
    if (answer.status, answer.code) != (_STATUS[outcome], outcome):
        return False
    hint = f"request_binding(pod='{TARGET}', scopes=['terminal:"
    return outcome != "scope_missing" or hint in answer.json["error"]["hint"]


async def test_s8_for_a_stranger_a_pod_is_the_same_as_none_to_the_byte(place: AccessMatrix) -> None:
    offenders: list[str] = []
    for (method, template), route in _ROUTES.items():
        for who in STRANGERS:
            for raw, nobody in place.namings().items():
                there = await place.come(who, method, template.replace("{pod}", raw), route.body)
                nowhere = await place.come(who, method, template.replace("{pod}", nobody), route.body)
                told = there.status, there.body.replace(raw.encode(), nobody.encode()), _dateless(there)
                if told != (nowhere.status, nowhere.body, _dateless(nowhere)):
                    offenders.append(f"{who}: {method} {template} with {raw}: {there}, and of none {nowhere}")

    assert not offenders, "\n".join(offenders)


def _dateless(answer: Answer) -> list[tuple[str, str]]:
    return [pair for pair in answer.headers if pair[0] != "date"]


_NAMED = (
    *("{path}", "{name}", "{token}", "{binding}", "{channel}", "{member}", "{wait}", "{handoff}"),
    *("{session}", "{new}"),
)


async def test_s8_what_is_about_the_whole_fleet_is_closed_to_agents_and_tells_them_nothing(place: AccessMatrix) -> None:
    paths = {door: _called_with_anything(door[1]) for door in ACCESS if door not in _ROUTES}
    offenders: list[str] = []
    for who in _AGENTS:
        hidden = {place.target.id, place.target.session, TARGET} if who != "itself" else set[str]()
        for (method, template), path in paths.items():
            answer = await place.come(who, method, path)
            is_open = ACCESS[method, template].action in (PUBLIC, "know self", "coordinate")
            if not is_open and (answer.status, answer.code) != (403, "not_allowed"):
                offenders.append(f"{who}: {method} {path}: {answer.status} {answer.code}")
            offenders += [f"{who}: {method} {path} tells {each}" for each in hidden if each.encode() in answer.body]
        for path in ("/api/v1/events?", "/api/v1/search?q=ready&", "/api/v1/pods?"):
            answer = await place.come(who, "GET", f"{path}pod={TARGET}")
            if answer.code != "not_allowed":
                offenders.append(f"{who}: GET {path}pod={TARGET}: {answer.status} {answer.code}")

    assert not offenders, "\n".join(offenders)


def _called_with_anything(template: str) -> str:
    for name in _NAMED:
        template = template.replace(name, "x")
    assert "{" not in template, f"say what to call {template} with"
    return template


# Tools.


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool that names pods: what it takes, and what whoever calls it must be allowed; ``know`` is to know the pod."""

    needs: Literal["know", "look", "type"]
    given: Callable[[str, Who], Json]
    people: str = "in"  #: what an operator is told
    itself: str = "in"  #: what the pod's own agent is told
    agents: str | None = None  #: what every agent is told


def _number(who: Who) -> int:
    return EVERYBODY.index(who)  # channels are no secret: their names must not tell who is there


_TOOLS: dict[str, _Tool] = {
    "get_status": _Tool("know", lambda pod, _: {"pod": pod}),
    "view_screen": _Tool("look", lambda pod, _: {"pod": pod}),
    "search_history": _Tool("look", lambda pod, _: {"query": "ready", "pod": pod}),
    "send_input": _Tool(
        "type", lambda pod, who: {"pod": pod, "text": "x", "idempotency_key": f"{who} {pod}"}, itself="not_allowed"
    ),
    "mark": _Tool("type", lambda pod, _: {"pod": pod, "label": "here"}),
    "request_binding": _Tool(
        "know", lambda pod, _: {"pod": pod, "scopes": ["terminal:read"]}, people="not_for_role", itself="bad_input"
    ),
    "wait_for": _Tool("know", lambda pod, _: {"pod": pod, "timeout_s": 0}, people="not_for_role", itself="bad_input"),
    "post_message": _Tool("know", lambda pod, _: {"to": pod, "text": "hello"}),
    "offer_handoff": _Tool("know", lambda pod, _: {"to": pod, "note": "take it"}, itself="bad_input"),
    "create_channel": _Tool("know", lambda pod, who: {"name": f"by-{_number(who)}-{len(pod)}", "members": [pod]}),
    "query_raw_memories": _Tool("look", lambda pod, _: {"query": "ready", "pod": pod}),
    "handoff_session": _Tool(
        "know", lambda pod, _: {"to": pod, "note": "go on"}, people="bad_input", itself="bad_input"
    ),
    "resume_pod": _Tool("know", lambda pod, _: {"pod": pod, "check": True}, agents="not_for_role"),
    "join_channel": _Tool("know", lambda pod, who: {"channel": f"own-{_number(who)}", "members": [pod]}),
}
_LISTS = (
    "whoami",
    "list_pods",
    "list_bindings",
    "list_channels",
    "list_waits",
    "list_handoffs",
    "read_inbox",
    "list_sessions",
)
_BY_HANDLE = {
    "answer_binding",
    "unbind",
    "acknowledge",
    "leave_channel",
    "cancel_wait",
    "accept_handoff",
    "decline_handoff",
    "resume_session",
    "finish_session",
    "add_memory",
    "get_session_memories",
    "save_summary",
    "get_summary",
}
"""Those that take what one was given in hand; tests/up/test_s07_handles.py tries them with another's."""


async def test_s8_every_tool_is_in_this_matrix(place: AccessMatrix) -> None:
    async with place.agent("stranger") as agent:
        tools = {str(tool["name"]) for tool in await agent.tools()}

    assert tools == {*_TOOLS, *_LISTS, *_BY_HANDLE}


def _told(who: Who, tool: _Tool) -> str:
    """What somebody who calls a tool is told: that it is done, or the code of a refusal."""
    if who == "operator":
        return tool.people
    if tool.agents is not None:
        return tool.agents
    if who == "itself":
        return tool.itself
    if tool.needs == "know":
        return "no_such_pod" if who in STRANGERS else "in"
    return _expected(who, tool.needs)


async def _call(agent: Agent, who: Who, name: str, pod: str) -> tuple[str, Json]:
    if name == "join_channel":
        await agent.result("create_channel", name=_TOOLS[name].given(pod, who)["channel"])
    result = await agent.result(name, **_TOOLS[name].given(pod, who))
    content = cast(Json, result["structuredContent"])
    return (str(cast(Json, content["error"])["code"]) if result.get("isError") else "in"), content


async def test_s8_who_calls_a_tool_is_answered_or_refused_by_this_table(place: AccessMatrix) -> None:
    everybody: tuple[Who, ...] = ("operator", *_AGENTS)
    offenders: list[str] = []
    for who in everybody:
        async with place.agent(who) as agent:
            for name, tool in _TOOLS.items():
                for raw in list(place.namings())[1::2]:  # by its name, and the beginning of its id
                    told, content = await _call(agent, who, name, raw)
                    if told != _told(who, tool):
                        offenders.append(f"{who}: {name} of {raw}: {content}, and not {_told(who, tool)}")

    assert not offenders, "\n".join(offenders)


async def test_s8_who_only_looks_changes_nothing_by_a_tool(place: AccessMatrix) -> None:
    offenders: list[str] = []
    async with place.agent("viewer") as viewer:
        for name in _TOOLS:
            told, content = await _call(viewer, "viewer", name, TARGET)
            reads = name in ("get_status", "view_screen", "search_history", "query_raw_memories")
            if told not in (("in",) if reads else ("not_for_role", "scope_missing")):
                offenders.append(f"{name}: {content}")

    assert not offenders, "\n".join(offenders)


async def test_s8_runners_and_those_without_a_token_have_no_tools(place: AccessMatrix) -> None:
    statuses: dict[Who, int] = {"runner": 403, "nobody": 401}
    offenders: list[str] = []
    for who, status in statuses.items():
        for name in _TOOLS:
            message: Json = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": name, "arguments": {}},
            }
            answer = await place.come(who, "POST", "/mcp", message)
            if answer.status != status:
                offenders.append(f"{who}: {name}: {answer.status}, and not {status}")

    assert not offenders, "\n".join(offenders)


async def test_s8_a_tool_tells_a_stranger_the_same_of_a_pod_as_of_none(place: AccessMatrix) -> None:
    offenders: list[str] = []
    for who in STRANGERS:
        async with place.agent(who) as agent:
            for name in _TOOLS:
                for raw, nobody in list(place.namings().items())[1::2]:
                    _, there = await _call(agent, who, name, raw)
                    _, nowhere = await _call(agent, who, name, nobody)
                    if json.dumps(there).replace(raw, nobody) != json.dumps(nowhere):
                        offenders.append(f"{who}: {name} of {raw}: {there}, and of none {nowhere}")

    assert not offenders, "\n".join(offenders)


async def test_s8_no_list_names_to_a_stranger_whom_it_does_not_know(place: AccessMatrix) -> None:
    offenders: list[str] = []
    for who in STRANGERS:
        async with place.agent(who) as agent:
            for name in _LISTS:
                told = json.dumps(await agent.call(name))
                past = name == "read_inbox" and who == "former"  # what it was told while it was bound is its own
                hidden = {place.target.id, place.target.session, TARGET, "neighbour"} - ({TARGET} if past else set())
                offenders += [f"{who}: {name} tells {each}" for each in hidden if each in told]

    assert not offenders, "\n".join(offenders)


async def test_s8_the_list_of_pods_has_those_that_one_knows_and_no_others(place: AccessMatrix) -> None:
    offenders: list[str] = []
    for who in _AGENTS:
        async with place.agent(who) as agent:
            listed = {str(pod["name"]) for pod in cast(list[Json], (await agent.call("list_pods"))["pods"])}
        own = set[str]() if who.startswith("outside") else {who}
        known = own | (set[str]() if who in STRANGERS else {TARGET})
        if who != "itself" and listed != known:
            offenders.append(f"{who}: {listed}, and not {known}")

    assert not offenders, "\n".join(offenders)
