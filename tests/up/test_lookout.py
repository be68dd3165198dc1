"""Circles and waits that take too long are written down once, with how they end, whatever happens to the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from scrubjay.server.coordination import lookout
from scrubjay.tape.record import Json
from tests.support.conditions import until_asked
from tests.support.in_process_up import InProcessUp, open_in_process_up
from tests.support.mcp_client import MODERN_VERSION as VERSION
from tests.support.mcp_client import Raw, connected
from tests.up.agents import Agent, acquaint, open_agent, open_agents

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "LOOK_EVERY_S", 0.05)


async def _events(up: InProcessUp, kind: str) -> list[Json]:
    return [cast(Json, event["data"]) for event in await up.events(kind=kind)]


async def _until_event(up: InProcessUp, kind: str, count: int = 1) -> list[Json]:
    async def enough() -> list[Json] | None:
        found = await _events(up, kind)
        return found if len(found) >= count else None

    return await until_asked(enough, f"there are {count} {kind}")


async def _wait(one: Agent, other: str, **more: object) -> str:
    return str((await one.call("wait_for", pod=other, timeout_s=0, **more))["wait"])


async def test_a_circle_is_kept_with_its_edges_and_how_it_ended(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path) as up, open_agents(up, "a", "b", "c") as [a, b, c]:
        await acquaint(a, b, c, channel="all")
        waits = [
            await _wait(a, "b", reason="of b"),
            await _wait(b, "c", reason="of c"),
            await _wait(c, "a", reason="of a"),
        ]
        [found] = await _until_event(up, "deadlock.found")
        edges = cast(list[Json], found["edges"])
        assert {str(edge["wait"]) for edge in edges} == set(waits)
        assert [(edge["waiter_name"], edge["on_name"], edge["reason"]) for edge in edges] == [
            ("c", "a", "of a"),
            ("a", "b", "of b"),
            ("b", "c", "of c"),
        ]
        assert found["cut"] == waits[-1]  # the youngest of equals

        await b.call("cancel_wait", wait=waits[1], reason="I go first")

        [ended] = await _until_event(up, "deadlock.ended")
        assert "I go first" in str(ended["outcome"])
        assert ended["deadlock"] == found["deadlock"]


async def test_the_same_parties_in_a_second_circle_are_told_of_when_the_first_is_gone(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path) as up, open_agents(up, "a", "b") as [a, b]:
        await acquaint(a, b, channel="both")
        first = await _wait(a, "b")
        await _wait(b, "a")
        await _until_event(up, "deadlock.found")
        await a.call("wait_for", pod="b", artifact="x", timeout_s=0)
        assert len(await _events(up, "deadlock.found")) == 1

        await a.call("cancel_wait", wait=first)

        assert len(await _until_event(up, "deadlock.found", 2)) == 2
        assert len(await _events(up, "deadlock.ended")) == 1


async def test_an_agent_outside_pods_in_a_circle_is_told_of_with_the_pod(tmp_path: Path) -> None:
    async with (
        open_in_process_up(tmp_path) as up,
        open_agents(up, "inner") as [inner],
        open_agent(up, "agent", "outer") as outer,
    ):
        await inner.call("create_channel", name="edge")
        await outer.call("join_channel", channel="edge")
        asked = await outer.call("request_binding", pod="inner", scopes=["terminal:read"])
        await inner.call("post_message", channel="edge", text="@outer first you", expects_reply=True)

        [event] = [event for event in await _found(up) if event["kind"] == "deadlock.found"]

        assert event["pod"] == inner.pod.id
        assert set(cast(list[str], cast(Json, event["data"])["names"])) == {"inner", "outer"}
        await inner.call("answer_binding", binding=asked["id"], accept=False)
        await _until_event(up, "deadlock.ended")


async def _found(up: InProcessUp) -> list[Json]:
    await _until_event(up, "deadlock.found")
    return await up.events(kind="deadlock.found")


async def test_a_wait_past_its_deadline_is_told_of_once_also_after_a_restart(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path, pods_go_on=True) as up:
        pods = [await up.start("cat", name=name) for name in ("late", "later")]
        tokens = [await up.token("pod", pod=pod.id) for pod in pods]
        async with _come(up, *tokens) as [late, later]:
            await acquaint(late, later, channel="lateness")
            await _wait(late, "later", reason="soon", deadline=0.2)
            [starved] = await _until_event(up, "wait.starved")
            assert (starved["waiter_name"], starved["on_name"], starved["reason"]) == ("late", "later", "soon")
            [wait] = cast(list[Json], (await late.call("list_waits"))["waits"])
            assert wait["starving"] is True

    async with open_in_process_up(tmp_path) as up, _come(up, *tokens) as [late, later]:
        await _wait(later, "late", deadline=0.2)  # when this is told, the other would have been, too
        assert len(await _until_event(up, "wait.starved", 2)) == 2


@asynccontextmanager
async def _come(up: InProcessUp, *tokens: str) -> AsyncGenerator[list[Agent]]:
    async with AsyncExitStack() as stack:
        yield [
            Agent("agent", Raw(await stack.enter_async_context(connected(up.server.url, token)), VERSION), token)
            for token in tokens
        ]
