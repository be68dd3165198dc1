"""S7: what one agent was given in hand (waits, bindings, handoffs, messages, sessions) is worth nothing to another."""

from __future__ import annotations

import json
import re
from typing import cast

import pytest

from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import Raw, connected, messages_of, modern, modern_headers, result_of, whoami
from tests.up.agents import Agent, acquaint, open_agent, open_agents

pytestmark = pytest.mark.anyio

_UNKNOWN = "u" * 26


async def _handles(owner: Agent, other: Agent) -> dict[str, dict[str, str]]:
    """Handles of the owner's, by the tools that take one and the argument that does."""
    binding = str((await owner.call("request_binding", pod=other.name, scopes=["terminal:read"]))["id"])
    handoff = str((await owner.call("offer_handoff", note="for you", to=other.name))["id"])
    private = f"private-of-{owner.name}"
    await owner.call("create_channel", name=private, private=True, members=[other.name])
    message = str((await other.call("post_message", channel=private, text=f"@{owner.name} psst"))["id"])
    wait = str((await owner.call("wait_for", pod=other.name, timeout_s=0))["wait"])
    session = str((await owner.call("add_memory", prompt="a secret of mine"))["session_id"])
    return {
        "wait_for": {"wait": wait},
        "cancel_wait": {"wait": wait},
        "answer_binding": {"binding": binding},
        "unbind": {"binding": binding},
        "accept_handoff": {"handoff": handoff},
        "decline_handoff": {"handoff": handoff},
        "acknowledge": {"messages": message},
        "read_inbox": {"channel": private},
        "join_channel": {"channel": private},
        "leave_channel": {"channel": private},
        "post_message": {"channel": private},
        "add_memory": {"session_id": session},
        "get_session_memories": {"session_id": session},
        "query_raw_memories": {"session_id": session},
        "save_summary": {"session_id": session},
        "get_summary": {"session_id": session},
        "finish_session": {"session_id": session},
        "handoff_session": {"session_id": session},
    }


_NAMED = {"pod", "to", "channel", "name", "mentions", "members"}  # named by people, and looked up among whom one knows
_NEEDED: dict[str, Json] = {
    "answer_binding": {"accept": True},
    "wait_for": {"timeout_s": 0},
    "post_message": {"text": "hello"},
    "add_memory": {"prompt": "stolen"},
    "query_raw_memories": {"query": "secret"},
    "save_summary": {"text": "stolen"},
    "handoff_session": {"to": "friend", "note": "stolen"},
}
_ANSWERED = {"resume_session"}  # never refused: it has a test of its own


def _given(tool: str, argument: str, value: str) -> Json:
    return {argument: [value] if argument == "messages" else value, **_NEEDED.get(tool, {})}


async def test_s7_a_handle_of_another_is_the_same_as_one_that_does_not_exist(up: InProcessUp) -> None:
    async with open_agents(up, "owner", "friend", "thief") as [owner, friend, thief]:
        await acquaint(owner, friend, thief, channel="street")  # it knows them, and that is all
        handles = await _handles(owner, friend)
        tools = {str(tool["name"]): tool for tool in await thief.tools()}
        taking = {name for name, tool in tools.items() if _takes_a_handle(tool)}
        assert taking - _ANSWERED <= set(handles), "a tool that takes a handle is not tried"
        before = len(await up.deeds())

        for tool, which in handles.items():
            [(argument, handle)] = which.items()
            stolen = await thief.refusal(tool, **_given(tool, argument, handle))
            unknown = await thief.refusal(tool, **_given(tool, argument, _like(handle)))
            assert str(stolen["code"]).startswith("no_such_"), (tool, stolen)
            assert _nameless(stolen, handle) == _nameless(unknown, _like(handle)), tool

        assert len(await up.deeds()) == before  # nothing has changed
        assert (await owner.call("wait_for", wait=handles["wait_for"]["wait"], timeout_s=0))["state"] == "open"


def _takes_a_handle(tool: Json) -> bool:
    properties = set(cast(Json, cast(Json, tool["inputSchema"])["properties"]))
    return bool(properties & {"wait", "binding", "handoff", "messages", "session_id"})


def _like(handle: str) -> str:
    _, hash_, number = handle.partition("#")
    return f"nowhere#{number}" if hash_ else _UNKNOWN if len(handle) == 26 else "nowhere"


def _nameless(error: Json, handle: str) -> str:
    return str(error).replace(handle, "?").replace(handle.partition("#")[0], "?")


async def test_s7_handles_cannot_be_guessed(up: InProcessUp) -> None:
    async with open_agents(up, "one", "two") as [one, two]:
        await acquaint(one, two, channel="guess")
        handles = await _handles(one, two)

        for tool in ("wait_for", "answer_binding", "accept_handoff"):
            [handle] = handles[tool].values()
            assert len(handle) == 26  # of 32 letters: 130 random bits


async def test_s7_a_protocol_session_belongs_to_who_began_it(up: InProcessUp) -> None:
    async with (
        open_agents(up, "mine", "yours") as [mine, yours],
        connected(up.server.url, mine.token) as my_http,
        connected(up.server.url, yours.token) as your_http,
    ):
        session = Raw(my_http, "2025-06-18")
        await session.open()
        headers = {"Mcp-Session-Id": str(session.session), "MCP-Protocol-Version": "2025-06-18"}

        stolen = await your_http.post("/mcp", json=whoami(), headers=headers)
        unknown = await your_http.post("/mcp", json=whoami(), headers=headers | {"Mcp-Session-Id": _UNKNOWN})

        assert (stolen.status_code, stolen.content) == (unknown.status_code, unknown.content)
        assert stolen.status_code == 404
        assert (await session.call("whoami"))["name"] == "mine"
        assert "result" not in messages_of(stolen)[0]


@pytest.mark.parametrize("carrier", ["argument", "meta", "header", "query"])
async def test_s7_a_session_of_another_is_the_same_as_none_however_it_is_named(up: InProcessUp, carrier: str) -> None:
    async with (
        open_agent(up, "agent", f"victim-{carrier}") as victim,
        open_agent(up, "agent", f"thief-{carrier}") as thief,
    ):
        session = str((await victim.call("add_memory", prompt="a secret"))["session_id"])

        stolen, unknown = [await _come_for(up, thief, carrier, wanted) for wanted in (session, _UNKNOWN)]

        for answer, wanted in ((stolen, session), (unknown, _UNKNOWN)):
            assert "secret" not in json.dumps(answer)
            answer.pop("session_id", None)
            assert wanted in json.dumps(answer)
        assert _placeless(stolen, session) == _placeless(unknown, _UNKNOWN)
        mine = await victim.call("get_session_memories")
        assert [memory["prompt"] for memory in cast(list[Json], mine["memories"])] == ["a secret"]


async def _come_for(up: InProcessUp, thief: Agent, carrier: str, wanted: str) -> Json:
    """What somebody is told who comes with a session's id, over a connection of its own."""
    headers = {"Scrubjay-Connection": wanted} | ({"Scrubjay-Session": wanted} if carrier == "header" else {})
    path = f"/mcp?session={wanted}" if carrier == "query" else "/mcp"
    arguments = {"session_id": wanted} if carrier == "argument" else {}
    tool = "resume_session" if carrier == "argument" else "get_session_memories"
    message = modern("tools/call", name=tool, arguments=arguments)
    if carrier == "meta":
        cast(Json, cast(Json, message["params"])["_meta"])["dev.scrubjay/session"] = wanted
    async with connected(up.server.url, thief.token) as http:
        response = await http.post(path, json=message, headers=modern_headers(message) | headers)
    return cast(Json, result_of(response)["structuredContent"])


def _placeless(answer: Json, wanted: str) -> str:
    """An answer without the ids that are in it."""
    return re.sub(r"\b[a-z2-7]{26}\b", "ID", json.dumps(answer).replace(wanted, "WANTED"))


async def test_s7_no_argument_makes_an_agent_somebody_else(up: InProcessUp) -> None:
    async with open_agents(up, "self", "else") as [me, other]:
        await acquaint(me, other, channel="roles")
        for argument in ("principal", "actor", "author", "as", "session", "initiator", "party"):
            refused = await me.refusal("post_message", channel="roles", text="as another", **{argument: other.name})
            assert refused["code"] == "bad_arguments", argument
        said = await me.call("post_message", channel="roles", text="as myself")
        assert said["author"] == "self"
