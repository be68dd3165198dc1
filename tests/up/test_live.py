"""A live pod: late viewers, the keyboard, and what viewers may not do."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed

from scrubjay.pods.pod import Pod
from scrubjay.server import live
from scrubjay.server.guard import LOCAL
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import until
from tests.support.in_process_up import InProcessUp, Onlooker

pytestmark = pytest.mark.anyio

_SHELL = ("bash", "--norc", "-c", 'stty -echo -icanon; echo ready; while read -r line; do echo "got $line"; done')


def _live(pod: Pod, query: str = "") -> str:
    return f"/api/v1/pods/{pod.name}/live{query}"


def _typed(pod: Pod) -> list[tuple[str, bytes, int | None]]:
    typed = [record.typed() for record in pod.tape().records() if record.kind == Kind.INPUT]
    return [(one.author, one.data, one.epoch) for one in typed]


async def test_a_late_viewer_gets_the_screen_first_and_then_everything_that_follows(up: InProcessUp) -> None:
    pod = await up.start("bash", "-c", "seq 1 3000; read -r line; echo after $line; sleep 100", name="late")
    await until(lambda: b"3000" in _shown(pod), "all was shown")

    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        assert b"2999" in viewer.keyframes[0]
        assert b"2850" in viewer.keyframes[0]  # it can scroll back
        await viewer.take_keyboard()
        await viewer.say(b"midnight\n")
        await viewer.until(lambda: b"after midnight" in viewer.output)

    assert viewer.size == (80, 24)
    assert len(viewer.keyframes) == 1
    assert viewer.offset <= pod.tape().end


async def test_what_a_viewer_was_sent_after_its_keyframe_is_the_tape_byte_for_byte(up: InProcessUp) -> None:
    pod = await up.start(
        "bash", "-c", "for i in $(seq 400); do echo line $i; sleep 0.002; done; sleep 100", name="flow"
    )

    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        start = viewer.offset
        await viewer.until(lambda: b"line 400\r\n" in viewer.output)

    records = [record for record in pod.tape().records() if record.offset >= start and record.kind == Kind.OUTPUT]
    assert bytes(viewer.output) == b"".join(record.payload for record in records)


async def test_a_viewer_that_was_cut_off_goes_on_where_it_was(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="again")
    async with up.look(_live(pod)) as stays, up.look(_live(pod)) as first:
        await stays.until(lambda: stays.keyframes)  # somebody else looks on, so the newest output is at hand
        await first.until(lambda: first.keyframes)
        await first.take_keyboard()
        await first.say(b"one\n")
        await first.until(lambda: b"got one" in first.output)
        left = first.offset
        await first.say(b"two\n")
        await stays.until(lambda: b"got two" in stays.output)

        async with up.look(_live(pod, f"?after={left}")) as second:
            await second.until(lambda: b"got two" in second.output)

    assert second.keyframes == []
    assert b"got one" not in second.output


async def test_viewers_are_told_of_a_new_size_and_of_marks_where_they_happen(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="sized")
    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        await up.post(f"/api/v1/pods/{pod.id}/resize", {"cols": 100, "rows": 30})
        resized = await viewer.told("resized")
        await up.post(f"/api/v1/pods/{pod.id}/mark", {"label": "here"})
        marked = await viewer.told("marked")

    assert (resized["cols"], resized["rows"]) == (100, 30)
    assert (marked["label"], marked["author"]) == ("here", f"operator:{LOCAL.name}")


async def test_only_who_has_the_keyboard_types_and_it_can_be_taken_over(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="keys")
    async with up.look(_live(pod)) as one, up.look(_live(pod)) as other:
        first = await one.take_keyboard()
        await other.say(b"not mine\n")
        assert (await other.told("refusal"))["message"] == f"{LOCAL.name} has the keyboard"
        await other.say({"type": "take"})
        assert f"{LOCAL.name} has the keyboard" in str((await other.told("refusal"))["message"])

        await other.say({"type": "take", "takeover": True})
        while not (told := await other.told("keyboard"))["mine"]:
            pass
        await one.say(b"too late\n")
        assert (await one.told("refusal"))["what"] == "input"
        await other.say(b"hello\n")
        await other.until(lambda: b"got hello" in other.output)

    assert int(str(told["epoch"])) > first
    assert [(data, epoch) for _, data, epoch in _typed(pod)] == [(b"hello\n", told["epoch"])]


async def test_what_arrives_at_once_is_done_in_its_order(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="order")
    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        # The keys wait for the keyboard, which takes a write of the catalog, and for the text before them.
        viewer.say_together({"type": "take"}, b"a", b"b", {"type": "input", "text": "c"}, b"d", b"\n")
        await viewer.until(lambda: b"got abcd" in viewer.output)
        viewer.say_together(b"1", {"type": "input", "text": "2"}, b"3\n")
        await viewer.until(lambda: b"got 123" in viewer.output)

    assert b"".join(data for _, data, _ in _typed(pod)) == b"abcd\n123\n"
    assert not [message for message in viewer.messages if message["type"] == "refusal"]


async def test_more_keys_than_are_taken_at_once_arrive_whole_and_in_order(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="many")
    keys = [b"%d" % (number % 10) for number in range(1000)]
    async with up.look(_live(pod)) as viewer:
        await viewer.take_keyboard()
        viewer.say_together(*keys, b"\n")
        await viewer.until(lambda: b"got " + b"".join(keys) in viewer.output)

    assert b"".join(data for _, data, _ in _typed(pod)) == b"".join(keys) + b"\n"


async def test_a_pod_that_another_server_has_let_people_type_into_is_typed_into(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="moved")
    with pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "operator:before", "epoch": 1_000_000}, b"before\n")
    async with up.look(_live(pod)) as viewer:
        epoch = await viewer.take_keyboard()
        await viewer.say(b"after\n")
        await viewer.until(lambda: b"got after" in viewer.output)

    (taken,) = await up.events(pod, "keyboard.taken")
    assert cast(Json, taken["data"])["epoch"] == epoch > 1_000_000


async def test_who_leaves_gives_the_keyboard_back(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="leaves")
    async with up.look(_live(pod)) as stays:
        async with up.look(_live(pod)) as leaves:
            await leaves.take_keyboard()
        while (await stays.told("keyboard"))["holder"] is not None:
            pass
        await stays.take_keyboard()


async def test_s20_who_may_only_watch_types_nothing_and_is_closed_with_4403(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="watched")
    token = await up.token("viewer")
    attempts: list[tuple[str, str | None]] = [("", token), ("?mode=watch", None), ("?mode=watch", token)]
    messages: list[Json | bytes] = [
        b"rm -rf\n",
        {"type": "input", "text": "x"},
        {"type": "take"},
        {"type": "take", "takeover": True},
        {"type": "resize", "cols": 50, "rows": 20},
        {"type": "interrupt", "signal": "KILL"},
    ]
    for query, who in attempts:
        for message in messages:
            assert await _closed_with(up, pod, query, who, message) == 4403, (query, message)
    for path, body in (("input", {"text": "x"}), ("resize", {"cols": 50, "rows": 20}), ("signal", {"signal": "KILL"})):
        headers = {"Authorization": f"Bearer {token}"}
        answer = await up.http.post(f"/api/v1/pods/{pod.id}/{path}", json=body, headers=headers)
        assert answer.status_code == 403

    assert _typed(pod) == []
    assert not [record for record in pod.tape().records() if record.kind in (Kind.RESIZE, Kind.SIGNAL)]
    assert len(await up.events(pod, "input.refused")) == len(attempts) * len(messages)


async def _closed_with(up: InProcessUp, pod: Pod, query: str, token: str | None, attempt: Json | bytes) -> int:
    async with up.look(_live(pod, query), token) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        await viewer.say(attempt)
        with pytest.raises(ConnectionClosed) as closed:
            await viewer.until(lambda: False)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


async def test_s20_typing_without_having_taken_the_keyboard_is_refused(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="untaken")
    async with up.look(_live(pod)) as viewer:
        attempts: list[Json | bytes] = [
            b"x\n",
            {"type": "resize", "cols": 50, "rows": 20},
            {"type": "interrupt", "signal": "INT"},
        ]
        for attempt in attempts:
            await viewer.say(attempt)
            refusal = await viewer.told("refusal")
            assert refusal["message"] == "nobody has taken the keyboard"
    assert _typed(pod) == []


async def test_s20_every_accepted_input_is_on_the_tape_with_who_typed_it_and_the_epoch(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="signed")
    token = await up.token("operator", name="ann")
    async with up.look(_live(pod), token) as viewer:
        epoch = await viewer.take_keyboard()
        await viewer.say({"type": "input", "text": "é\n"})
        await viewer.until(lambda: "got é".encode() in viewer.output)
        await viewer.say({"type": "give"})

    await up.post(f"/api/v1/pods/{pod.id}/input", {"text": "by request", "enter": True})
    await until(lambda: b"got by request" in _shown(pod), "it was typed")

    first, second, third = _typed(pod)
    assert first == ("operator:ann", "é\n".encode(), epoch)
    assert (second[:2], third[:2]) == ((f"operator:{LOCAL.name}", b"by request"), (f"operator:{LOCAL.name}", b"\r"))
    assert second[2] == third[2]
    assert second[2] is not None
    assert second[2] > epoch


async def test_a_viewer_of_a_pod_that_has_ended_sees_its_last_screen(up: InProcessUp) -> None:
    pod = await up.start("bash", "-c", "echo last words; exit 7", name="over")
    await until(lambda: up.has_ended(pod), "it ended")

    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)

    assert viewer.messages[0]["process"] == "exited"
    assert viewer.messages[0]["exit_status"] == 7
    assert b"last words" in viewer.keyframes[0]


async def test_who_looks_is_told_how_a_pod_ends(up: InProcessUp) -> None:
    pod = await up.start("bash", "-c", "echo go; read -r line; echo bye; exit 3", name="ends")
    async with up.look(_live(pod)) as viewer:
        await viewer.until(lambda: viewer.keyframes)
        await viewer.take_keyboard()
        await viewer.say(b"\n")
        status = await viewer.told("status")
        while status["process"] != "exited":
            status = await viewer.told("status")

    assert status["exit_status"] == 3
    assert b"bye" in viewer.output


@pytest.mark.parametrize("nonsense", ["{", "[]", '{"type":"dance"}', '{"type":"resize","cols":"x"}', "[" * 100_000])
async def test_what_is_no_message_closes_the_connection(up: InProcessUp, nonsense: str) -> None:
    pod = await up.start(*_SHELL, name=f"nonsense-{abs(hash(nonsense)) % 10**8}")
    async with up.look(_live(pod)) as viewer:
        await viewer.connection.send(nonsense)
        with pytest.raises(ConnectionClosed) as closed:
            await viewer.until(lambda: False)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1007


async def test_a_viewer_hears_of_an_end_after_everything_that_was_shown_before(
    up: InProcessUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TICK_S", 1.0)  # what is shown waits for others, the news of an end does not
    pod = await up.start("bash", "-c", "stty -echo; read -r; seq 1 3000; echo last words", name="talks")
    async with up.look(_live(pod)) as viewer:
        await viewer.take_keyboard()
        await viewer.say(b"\n")
        while (await viewer.told("status"))["process"] != "exited":
            pass

    assert viewer.output.endswith(b"last words\r\n")


async def test_many_viewers_who_come_at_once_share_one_keyframe_and_see_the_same(up: InProcessUp) -> None:
    pod = await up.start(*_SHELL, name="crowd")
    async with up.look(_live(pod)) as first:
        await first.until(lambda: any(b"ready" in shown for shown in (*first.keyframes, first.output)))

    all_look = asyncio.Barrier(41)

    async def join() -> Onlooker:
        async with up.look(_live(pod)) as viewer:
            await viewer.until(lambda: viewer.keyframes)
            await all_look.wait()
            await viewer.until(lambda: b"got all\r\n" in viewer.output)
            return viewer

    viewers = [asyncio.create_task(join()) for _ in range(40)]
    await all_look.wait()
    await up.post(f"/api/v1/pods/{pod.id}/input", {"text": "all", "enter": True})
    seen = await asyncio.gather(*viewers)

    assert len({viewer.keyframes[0] for viewer in seen}) == 1
    assert {bytes(viewer.output) for viewer in seen} == {b"got all\r\n"}
    await until(lambda: up.server.tower.viewers(pod.id) == 0, "all left")


def _shown(pod: Pod) -> bytes:
    return b"".join(record.payload for record in pod.tape().records() if record.kind == Kind.OUTPUT)
