"""What is typed for those who may ask twice: once, whatever became of the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrubjay.errors import BadInput, KeeperRefused, KeyboardHeld, PodNotRunning, ScrubjayError
from scrubjay.fleet.access import Principal
from scrubjay.pods.pod import Pod
from scrubjay.server.coordination.actors import Actor
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Type
from tests.support.conditions import until
from tests.support.faulty_runner import FAULTS, Fate, faulty
from tests.support.in_process_up import InProcessUp, open_in_process_up

pytestmark = pytest.mark.anyio

_ASKER = Principal("token:test", "operator", "asker")


def _actor(up: InProcessUp) -> Actor:
    return up.server.coordination.reception.actor(_ASKER)


async def _type(up: InProcessUp, pod: Pod, text: bytes, key: str, *, enter: bool = True) -> Json:
    known = up.server.tower.pods[pod.id]
    return await up.server.coordination.typist.type_once(_actor(up), known, text, enter=enter, key=key)


def _typed(pod: Pod) -> list[bytes]:
    """What was typed by anybody but a terminal, in order."""
    inputs = [record.typed() for record in pod.tape().records() if record.kind == Kind.INPUT]
    return [typed.data for typed in inputs if typed.author == "operator:asker"]


async def test_the_same_key_types_once_and_has_the_same_answer(up: InProcessUp) -> None:
    pod = await up.start("cat", name="cat-once")

    first = await _type(up, pod, b"hello", "one")
    again = await _type(up, pod, b"hello", "one")

    assert again == first
    assert first["typed"] is True
    assert _typed(pod) == [b"hello", b"\r"]
    await _type(up, pod, b"hello", "two")
    assert _typed(pod) == [b"hello", b"\r"] * 2
    await up.stop(pod)


@pytest.mark.parametrize("fate", FAULTS)
@pytest.mark.parametrize("lost", [b"", b"text", b"\r"], ids=["turn", "text", "enter"])
async def test_whatever_got_lost_the_next_try_types_the_rest(up: InProcessUp, fate: Fate, lost: bytes) -> None:
    pod = await up.start("cat", name=f"cat-{fate.lower()}-{lost.strip().decode() or len(lost)}")

    def fate_of(typed: Type) -> Fate:
        return fate if typed.data == lost else "Done"

    with faulty(fate_of), pytest.raises(KeeperRefused):
        await _type(up, pod, b"text", "key")
    answer = await _type(up, pod, b"text", "key")

    assert _typed(pod) == [b"text", b"\r"]
    assert await _type(up, pod, b"text", "key") == answer
    last = [record for record in pod.tape().records() if record.kind == Kind.INPUT][-1]
    assert answer == {"offset": last.end, "typed": True}
    await up.stop(pod)


async def test_what_another_key_has_typed_is_not_taken_for_it(up: InProcessUp) -> None:
    pod = await up.start("cat", name="cat-others")
    with faulty(lambda typed: "Timeout" if typed.data == b"yes" else "Done"), pytest.raises(KeeperRefused):
        await _type(up, pod, b"yes", "first")
    await _type(up, pod, b"yes", "second")

    await _type(up, pod, b"yes", "first")

    assert _typed(pod) == [b"yes", b"\r"] * 2
    await up.stop(pod)


async def test_a_server_that_was_started_again_knows_what_it_has_typed(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path / "home", pods_go_on=True) as up:
        pod = await up.start("cat", name="cat-restart")
        with (
            faulty(lambda typed: "ExecuteAndTimeout" if typed.data == b"text" else "Done"),
            pytest.raises(KeeperRefused),
        ):
            await _type(up, pod, b"text", "key")

    async with open_in_process_up(tmp_path / "home") as up:
        await until(lambda: up.is_running(pod), "it is found")
        await _type(up, pod, b"text", "key")

        assert _typed(pod) == [b"text", b"\r"]
        await up.stop(pod)


async def test_a_pod_that_has_ended_says_what_it_was_typed_and_takes_no_more(up: InProcessUp) -> None:
    pod = await up.start("cat", name="cat-ended")
    with faulty(lambda typed: "ExecuteAndTimeout" if typed.data == b"\r" else "Done"), pytest.raises(KeeperRefused):
        await _type(up, pod, b"text", "typed")
    with faulty(lambda typed: "ExecuteAndTimeout" if typed.data == b"text" else "Done"), pytest.raises(KeeperRefused):
        await _type(up, pod, b"text", "half")
    await up.stop(pod)

    assert (await _type(up, pod, b"text", "typed"))["typed"] is True
    with pytest.raises(PodNotRunning):
        await _type(up, pod, b"text", "half")
    with pytest.raises(PodNotRunning):
        await _type(up, pod, b"text", "new")


async def test_nothing_is_typed_into_what_somebody_else_types_into(up: InProcessUp) -> None:
    pod = await up.start("cat", name="cat-held")
    async with up.look(f"/api/v1/pods/{pod.id}/live") as viewer:
        await viewer.take_keyboard()

        with pytest.raises(KeyboardHeld):
            await _type(up, pod, b"text", "key")

    assert _typed(pod) == []
    await up.stop(pod)


async def test_nothing_at_all_is_refused(up: InProcessUp) -> None:
    pod = await up.start("cat", name="cat-nothing")

    with pytest.raises(BadInput):
        await _type(up, pod, b"", "key", enter=False)

    assert isinstance((await _type(up, pod, b"", "enter"))["offset"], int)
    assert _typed(pod) == [b"\r"]
    await up.stop(pod)


async def test_what_cannot_be_kept_is_not_typed(up: InProcessUp, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = await up.start("cat", name="cat-unkept")

    def fail(*_: object, **__: object) -> None:
        raise ScrubjayError("the catalog is full")

    monkeypatch.setattr("scrubjay.server.coordination.typist.intend", fail)
    with pytest.raises(ScrubjayError, match="full"):
        await _type(up, pod, b"text", "key")

    assert _typed(pod) == []
    await up.stop(pod)
