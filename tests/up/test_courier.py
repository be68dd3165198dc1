"""Messages into terminals: typed at the prompt of an agent that waits there; once, in order, never into its work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from scrubjay.fleet import errand
from scrubjay.fleet.access import Principal
from scrubjay.server.coordination import courier, delivering, prompts
from scrubjay.status import detector
from scrubjay.wire.messages import Type
from tests.support.conditions import DEADLINE_S, until
from tests.support.faulty_runner import FAULTS, Fate, faulty
from tests.support.in_process_up import InProcessUp, open_in_process_up
from tests.support.listeners import Listener, start_listener, start_listening
from tests.support.paths import PROGRAMS
from tests.support.pods import end_pods

pytestmark = pytest.mark.anyio

_PARTS = ("turn", "opening", "rest", "enter")  # in which a message comes


@pytest.fixture(autouse=True)
def impatient() -> Generator[None]:
    """Nobody waits for long, but for what a busy machine may be late with: that is not taken for swallowed."""
    with (
        mock.patch.object(courier, "LOOK_EVERY_S", 0.02),
        mock.patch.object(courier, "REST_S", 0.2),
        mock.patch.object(courier, "AGAIN_AFTER_S", 0.05),
        mock.patch.object(delivering, "LOOK_EVERY_S", 0.02),
        mock.patch.object(prompts, "RESTED_S", 0.2),
        mock.patch.object(prompts, "QUIET_S", 0.2),
        mock.patch.object(errand, "SHOWN_WITHIN_S", DEADLINE_S),
        mock.patch.object(errand, "AGAIN_AFTER_S", DEADLINE_S),
    ):
        yield


@contextmanager
def _shortly(limit: str, times: int, part: str) -> Generator[None]:
    """Let a limit be short for as many strokes as the program swallows, and not for the one it takes."""

    def fate_of(typed: Type) -> Fate:
        nonlocal times
        if typed.author == "scrubjay:message" and _part(typed.data) == part:
            setattr(errand, limit, 0.3 if times else DEADLINE_S)
            times -= 1
        return "Done"

    with mock.patch.object(errand, limit, DEADLINE_S), faulty(fate_of):
        yield


@pytest.fixture(scope="module")
async def other(up: InProcessUp, tmp_path_factory: pytest.TempPathFactory) -> Listener:
    """Somebody who is told things meanwhile."""
    return await start_listener(up, "other", tmp_path_factory.mktemp("other"))


async def _stays_untold(listener: Listener, other: Listener, heard: int = 0) -> None:
    """See that nothing is typed while somebody else is told two things."""
    for _ in range(2):
        count = len(other.heard)
        await other.tell("meanwhile")
        await other.hears(count + 1)
    assert len(listener.heard) == heard


async def test_a_message_is_typed_and_submitted_and_known_to_have_come(up: InProcessUp, tmp_path: Path) -> None:
    listener = await start_listener(up, "idle", tmp_path)

    await listener.tell("please look\nat the tests")

    (line,) = await listener.hears(1)
    assert line.startswith("[inbox#1: Message from tester, a person, to you alone: «please look at the tests»")
    assert line.endswith(" inbox#1]")
    await listener.has_all(1)
    assert listener.typed() == ["[inbox#1:", line.removeprefix("[inbox#1:"), "\r"]
    await until(lambda: up.server.tower.keyboards.holder(listener.pod.id) is None, "the keyboard is free")
    kinds = [str(event["kind"]) for event in await up.events(listener.pod)]
    assert kinds.index("keyboard.taken") < kinds.index("message.delivered")
    await up.stop(listener.pod)


async def test_messages_come_one_after_the_other_and_none_into_its_work(
    up: InProcessUp, tmp_path: Path, other: Listener
) -> None:
    work = tmp_path / "work"
    work.touch()
    listener = await start_listener(up, "busy", tmp_path, "--work-while", str(work))
    for number in range(4):
        await listener.tell(f"number {number}")

    await listener.hears(1)
    await listener.becomes("executing")
    await _stays_untold(listener, other, heard=1)
    assert len(listener.typed()) == 3, "the next waits until it is done"

    work.unlink()
    heard = await listener.hears(4)
    assert [f"«number {number}»" in line for number, line in enumerate(heard)] == [True] * 4
    await listener.has_all(4)
    await up.stop(listener.pod)


async def test_a_question_to_a_person_is_not_answered_with_a_message(
    up: InProcessUp, tmp_path: Path, other: Listener
) -> None:
    actor = PROGRAMS / "actor.py"
    asks = tmp_path / "asks"
    script = [["say", "idle"], ["await", str(asks)], ["say", "blocked:kind=permission"], ["read"], ["wait", 60]]
    argv = ("python3", "-I", "-S", str(actor), json.dumps(script), str(tmp_path / "log"))
    asker = await start_listening(up, "asker", tmp_path / "none", *argv)
    asks.touch()
    await asker.becomes("waiting")

    await asker.tell("yes, whatever")

    await _stays_untold(asker, other)
    assert asker.typed() == []
    assert await asker.deliveries() == [("queued", None)]
    await up.stop(asker.pod)


async def test_a_program_that_is_no_agent_is_not_typed_to_unless_that_is_wanted(
    up: InProcessUp, tmp_path: Path, other: Listener
) -> None:
    shell = await start_listener(up, "stranger", tmp_path, agent=None)

    await shell.tell("rm -rf /")

    await _stays_untold(shell, other)
    assert await shell.deliveries() == [("queued", None)]
    await up.stop(shell.pod)


async def test_all_programs_are_typed_to_if_that_is_wanted(tmp_path: Path) -> None:
    # A program that says nothing is taken to work on a line for so long.
    with mock.patch.object(detector, "_TYPED_US", 500_000):
        async with open_in_process_up(tmp_path / "home", type_messages="all") as up:
            listener = await start_listener(up, "stranger", tmp_path, agent=None)
            reader = await start_listening(
                *(up, "reader", tmp_path / "read"),
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
    async with open_in_process_up(tmp_path / "home", type_messages="none") as up:
        listener = await start_listener(up, "left-alone", tmp_path)

        await listener.tell("hello")
        await start_listener(up, "later", tmp_path)

        assert listener.typed() == []
        assert await listener.deliveries() == [("queued", None)]


async def test_a_line_that_somebody_is_writing_is_not_mixed_up_with_a_message(
    up: InProcessUp, tmp_path: Path, other: Listener
) -> None:
    listener = await start_listener(up, "shared", tmp_path)
    await up.post(f"/api/v1/pods/{listener.pod.id}/input", {"text": "please fix the"})
    await listener.tell("hello")
    await _stays_untold(listener, other)
    assert listener.typed() == []
    taken = await up.events(listener.pod, "keyboard.taken")
    assert len(taken) == 1, "nobody takes the keyboard only to see that"

    await up.post(f"/api/v1/pods/{listener.pod.id}/input", {"text": " tests", "enter": True})

    first, second = await listener.hears(2)
    assert first == "please fix the tests"
    assert "«hello»" in second
    await up.stop(listener.pod)


async def test_who_has_the_keyboard_is_not_interrupted(up: InProcessUp, tmp_path: Path, other: Listener) -> None:
    listener = await start_listener(up, "held", tmp_path)
    async with up.look(f"/api/v1/pods/{listener.pod.id}/live") as viewer:
        await viewer.take_keyboard()
        await listener.tell("hello")
        await _stays_untold(listener, other)

    await listener.hears(1)
    await up.stop(listener.pod)


async def test_what_was_read_in_the_inbox_is_not_typed(up: InProcessUp, tmp_path: Path, other: Listener) -> None:
    work = tmp_path / "work"
    work.touch()
    listener = await start_listener(up, "reads", tmp_path, "--work-while", str(work))
    await listener.tell("first")
    await listener.has_all(1)
    await listener.becomes("executing")
    await listener.tell("second")
    coordination = up.server.coordination
    principal = Principal("token:reader", "pod", listener.pod.name, listener.pod.id)
    await coordination.channels.inbox(coordination.reception.actor(principal))

    work.unlink()
    await listener.becomes("idle")

    await _stays_untold(listener, other, heard=1)
    assert [how for _, how in await listener.deliveries()] == ["typed", "inbox"]
    await up.stop(listener.pod)


async def test_an_enter_that_was_swallowed_is_pressed_again(up: InProcessUp, tmp_path: Path) -> None:
    listener = await start_listener(up, "swallows-enter", tmp_path, "--swallow-enters", "2")

    with _shortly("AGAIN_AFTER_S", 2, "enter"):
        await listener.tell("hello")

        assert len(await listener.hears(1)) == 1
        await listener.has_all(1)
    assert listener.typed().count("\r") == 3
    assert len(listener.typed()) == 5, "the line itself is typed once"
    await up.stop(listener.pod)


async def test_a_text_that_was_swallowed_is_typed_again(up: InProcessUp, tmp_path: Path) -> None:
    listener = await start_listener(up, "swallows-text", tmp_path, "--swallow-texts", "2")

    with _shortly("SHOWN_WITHIN_S", 2, "opening"):
        await listener.tell("hello")

        (line,) = await listener.hears(1)
        await listener.has_all(1)
    assert line.count("inbox#1:") == 1
    assert listener.typed().count("[inbox#1:") == 3
    await up.stop(listener.pod)


async def test_what_never_shows_is_left_to_the_inbox(up: InProcessUp, tmp_path: Path, other: Listener) -> None:
    listener = await start_listener(up, "deaf", tmp_path, "--swallow-texts", "100")

    with mock.patch.object(errand, "SHOWN_WITHIN_S", 0.3):
        await listener.tell("hello")
        await until(lambda: listener.typed().count("[inbox#1:") == 3, "it is tried three times")

    await _stays_untold(listener, other)
    assert listener.typed() == ["[inbox#1:"] * 3, "nothing of somebody's text, and no Enter"
    assert await listener.deliveries() == [("queued", None)]
    await up.stop(listener.pod)


# What gets lost.


async def test_whatever_answer_got_lost_it_comes_once(up: InProcessUp, tmp_path: Path) -> None:
    listener = await start_listener(up, "loses", tmp_path)
    lost, left = "", 0
    fate: Fate = "Done"

    def fate_of(typed: Type) -> Fate:
        nonlocal left
        if left and typed.author == "scrubjay:message" and _part(typed.data) == lost:
            left -= 1
            return fate
        return "Done"

    cases: list[tuple[str, Fate]] = [(lost, fate) for lost in _PARTS for fate in FAULTS]
    with faulty(fate_of):
        for told, (lost, fate) in enumerate(cases, start=1):
            left = 2 if fate == "Timeout" else 1  # what was done is not asked for again
            await listener.tell(f"the {lost} meets {fate}")
            await listener.hears(told)
            await listener.has_all(told)
            assert left == 0, (lost, fate)
        await listener.tell("and all is well")
        await listener.hears(len(cases) + 1)
        await listener.has_all(len(cases) + 1)

    wanted = [*(f"«the {lost} meets {fate}»" for lost, fate in cases), "«and all is well»"]
    assert [text for line in listener.heard for text in wanted if text in line] == wanted
    assert len(listener.heard) == len(wanted)
    await up.stop(listener.pod)


def _part(data: bytes) -> str:
    if not data:
        return "turn"
    return "enter" if data == b"\r" else "opening" if data.startswith(b"[") else "rest"


@pytest.mark.parametrize("parts", [("opening", "enter"), pytest.param(("turn", "rest"), marks=pytest.mark.chaos)])
async def test_a_server_that_was_stopped_in_the_middle_goes_on_there(tmp_path: Path, parts: tuple[str, str]) -> None:
    """The answer to one part never comes, and then the server is gone; the next is stopped at the next part."""
    home, told = tmp_path / "home", 0
    try:
        async with open_in_process_up(home, pods_go_on=True) as up:
            listener = await start_listener(up, "lasting", tmp_path)
            await _tell_until(listener, parts[0])
        for last in (*parts[1:], None):
            async with open_in_process_up(home, pods_go_on=True) as up:
                listener.up = up
                await until(lambda: up.is_running(listener.pod), "it is found")
                await listener.tell("meanwhile")
                told += 2
                await listener.hears(told)
                await listener.has_all(told)
                if last is not None:
                    await _tell_until(listener, last)
    finally:
        end_pods(home)

    wanted = [text for last in parts for text in (f"«until the {last}»", "«meanwhile»")]
    assert [text in line for text, line in zip(wanted, listener.heard, strict=True)] == [True] * told
    openings = [typed for typed in listener.typed() if typed.startswith("[")]
    assert openings == [f"[inbox#{number + 1}:" for number in range(told)], "each is typed once"


async def _tell_until(listener: Listener, last: str) -> None:
    """Say something of which the answer to one part never comes."""
    stopped = asyncio.Event()

    def fate_of(typed: Type) -> Fate:
        if typed.author == "scrubjay:message" and _part(typed.data) == last:
            stopped.set()
            return "Never"
        return "Done"

    with faulty(fate_of):
        await listener.tell(f"until the {last}")
        await asyncio.wait_for(stopped.wait(), DEADLINE_S)


async def test_a_message_goes_to_the_pod_that_goes_on_with_the_session(up: InProcessUp, tmp_path: Path) -> None:
    pod = await start_listener(up, "before", tmp_path)
    for number, last in enumerate(["turn", "opening", "rest"]):
        reached = asyncio.Event()

        def fate_of(typed: Type) -> Fate:
            if typed.author == "scrubjay:message" and _part(typed.data) == last:  # noqa: B023
                reached.set()  # noqa: B023
                return "ExecuteAndTimeout"
            return "Done"

        before, heard = pod, pod.heard
        with faulty(fate_of):
            await before.tell(f"until the {last}")
            await asyncio.wait_for(reached.wait(), DEADLINE_S)
            await up.stop(before.pod)
        pod = await start_listener(up, f"after-{last}", tmp_path, session=before.pod.session)

        (line,) = await pod.hears(1)

        assert f"«until the {last}»" in line
        assert before.heard == heard
        await pod.has_all(number + 1)
    await up.stop(pod.pod)
