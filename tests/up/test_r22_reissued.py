"""R22: an agent whose answer got lost calls again with the same key, and nothing is done a second time."""

from __future__ import annotations

from typing import cast

import httpx
import pytest

from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.support.tiers import sized
from tests.up.agents import Agent, acquaint, bind, open_agents
from tests.up.cutting_proxy import open_cutting_proxy

pytestmark = pytest.mark.anyio

_ROUNDS = sized(10, 100, 1000)


async def _lose(cut: Raw, tool: str, **arguments: object) -> None:
    with pytest.raises(httpx.HTTPError):
        await cut.ask("tools/call", name=tool, arguments=arguments)


async def _typed(agent: Agent) -> list[bytes]:
    return [record.typed().data for record in agent.pod.tape().records() if record.kind == Kind.INPUT]


async def test_r22_what_is_typed_is_typed_once_however_often_its_answer_is_lost(up: InProcessUp) -> None:
    async with (
        open_agents(up, "typer", "typed") as [typer, typed],
        open_cutting_proxy(up.server.url) as way,
        connected(way, typer.token) as http,
    ):
        await acquaint(typer, typed, channel="keys")
        await bind(typer, typed, "terminal:write")
        cut = Raw(http, MODERN_VERSION)

        for number in range(_ROUNDS):
            order: Json = {"pod": "typed", "text": f"line {number}", "enter": False, "idempotency_key": f"k{number}"}
            await _lose(cut, "send_input", **order)
            first = await typer.call("send_input", **order)
            assert await typer.call("send_input", **order) == first
            assert first["typed"] is True

        assert await _typed(typed) == [f"line {number}".encode() for number in range(_ROUNDS)]


async def test_r22_without_a_key_nothing_is_typed(up: InProcessUp) -> None:
    async with open_agents(up, "hasty", "calm") as [hasty, calm]:
        await acquaint(hasty, calm, channel="haste")
        await bind(hasty, calm, "terminal:write")

        refused = await hasty.refusal("send_input", pod="calm", text="now")

        assert "idempotency_key" in str(refused["message"])
        assert await _typed(calm) == []


async def test_r22_every_tool_that_makes_something_makes_it_once(up: InProcessUp) -> None:
    async with (
        open_agents(up, "maker", "taker") as [maker, taker],
        open_cutting_proxy(up.server.url) as way,
        connected(way, maker.token) as http,
    ):
        await acquaint(maker, taker, channel="once")
        cut = Raw(http, MODERN_VERSION)
        calls: dict[str, Json] = {
            "mark": {"label": "once"},
            "create_channel": {"name": "made-once"},
            "post_message": {"channel": "once", "text": "@taker once"},
            "offer_handoff": {"note": "once", "to": "taker"},
            "request_binding": {"pod": "taker", "scopes": ["terminal:read"]},
            "wait_for": {"pod": "taker", "timeout_s": 0},
            "add_memory": {"prompt": "once"},
            "handoff_session": {"to": "taker", "note": "once"},
        }
        listed = {str(tool["name"]) for tool in await maker.tools() if "idempotency_key" in str(tool["inputSchema"])}
        # Typing is tested above, and what is answered, ended or declined once cannot be a second time.
        others = {"send_input", "answer_binding", "unbind", "accept_handoff", "decline_handoff", "resume_pod"}
        assert listed == {*calls, *others}

        for tool, arguments in calls.items():
            await _lose(cut, tool, **arguments, idempotency_key="the key")
            first = await maker.call(tool, **arguments, idempotency_key="the key")
            again = await maker.call(tool, **arguments, idempotency_key="the key")
            assert _without_age(first) == _without_age(again), tool

        assert [record.kind for record in maker.pod.tape().records()].count(Kind.MARK) == 1
        said = cast(list[Json], (await taker.call("read_inbox", channel="once"))["messages"])
        assert [message["text"] for message in said] == ["@taker once"]
        offered = cast(list[Json], (await taker.call("list_handoffs"))["handoffs"])
        assert [handoff["note"] for handoff in offered] == ["once", "once"]  # an output, and a session
        remembered = cast(list[Json], (await maker.call("get_session_memories"))["memories"])
        assert [memory["seq"] for memory in remembered] == [1]
        waits = cast(list[Json], (await maker.call("list_waits"))["waits"])
        assert sorted(str(wait["source"]) for wait in waits) == ["binding", "declared"]


def _without_age(answer: Json) -> Json:
    return {name: value for name, value in answer.items() if name != "age_s"}
