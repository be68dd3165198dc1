"""Turns of agents whose hooks tell of them are remembered without their help: all of them, in order, each once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast
from unittest import mock

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from scrubjay import hook
from scrubjay.errors import CatalogUnavailable
from scrubjay.fleet.memories import Memory
from scrubjay.fleet.sessions import Holder, pod_holder
from scrubjay.ids import SessionId
from scrubjay.pods.pod import Pod
from scrubjay.server.sessions import capture
from scrubjay.server.sessions.capture import Capture
from scrubjay.server.tower import KnownPod
from scrubjay.store.capture import read_progress
from scrubjay.store.memories import list_memories
from scrubjay.store.sessions import get_session, grant
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until
from tests.support.in_process_up import InProcessUp, open_in_process_up
from tests.up.agents import open_agents

pytestmark = pytest.mark.anyio

_ID = "5e0b7e0c-3b8a-4a83-9d0a-0123456789ab"
_names = count(1)


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[InProcessUp]:
    """One whose server captures nothing by itself: that is done and undone here."""
    async with open_in_process_up(tmp_path_factory.mktemp("machine"), capture_turns=False) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(capture, "SETTLE_S", 0.01)


class _CountedCapture(Capture):
    """Knows how often it has looked at all tapes that may have grown."""

    rounds = 0

    async def _wait(self) -> None:
        self.rounds += 1
        await super()._wait()

    async def looks_at_all(self) -> None:
        """Return when every tape as it is now has been looked at."""
        wanted = self.rounds + 1 + capture.BUSY_ROUNDS
        await until(lambda: self.rounds > wanted, "all tapes are looked at")


@asynccontextmanager
async def _capturing(up: InProcessUp) -> AsyncGenerator[_CountedCapture]:
    capturing = _CountedCapture(up.server.tower)
    task = asyncio.create_task(capturing.run())
    try:
        yield capturing
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _start(up: InProcessUp) -> Pod:
    return await up.start("cat", name=f"teller-{next(_names)}")


async def _tell(pod: Pod, event: str, turn: str, **more: object) -> None:
    told: Json = {"hook_event_name": event, "session_id": _ID, "prompt_id": turn, **more}
    await asyncio.to_thread(hook.report, str(pod.folder), "claude", told)


async def _converse(pod: Pod, number: int) -> None:
    await _tell(pod, "UserPromptSubmit", f"t{number}", prompt=f"question {number}")
    await _tell(pod, "PreToolUse", f"t{number}", tool_name="Bash")
    await _tell(pod, "Stop", f"t{number}", last_assistant_message=f"answer {number}")


def _session(up: InProcessUp, pod: Pod) -> SessionId:
    return SessionId(up.server.tower.pods[pod.id].report.session)


async def _memories(up: InProcessUp, pod: Pod) -> list[Memory]:
    session = _session(up, pod)
    return await up.server.tower.database.read(lambda connection: list_memories(connection, session, limit=1000))


async def _await_memories(up: InProcessUp, pod: Pod, wanted: int) -> list[Memory]:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while len(found := await _memories(up, pod)) < wanted:
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.01)
    return found


def _said(memories: list[Memory]) -> list[tuple[int, str, str]]:
    return [(memory.seq, memory.turn.prompt, memory.turn.response) for memory in memories]


def _turns(*numbers: int) -> list[tuple[int, str, str]]:
    return [(seq, f"question {number}", f"answer {number}") for seq, number in enumerate(numbers, 1)]


async def test_turns_are_remembered_as_they_end_with_the_instant_on_the_tape(up: InProcessUp) -> None:
    async with _capturing(up):
        pod = await _start(up)
        await _converse(pod, 1)
        await _await_memories(up, pod, 1)
        await _converse(pod, 2)
        found = await _await_memories(up, pod, 2)

    assert _said(found) == _turns(1, 2)
    first = found[0]
    assert (first.source, first.epoch, first.turn.tools) == ("hook", 1, ("Bash",))
    assert first.tape is not None
    record = next(record for record in up.server.tower.open_tape(pod.id).records(first.tape.offset or 0))
    assert (record.json()["response"], record.at) == ("answer 1", first.tape.at)
    session = await up.server.tower.database.read(lambda c: get_session(c, _session(up, pod)))
    assert (session.holder, session.epoch, session.state) == (pod_holder(pod.id), 1, "open")
    await up.stop(pod)


async def test_whenever_it_is_broken_off_and_by_however_many_it_is_done_no_turn_is_lost_or_there_twice(
    up: InProcessUp,
) -> None:
    pod = await _start(up)
    lengths_s = [0.0, 0.003, 0.03, 0.06, 0.01]  # until it is broken off
    useful = number = 0

    while number < 20 or useful < 3:  # else nothing was broken off in the middle of anything
        number += 1
        before = len(await _memories(up, pod))
        talking = asyncio.create_task(_converse(pod, number))
        async with _capturing(up), _capturing(up):
            await asyncio.sleep(lengths_s[number % len(lengths_s)])
        await talking
        gained = len(await _memories(up, pod)) > before
        useful += gained
        lengths_s = lengths_s if gained else [1.1 * length_s for length_s in lengths_s]  # for a busy machine
    async with _capturing(up):
        found = await _await_memories(up, pod, number)

    assert _said(found) == _turns(*range(1, number + 1))
    await up.stop(pod)


async def test_a_catalog_that_does_not_take_it_gets_it_later_and_once(up: InProcessUp) -> None:
    pod, tower = await _start(up), up.server.tower
    full = CatalogUnavailable("catalog", "the disk is full")

    with capture_logs() as logs, mock.patch.object(capture, "capture_turns", side_effect=full):
        async with _capturing(up):
            await _converse(pod, 1)
            await until(lambda: any(line["event"] == "turns.not_captured" for line in logs), "it has failed")
    assert await _memories(up, pod) == []

    async with _capturing(up) as capturing:
        found = await _await_memories(up, pod, 1)
        await capturing.looks_at_all()

    assert _said(await _memories(up, pod)) == _said(found) == _turns(1)
    assert tower.pods[pod.id].report.conversation == _ID
    await up.stop(pod)


async def test_a_prompt_that_nothing_answered_is_remembered_when_the_pod_has_ended_and_the_tape_is_done(
    up: InProcessUp,
) -> None:
    async with _capturing(up):
        pod = await _start(up)
        await _converse(pod, 1)
        await _tell(pod, "UserPromptSubmit", "t2", prompt="question 2")
        await _await_memories(up, pod, 1)
        await up.stop(pod)
        found = await _await_memories(up, pod, 2)

    assert _said(found) == [*_turns(1), (2, "question 2", "")]
    progress = await up.server.tower.database.read(read_progress)
    assert progress[pod.id].done
    async with _capturing(up) as capturing:
        await capturing.looks_at_all()
    assert len(await _memories(up, pod)) == 2


@pytest.mark.parametrize("end_is_reported", [True, False])
async def test_an_end_that_was_announced_before_it_was_known_is_seen_all_the_same(
    up: InProcessUp, *, end_is_reported: bool
) -> None:
    pod, pods = await _start(up), up.server.tower.pods
    await _converse(pod, 1)
    await _tell(pod, "UserPromptSubmit", "t2", prompt="question 2")
    await up.stop(pod)
    # Its conversation may be reported after its end.
    await until(lambda: (known := pods[pod.id].report).complete and known.conversation == _ID, "it has ended")
    known = pods[pod.id]

    async with _capturing(up) as capturing:
        pods[pod.id] = KnownPod(replace(known.report, complete=False), known.runner)
        await capturing.looks_at_all()
        pods[pod.id] = KnownPod(replace(known.report, end=known.report.end if end_is_reported else 0), known.runner)
        found = await _await_memories(up, pod, 2)

    assert _said(found) == [*_turns(1), (2, "question 2", "")]


async def test_what_the_agent_remembers_itself_is_not_there_twice(up: InProcessUp) -> None:
    async with _capturing(up), open_agents(up, "rememberer") as (agent,):
        await _tell(agent.pod, "UserPromptSubmit", "t1", prompt="question 1")
        await until(lambda: up.server.tower.pods[agent.pod.id].report.conversation == _ID, "it is heard")
        await agent.call("add_memory", prompt="question 1", thought="I know", response="what I say of it")
        await _tell(agent.pod, "Stop", "t1", last_assistant_message="answer 1")
        await _converse(agent.pod, 2)
        found = await _await_memories(up, agent.pod, 2)
        listed = await agent.call("get_session_memories")

    assert [(memory.seq, memory.source, memory.turn.response) for memory in found] == [
        (1, "agent", "what I say of it"),
        (2, "hook", "answer 2"),
    ]
    assert [memory["seq"] for memory in cast(list[Json], listed["memories"])] == [1, 2]


async def test_who_lost_the_session_adds_nothing_more_to_it_and_takes_nothing_back(up: InProcessUp) -> None:
    async with _capturing(up) as capturing:
        pod, tower = await _start(up), up.server.tower
        await _converse(pod, 1)
        await _await_memories(up, pod, 1)
        session = _session(up, pod)
        taken = await tower.database.write(
            lambda connection: grant(
                connection,
                get_session(connection, session),
                Holder("wire:ann:1"),
                held_by="ann",
                how="taken_over",
                wall_us=tower.clock.wall_us(),
            )
        )
        await _converse(pod, 2)
        other = await _start(up)
        await _converse(other, 3)
        await _await_memories(up, other, 1)  # what was told before that has come to its tape
        await capturing.looks_at_all()

    assert _said(await _memories(up, pod)) == _turns(1)
    now = await tower.database.read(lambda connection: get_session(connection, session))
    assert (now.holder, now.epoch) == (taken.holder, taken.epoch)
    await up.stop(pod)
    await up.stop(other)


async def test_an_agent_in_a_pod_tells_of_its_turns_by_its_own_environment(up: InProcessUp) -> None:
    told = r"""{"hook_event_name": "%s", "turn_id": "t", "session_id": "c", "%s": "%s"}"""
    line = f"{sys.executable} -I -S {hook.__file__} codex"
    script = "; ".join(
        f"echo '{told % (event, name, said)}' | {line}"
        for event, name, said in (
            ("UserPromptSubmit", "prompt", "a question"),
            ("UserPromptSubmit", "prompt", "and another"),
            ("Stop", "last_assistant_message", "an answer"),
        )
    )
    async with _capturing(up):
        pod = await up.start("sh", "-c", f"{script}; sleep 60", name="own-hooks")
        found = await _await_memories(up, pod, 1)

    assert _said(found) == [(1, "a question\n\nand another", "an answer")]
    await up.stop(pod)


async def test_pods_without_an_agent_are_not_looked_through(up: InProcessUp) -> None:
    pod = await _start(up)

    with mock.patch.object(Capture, "look", autospec=True) as look:
        async with _capturing(up) as capturing:
            await capturing.looks_at_all()

    assert pod.id not in [call.args[1] for call in look.call_args_list]
    await up.stop(pod)


async def test_where_it_is_switched_off_nothing_is_remembered_and_nothing_is_lost(up: InProcessUp) -> None:
    pod = await _start(up)
    await _converse(pod, 1)
    await up.stop(pod)
    await until(lambda: up.server.tower.pods[pod.id].report.complete, "it has ended, and all of it is known")

    assert await _memories(up, pod) == []

    async with _capturing(up):
        assert _said(await _await_memories(up, pod, 1)) == _turns(1)


async def test_a_server_captures_turns_unless_it_is_told_not_to(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path / "data") as up:
        pod = await _start(up)
        await _converse(pod, 1)

        assert _said(await _await_memories(up, pod, 1)) == _turns(1)
