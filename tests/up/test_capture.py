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
from structlog.testing import capture_logs

from chaos.machine import until
from scrubjay import hook
from scrubjay.errors import CatalogUnavailable
from scrubjay.fleet.memories import Memory
from scrubjay.fleet.sessions import Holder, pod_holder
from scrubjay.ids import SessionId
from scrubjay.pods.pod import Pod
from scrubjay.server.sessions import capture
from scrubjay.server.sessions.capture import Capture
from scrubjay.store.capture import read_progress
from scrubjay.store.memories import list_memories
from scrubjay.store.sessions import get_session, grant
from scrubjay.tape.record import Json
from up.agents import open_agents
from up.machine import Machine, open_machine

pytestmark = pytest.mark.anyio

_ID = "5e0b7e0c-3b8a-4a83-9d0a-0123456789ab"
_names = count(1)


@pytest.fixture(scope="module")
async def machine(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Machine]:
    """One whose server captures nothing by itself: that is done and undone here."""
    async with open_machine(tmp_path_factory.mktemp("machine"), capture_turns=False) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(capture, "SETTLE_S", 0.01)


@asynccontextmanager
async def _capturing(machine: Machine) -> AsyncGenerator[None]:
    task = asyncio.create_task(Capture(machine.server.tower).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _start(machine: Machine) -> Pod:
    return await machine.start("cat", name=f"teller-{next(_names)}")


async def _tell(pod: Pod, event: str, turn: str, **more: object) -> None:
    told: Json = {"hook_event_name": event, "session_id": _ID, "prompt_id": turn, **more}
    await asyncio.to_thread(hook.report, str(pod.folder), "claude", told)


async def _converse(pod: Pod, number: int) -> None:
    await _tell(pod, "UserPromptSubmit", f"t{number}", prompt=f"question {number}")
    await _tell(pod, "PreToolUse", f"t{number}", tool_name="Bash")
    await _tell(pod, "Stop", f"t{number}", last_assistant_message=f"answer {number}")


def _session(machine: Machine, pod: Pod) -> SessionId:
    return SessionId(machine.server.tower.pods[pod.id].report.session)


async def _memories(machine: Machine, pod: Pod) -> list[Memory]:
    session = _session(machine, pod)
    return await machine.server.tower.database.read(lambda connection: list_memories(connection, session, limit=1000))


async def _await_memories(machine: Machine, pod: Pod, wanted: int) -> list[Memory]:
    deadline = asyncio.get_running_loop().time() + 20
    while len(found := await _memories(machine, pod)) < wanted:
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.02)
    return found


def _said(memories: list[Memory]) -> list[tuple[int, str, str]]:
    return [(memory.seq, memory.turn.prompt, memory.turn.response) for memory in memories]


def _turns(*numbers: int) -> list[tuple[int, str, str]]:
    return [(seq, f"question {number}", f"answer {number}") for seq, number in enumerate(numbers, 1)]


async def test_turns_are_remembered_as_they_end_with_the_instant_on_the_tape(machine: Machine) -> None:
    async with _capturing(machine):
        pod = await _start(machine)
        await _converse(pod, 1)
        await _await_memories(machine, pod, 1)
        await _converse(pod, 2)
        found = await _await_memories(machine, pod, 2)

    assert _said(found) == _turns(1, 2)
    first = found[0]
    assert (first.source, first.epoch, first.turn.tools) == ("hook", 1, ("Bash",))
    assert first.tape is not None
    record = next(record for record in machine.server.tower.open_tape(pod.id).records(first.tape.offset or 0))
    assert (record.json()["response"], record.at) == ("answer 1", first.tape.at)
    session = await machine.server.tower.database.read(lambda c: get_session(c, _session(machine, pod)))
    assert (session.holder, session.epoch, session.state) == (pod_holder(pod.id), 1, "open")
    await machine.stop(pod)


async def test_whenever_it_is_broken_off_and_by_however_many_it_is_done_no_turn_is_lost_or_there_twice(
    machine: Machine,
) -> None:
    pod = await _start(machine)
    lengths_s = (0.0, 0.003, 0.03, 0.06, 0.01)
    broken_off = useful = 0

    async def talk() -> None:
        for number in range(1, 31):
            await _converse(pod, number)
            await asyncio.sleep(0.1)

    talking = asyncio.create_task(talk())
    while not talking.done():
        before = len(await _memories(machine, pod))
        async with _capturing(machine), _capturing(machine):
            await asyncio.sleep(lengths_s[broken_off % len(lengths_s)])
        broken_off += 1
        useful += len(await _memories(machine, pod)) > before
    await talking
    async with _capturing(machine):
        found = await _await_memories(machine, pod, 30)

    assert _said(found) == _turns(*range(1, 31))
    assert broken_off >= 20
    assert useful >= 3  # else nothing was broken off in the middle of anything
    await machine.stop(pod)


async def test_a_catalog_that_does_not_take_it_gets_it_later_and_once(machine: Machine) -> None:
    pod, tower = await _start(machine), machine.server.tower
    full = CatalogUnavailable("catalog", "the disk is full")

    with capture_logs() as logs, mock.patch.object(capture, "capture_turns", side_effect=full):
        async with _capturing(machine):
            await _converse(pod, 1)
            await until(lambda: any(line["event"] == "turns.not_captured" for line in logs), "it has failed")
    assert await _memories(machine, pod) == []

    async with _capturing(machine):
        found = await _await_memories(machine, pod, 1)
        await asyncio.sleep(0.3)

    assert _said(await _memories(machine, pod)) == _said(found) == _turns(1)
    assert tower.pods[pod.id].report.conversation == _ID
    await machine.stop(pod)


async def test_a_prompt_that_nothing_answered_is_remembered_when_the_pod_has_ended_and_the_tape_is_done(
    machine: Machine,
) -> None:
    async with _capturing(machine):
        pod = await _start(machine)
        await _converse(pod, 1)
        await _tell(pod, "UserPromptSubmit", "t2", prompt="question 2")
        await _await_memories(machine, pod, 1)
        await machine.stop(pod)
        found = await _await_memories(machine, pod, 2)

    assert _said(found) == [*_turns(1), (2, "question 2", "")]
    progress = await machine.server.tower.database.read(read_progress)
    assert progress[pod.id].done
    async with _capturing(machine):
        await asyncio.sleep(0.2)
    assert len(await _memories(machine, pod)) == 2


async def test_what_the_agent_remembers_itself_is_not_there_twice(machine: Machine) -> None:
    async with _capturing(machine), open_agents(machine, "rememberer") as (agent,):
        await _tell(agent.pod, "UserPromptSubmit", "t1", prompt="question 1")
        await until(lambda: machine.server.tower.pods[agent.pod.id].report.conversation == _ID, "it is heard")
        await agent.call("add_memory", prompt="question 1", thought="I know", response="what I say of it")
        await _tell(agent.pod, "Stop", "t1", last_assistant_message="answer 1")
        await _converse(agent.pod, 2)
        found = await _await_memories(machine, agent.pod, 2)
        listed = await agent.call("get_session_memories")

    assert [(memory.seq, memory.source, memory.turn.response) for memory in found] == [
        (1, "agent", "what I say of it"),
        (2, "hook", "answer 2"),
    ]
    assert [memory["seq"] for memory in cast(list[Json], listed["memories"])] == [1, 2]


async def test_who_lost_the_session_adds_nothing_more_to_it_and_takes_nothing_back(machine: Machine) -> None:
    async with _capturing(machine):
        pod, tower = await _start(machine), machine.server.tower
        await _converse(pod, 1)
        await _await_memories(machine, pod, 1)
        session = _session(machine, pod)
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
        other = await _start(machine)
        await _converse(other, 3)
        await _await_memories(machine, other, 1)  # by then the other tape was looked at, too
        await asyncio.sleep(0.5)

    assert _said(await _memories(machine, pod)) == _turns(1)
    now = await tower.database.read(lambda connection: get_session(connection, session))
    assert (now.holder, now.epoch) == (taken.holder, taken.epoch)
    await machine.stop(pod)
    await machine.stop(other)


async def test_an_agent_in_a_pod_tells_of_its_turns_by_its_own_environment(machine: Machine) -> None:
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
    async with _capturing(machine):
        pod = await machine.start("sh", "-c", f"{script}; sleep 60", name="own-hooks")
        found = await _await_memories(machine, pod, 1)

    assert _said(found) == [(1, "a question\n\nand another", "an answer")]
    await machine.stop(pod)


async def test_pods_without_an_agent_are_not_looked_through(machine: Machine) -> None:
    pod = await _start(machine)

    with mock.patch.object(Capture, "look", autospec=True) as look:
        async with _capturing(machine):
            await asyncio.sleep(0.3)

    assert pod.id not in [call.args[1] for call in look.call_args_list]
    await machine.stop(pod)


async def test_where_it_is_switched_off_nothing_is_remembered_and_nothing_is_lost(machine: Machine) -> None:
    pod = await _start(machine)
    await _converse(pod, 1)
    await until(lambda: machine.server.tower.pods[pod.id].report.conversation == _ID, "it is heard")
    await asyncio.sleep(0.5)

    assert await _memories(machine, pod) == []

    async with _capturing(machine):
        assert _said(await _await_memories(machine, pod, 1)) == _turns(1)
    await machine.stop(pod)


async def test_a_server_captures_turns_unless_it_is_told_not_to(tmp_path: Path) -> None:
    async with open_machine(tmp_path / "data") as machine:
        pod = await _start(machine)
        await _converse(pod, 1)

        assert _said(await _await_memories(machine, pod, 1)) == _turns(1)
