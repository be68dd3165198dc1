"""Messages into terminals: typed at the prompt of an agent that waits there; once, in order, never into its work."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from unittest import mock

import pytest

from chaos.machine import until
from scrubjay.fleet import errand
from scrubjay.fleet.access import Principal
from scrubjay.server.coordination import courier, prompts
from scrubjay.wire.messages import Type
from up.faulty_runner import FAULTS, Fate, faulty
from up.listeners import Listener, start_listener, start_listening
from up.machine import Machine, open_machine

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient() -> Generator[None]:
    """Nobody waits for long: tests would."""
    with (
        mock.patch.object(courier, "REST_S", 0.5),
        mock.patch.object(courier, "AGAIN_AFTER_S", 0.2),
        mock.patch.object(prompts, "RESTED_S", 0.3),
        mock.patch.object(prompts, "QUIET_S", 0.5),
        mock.patch.object(errand, "SHOWN_WITHIN_S", 1.5),
    ):
        yield


@pytest.fixture(scope="module")
async def other(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Listener:
    """Somebody who is told things meanwhile."""
    return await start_listener(machine, "other", tmp_path_factory.mktemp("other"))


async def _stays_untold(listener: Listener, other: Listener, heard: int = 0) -> None:
    """See that nothing is typed while somebody else is told two things."""
    for _ in range(2):
        count = len(other.heard)
        await other.tell("meanwhile")
        await other.hears(count + 1)
    assert len(listener.heard) == heard


async def test_a_message_is_typed_and_submitted_and_known_to_have_come(machine: Machine, tmp_path: Path) -> None:
    listener = await start_listener(machine, "idle", tmp_path)

    await listener.tell("please look\nat the tests")

    (line,) = await listener.hears(1)
    assert line.startswith("[inbox#1: Message from tester, a person, to you alone: «please look at the tests»")
    assert line.endswith(" inbox#1]")
    await listener.has_all(1)
    assert listener.typed() == ["[inbox#1:", line.removeprefix("[inbox#1:"), "\r"]
    await until(lambda: machine.server.tower.keyboards.holder(listener.pod.id) is None, "the keyboard is free")
    kinds = [str(event["kind"]) for event in await machine.events(listener.pod)]
    assert kinds.index("keyboard.taken") < kinds.index("message.delivered")
    await machine.stop(listener.pod)


async def test_messages_come_one_after_the_other_and_none_into_its_work(machine: Machine, tmp_path: Path) -> None:
    listener = await start_listener(machine, "busy", tmp_path, "--work-ms", "1500")
    for number in range(4):
        await listener.tell(f"number {number}")

    heard = await listener.hears(1)
    await listener.becomes("executing")
    assert len(heard) == 1
    assert len(listener.typed()) == 3, "the next waits until it is done"

    heard = await listener.hears(4, within_s=40)
    assert [f"«number {number}»" in line for number, line in enumerate(heard)] == [True] * 4
    await listener.has_all(4)
    await machine.stop(listener.pod)


async def test_a_question_to_a_person_is_not_answered_with_a_message(
    machine: Machine, tmp_path: Path, other: Listener
) -> None:
    actor = Path(__file__).parent.parent / "agents" / "actor.py"
    script = '[["say", "idle"], ["wait", 1], ["say", "blocked:kind=permission"], ["read"], ["wait", 60]]'
    argv = ("python3", "-I", "-S", str(actor), script, str(tmp_path / "log"))
    asker = await start_listening(machine, "asker", tmp_path / "none", *argv)
    await asker.becomes("waiting")

    await asker.tell("yes, whatever")

    await _stays_untold(asker, other)
    assert asker.typed() == []
    assert await asker.deliveries() == [("queued", None)]
    await machine.stop(asker.pod)


async def test_a_program_that_is_no_agent_is_not_typed_to_unless_that_is_wanted(
    machine: Machine, tmp_path: Path, other: Listener
) -> None:
    shell = await start_listener(machine, "stranger", tmp_path, agent=None)

    await shell.tell("rm -rf /")

    await _stays_untold(shell, other)
    assert await shell.deliveries() == [("queued", None)]
    await machine.stop(shell.pod)


async def test_all_programs_are_typed_to_if_that_is_wanted(tmp_path: Path) -> None:
    async with open_machine(tmp_path / "home", type_messages="all") as machine:
        listener = await start_listener(machine, "stranger", tmp_path, agent=None)
        reader = await start_listening(
            *(machine, "reader", tmp_path / "read"),
            *("sh", "-c", f"while read -r line; do printf '%s\\n' \"$line\" >> {tmp_path}/read; done"),
            agent=None,
        )
        for each in (listener, reader):
            await each.tell("hello")
            await each.tell("hello again")

        for each in (listener, reader):
            heard = await each.hears(2)
            assert ["«hello»" in heard[0], "«hello again»" in heard[1]] == [True, True]
            await each.has_all(2)
            assert each.typed().count("\r") == 2


async def test_nobody_is_typed_to_if_that_is_not_wanted(tmp_path: Path) -> None:
    async with open_machine(tmp_path / "home", type_messages="none") as machine:
        listener = await start_listener(machine, "left-alone", tmp_path)

        await listener.tell("hello")
        await start_listener(machine, "later", tmp_path)

        assert listener.typed() == []
        assert await listener.deliveries() == [("queued", None)]


async def test_a_line_that_somebody_is_writing_is_not_mixed_up_with_a_message(
    machine: Machine, tmp_path: Path, other: Listener
) -> None:
    listener = await start_listener(machine, "shared", tmp_path)
    await machine.post(f"/api/v1/pods/{listener.pod.id}/input", {"text": "please fix the"})
    await listener.tell("hello")
    await _stays_untold(listener, other)
    assert listener.typed() == []
    taken = await machine.events(listener.pod, "keyboard.taken")
    assert len(taken) == 1, "nobody takes the keyboard only to see that"

    await machine.post(f"/api/v1/pods/{listener.pod.id}/input", {"text": " tests", "enter": True})

    first, second = await listener.hears(2)
    assert first == "please fix the tests"
    assert "«hello»" in second
    await machine.stop(listener.pod)


async def test_who_has_the_keyboard_is_not_interrupted(machine: Machine, tmp_path: Path, other: Listener) -> None:
    listener = await start_listener(machine, "held", tmp_path)
    async with machine.look(f"/api/v1/pods/{listener.pod.id}/live") as viewer:
        await viewer.take_keyboard()
        await listener.tell("hello")
        await _stays_untold(listener, other)

    await listener.hears(1)
    await machine.stop(listener.pod)


async def test_what_was_read_in_the_inbox_is_not_typed(machine: Machine, tmp_path: Path, other: Listener) -> None:
    listener = await start_listener(machine, "reads", tmp_path, "--work-ms", "2500")
    await listener.tell("first")
    await listener.has_all(1)
    await listener.becomes("executing")
    await listener.tell("second")
    coordination = machine.server.coordination
    principal = Principal("token:reader", "pod", listener.pod.name, listener.pod.id)
    await coordination.channels.inbox(coordination.reception.actor(principal))

    await listener.becomes("idle")

    await _stays_untold(listener, other, heard=1)
    assert [how for _, how in await listener.deliveries()] == ["typed", "inbox"]
    await machine.stop(listener.pod)


async def test_an_enter_that_was_swallowed_is_pressed_again(machine: Machine, tmp_path: Path) -> None:
    listener = await start_listener(machine, "swallows-enter", tmp_path, "--swallow-enters", "2")

    await listener.tell("hello")

    assert len(await listener.hears(1)) == 1
    await listener.has_all(1)
    assert listener.typed().count("\r") == 3
    assert len(listener.typed()) == 5, "the line itself is typed once"
    await machine.stop(listener.pod)


@pytest.mark.parametrize("swallowed", [1, 2])
async def test_a_text_that_was_swallowed_is_typed_again(machine: Machine, tmp_path: Path, swallowed: int) -> None:
    listener = await start_listener(machine, f"swallows-{swallowed}", tmp_path, "--swallow-texts", str(swallowed))

    await listener.tell("hello")

    (line,) = await listener.hears(1, within_s=40)
    assert line.count("inbox#1:") == 1
    await listener.has_all(1)
    await machine.stop(listener.pod)


async def test_what_never_shows_is_left_to_the_inbox(machine: Machine, tmp_path: Path, other: Listener) -> None:
    listener = await start_listener(machine, "deaf", tmp_path, "--swallow-texts", "100")

    await listener.tell("hello")

    await until(lambda: listener.typed().count("[inbox#1:") == 3, "it is tried three times", within_s=60)
    await _stays_untold(listener, other)
    assert listener.typed() == ["[inbox#1:"] * 3, "nothing of somebody's text, and no Enter"
    assert await listener.deliveries() == [("queued", None)]
    await machine.stop(listener.pod)


# What gets lost.


@pytest.mark.parametrize("fate", FAULTS)
@pytest.mark.parametrize("lost", ["turn", "opening", "rest", "enter"])
async def test_whatever_answer_got_lost_it_comes_once(machine: Machine, tmp_path: Path, fate: Fate, lost: str) -> None:
    listener = await start_listener(machine, f"{lost}-{fate.lower()}", tmp_path)
    left = 2

    def fate_of(typed: Type) -> Fate:
        nonlocal left
        if left and typed.author == "scrubjay:message" and _part(typed.data) == lost:
            left -= 1
            return fate
        return "Done"

    with faulty(fate_of):
        await listener.tell("first")
        await listener.hears(1)
        await listener.has_all(1)
        await listener.tell("second")
        await listener.hears(2)
        await listener.has_all(2)

    assert left == 0
    assert ["«first»" in listener.heard[0], "«second»" in listener.heard[1]] == [True, True]
    assert len(listener.heard) == 2
    await machine.stop(listener.pod)


def _part(data: bytes) -> str:
    if not data:
        return "turn"
    return "enter" if data == b"\r" else "opening" if data.startswith(b"[") else "rest"


@pytest.mark.parametrize("last", ["turn", "opening", "rest", "enter"])
async def test_a_server_that_was_stopped_in_the_middle_goes_on_there(tmp_path: Path, last: str) -> None:
    """The answer to one part never comes, and then the server is gone."""
    stopped = asyncio.Event()

    def fate_of(typed: Type) -> Fate:
        if typed.author == "scrubjay:message" and _part(typed.data) == last:
            stopped.set()
            return "Never"
        return "Done"

    async with open_machine(tmp_path / "home", pods_go_on=True) as machine:
        listener = await start_listener(machine, "lasting", tmp_path)
        with faulty(fate_of):
            await listener.tell("first")
            await asyncio.wait_for(stopped.wait(), 20)

    async with open_machine(tmp_path / "home") as machine:
        listener.machine = machine
        await until(lambda: machine.is_running(listener.pod), "it is found")
        await listener.tell("second")
        heard = await listener.hears(2)
        await listener.has_all(2)

        assert ["«first»" in heard[0], "«second»" in heard[1]] == [True, True]
        assert len(listener.heard) == 2
        assert listener.typed().count("[inbox#1:") == 1


@pytest.mark.parametrize("last", ["turn", "opening", "rest"])
async def test_a_message_goes_to_the_pod_that_goes_on_with_the_session(
    machine: Machine, tmp_path: Path, last: str
) -> None:
    first = await start_listener(machine, f"before-{last}", tmp_path)
    reached = asyncio.Event()

    def fate_of(typed: Type) -> Fate:
        if typed.author == "scrubjay:message" and _part(typed.data) == last:
            reached.set()
            return "ExecuteAndTimeout"
        return "Done"

    with faulty(fate_of):
        await first.tell("hello")
        await asyncio.wait_for(reached.wait(), 20)
        await machine.stop(first.pod)
    second = await start_listener(machine, f"after-{last}", tmp_path, session=first.pod.session)

    (line,) = await second.hears(1)

    assert "«hello»" in line
    assert first.heard == []
    await second.has_all(1)
    await machine.stop(second.pod)
