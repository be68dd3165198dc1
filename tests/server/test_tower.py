"""What the server makes of what runners say, and of what people want from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from scrubjay.errors import CatalogUnavailable, KeeperRefused, KeyboardHeld, NoSuchPod
from scrubjay.fleet.access import Principal
from scrubjay.ids import PodId, new_runner_id
from scrubjay.server.metrics import Metrics
from scrubjay.server.rest.once import once
from scrubjay.store.events import read_events
from scrubjay.store.pods import list_pods
from scrubjay.tape.raw_bytes import read_bytes
from scrubjay.tape.record import Json
from scrubjay.wire.messages import (
    Diverged,
    Found,
    ListWorktrees,
    Offer,
    PodChanged,
    PodGone,
    Progress,
    Restart,
    TapeBytes,
)
from tests.support.conditions import until
from tests.support.linked_runner import Control, LinkedRunner, open_control, report_of
from tests.support.recordings import head, output
from tests.support.tapes import make_tape

pytestmark = pytest.mark.anyio

_ANN = Principal("token:ann", "operator", "ann")


@pytest.fixture
async def control(tmp_path: Path) -> AsyncGenerator[Control]:
    async with open_control(tmp_path) as opened:
        yield opened


async def _cataloged(control: Control) -> set[PodId]:
    return {facts.id for facts, _ in await control.tower.database.read(list_pods)}


# Which pods there are.


async def test_a_runner_that_comes_back_with_nothing_takes_nothing_from_the_catalog(control: Control) -> None:
    one, two, runner = report_of(name="one"), report_of(name="two"), new_runner_id()
    first = control.link(runner)
    await first.introduce(one, two)
    await first.leave()

    await control.link(runner).introduce()

    assert set(control.tower.pods) == {one.id, two.id}
    assert await _cataloged(control) == {one.id, two.id}


async def test_a_runner_that_comes_back_without_one_of_its_pods_has_deleted_it(control: Control) -> None:
    one, two, runner = report_of(name="one"), report_of(name="two"), new_runner_id()
    first = control.link(runner)
    await first.introduce(one, two)
    await first.leave()

    await control.link(runner).introduce(two)

    assert set(control.tower.pods) == await _cataloged(control) == {two.id}


async def test_a_deleted_pod_does_not_come_back_by_a_report_that_was_late(control: Control) -> None:
    gone, stays = report_of(name="gone"), report_of(name="stays")
    linked = control.link()
    await linked.introduce(gone)
    linked.peer.hear(PodGone(pod=gone.id))
    await until(lambda: gone.id not in control.tower.pods, "it is gone")

    linked.peer.hear(PodChanged(pod=gone))
    linked.peer.hear(PodChanged(pod=stays))
    await until(lambda: PodId(stays.id) in control.tower.pods, "the report was taken")

    assert set(control.tower.pods) == await _cataloged(control) == {stays.id}


async def test_a_runner_cannot_say_what_has_become_of_the_tape_of_another(control: Control) -> None:
    theirs = report_of()
    await control.link().introduce(theirs)
    thief = control.link()
    await thief.introduce()

    thief.peer.hear(Diverged(pod=theirs.id, offset=1, why="so it is said"))
    thief.peer.hear(Restart(pod=theirs.id))
    thief.peer.hear(PodChanged(pod=report_of(name="own")))
    await until(lambda: len(control.tower.pods) == 2, "all was heard")

    events = await control.tower.database.read(read_events)
    assert "tape.diverged" not in {event.kind for event in events}


# What is asked twice and done once.


async def test_of_requests_with_the_same_key_one_at_a_time_is_carried_out(control: Control) -> None:
    inside = most = 0

    async def ask_twice() -> None:
        nonlocal inside, most
        for _ in range(2):
            async with control.tower.one_at_a_time("token:ann", "key"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(ask_twice() for _ in range(5)))

    assert most == 1


async def test_what_was_done_is_answered_and_not_done_again_though_the_catalog_took_nothing(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0

    async def carry_out() -> Json:
        nonlocal done
        done += 1
        return {"id": "pod", "number": done}

    async def full(_body: object) -> None:
        raise CatalogUnavailable("catalog", "no space left")

    monkeypatch.setattr(control.tower.database, "write", full)
    answers = [await once(control.tower, _ANN, "key", carry_out) for _ in range(2)]

    assert answers == [{"id": "pod", "number": 1}] * 2


# What is live.


async def _show_more_than_is_kept(linked: LinkedRunner, pod: PodId, folder: Path) -> tuple[bytes, int]:
    """Send a tape of which the runner's disk has but the beginning; the tape, and how much the server keeps."""
    contents = [head(80, 24), output(10, b"kept"), output(20, b" and lost")]
    tape = make_tape(folder, contents, pod, closed=False)
    data = read_bytes(tape.open(), 0, 1 << 20)
    kept = tape.records()[2].offset
    linked.peer.hear(Offer(pod=pod))
    await until(lambda: any(isinstance(message, Found) for message in linked.said), "the tape was asked for")
    linked.peer.hear(TapeBytes(pod=pod, offset=0, data=data, synced=kept))
    await until(lambda: Progress(pod=pod, have=len(data), kept=0) in linked.said, "it was taken")
    return data, kept


async def test_who_looks_while_a_runner_is_away_sees_what_is_kept(control: Control, tmp_path: Path) -> None:
    report = report_of()
    pod, linked = PodId(report.id), control.link()
    await linked.introduce(report)
    _, kept = await _show_more_than_is_kept(linked, pod, tmp_path / "runner")

    live = control.tower.live(pod)
    live.enter()
    live.leave()  # so that nothing of what was shown is at hand

    await linked.leave()
    live.enter()
    frame = await live.keyframe()

    assert frame.offset == kept
    assert b"kept" in frame.message
    assert b"lost" not in frame.message


async def test_who_looks_goes_on_with_what_a_runner_that_lost_power_records_now(
    control: Control, tmp_path: Path
) -> None:
    report, runner = report_of(), new_runner_id()
    pod, linked = PodId(report.id), control.link(runner)
    await linked.introduce(report)
    data, kept = await _show_more_than_is_kept(linked, pod, tmp_path / "runner")
    live = control.tower.live(pod)
    assert live.end == len(data)

    again = control.link(runner)  # before anybody noticed that the first connection is gone
    await again.introduce(report)
    again.peer.hear(Offer(pod=pod))
    await until(lambda: any(isinstance(message, Found) for message in again.said), "the tape was asked for")

    assert live.end == kept


async def test_r17_a_connection_that_was_replaced_adds_nothing_to_what_its_successor_brings(
    control: Control, tmp_path: Path
) -> None:
    report, runner = report_of(), new_runner_id()
    pod, linked = PodId(report.id), control.link(runner)
    await linked.introduce(report)
    lost, kept = await _show_more_than_is_kept(linked, pod, tmp_path / "before")
    contents = [head(80, 24), output(10, b"kept"), output(30, b" and recorded instead"), output(40, b" of that")]
    tape = make_tape(tmp_path / "after", contents, pod, closed=False)
    data, last = read_bytes(tape.open(), 0, 1 << 20), tape.records()[3].offset
    assert data[:kept] == lost[:kept]

    again = control.link(runner)
    await again.introduce(report)
    again.peer.hear(Offer(pod=pod))
    await until(lambda: any(isinstance(message, Found) for message in again.said), "the tape was asked for")
    again.peer.hear(TapeBytes(pod=pod, offset=kept, data=data[kept:last], synced=last))
    # What was under way when the first connection was given up, and can still be read.
    linked.peer.hear(TapeBytes(pod=pod, offset=kept, data=lost[kept:], synced=kept))
    linked.peer.hear(TapeBytes(pod=pod, offset=len(lost), data=b"more of what is gone", synced=kept))
    again.peer.hear(TapeBytes(pod=pod, offset=last, data=data[last:], synced=len(data)))
    await until(lambda: control.tower.tapes.have(pod).have == len(data), "all of it is stored")

    assert read_bytes(control.tower.tapes.open(pod), 0, 1 << 20) == data
    assert not [message for message in (*linked.said, *again.said) if isinstance(message, Diverged)]
    assert control.tower.live(pod).end == len(data)


async def test_nothing_is_held_of_a_pod_whose_tape_is_complete_once_nobody_looks(
    control: Control, tmp_path: Path
) -> None:
    tower, report, linked = control.tower, report_of(), control.link()
    pod = PodId(report.id)
    await linked.introduce(report)
    await _show_more_than_is_kept(linked, pod, tmp_path / "runner")
    live = tower.live(pod)
    live.enter()

    linked.peer.hear(PodChanged(pod=report_of(pod, process="exited", complete=True)))
    await until(lambda: tower.pods[pod].over, "it has ended")
    tower.watching_changed(pod)
    assert tower.live_pods() == [live]

    live.leave()
    tower.watching_changed(pod)
    assert tower.live_pods() == []
    tower.show(pod, 5000, b"late", jump=False)
    assert tower.live_pods() == []


async def test_who_typed_until_a_pod_ended_leaves_nothing_of_it_behind(control: Control) -> None:
    tower, report, linked = control.tower, report_of(), control.link()
    pod = PodId(report.id)
    await linked.introduce(report)
    await tower.take_keyboard(tower.find(pod), _ANN, "request", takeover=False)

    linked.peer.hear(PodChanged(pod=report_of(pod, process="exited", complete=True)))
    await until(lambda: tower.pods[pod].over, "it has ended")
    tower.give_keyboard(pod, "request")

    assert tower.live_pods() == []


# Who types.


async def test_of_two_who_take_a_free_keyboard_at_once_one_gets_it(control: Control) -> None:
    report = report_of()
    await control.link().introduce(report)
    known = control.tower.find(report.id)

    taken = await asyncio.gather(
        *(control.tower.take_keyboard(known, _ANN, holder, takeover=False) for holder in ("one", "other")),
        return_exceptions=True,
    )

    [epoch], [refused] = [[one for one in taken if isinstance(one, kind)] for kind in (int, KeyboardHeld)]
    grant = control.tower.keyboards.holder(PodId(report.id))
    assert grant is not None
    assert grant.epoch == epoch
    assert "ann has the keyboard" in str(refused)


async def test_nobody_gets_the_keyboard_of_a_pod_that_is_deleted_meanwhile(control: Control) -> None:
    report, linked = report_of(), control.link()
    await linked.introduce(report)
    known = control.tower.find(report.id)

    linked.peer.hear(PodGone(pod=report.id))
    await until(lambda: report.id not in control.tower.pods, "it is gone")
    with pytest.raises(NoSuchPod):
        await control.tower.take_keyboard(known, _ANN, "one", takeover=False)

    assert control.tower.keyboards.holder(PodId(report.id)) is None
    assert control.tower.live_pods() == []


# What runners are asked.


async def test_who_asks_a_runner_whose_connection_has_ended_is_told_so_at_once(control: Control) -> None:
    linked = control.link()
    await linked.introduce()
    asked = asyncio.create_task(linked.peer.ask(ListWorktrees()))
    await linked.asked()

    await linked.leave()

    for ask in (asked, linked.peer.ask(ListWorktrees())):
        with pytest.raises(KeeperRefused, match="was lost"):
            await asyncio.wait_for(ask, 5)


# What is counted.


async def test_what_is_counted_never_becomes_less(control: Control, tmp_path: Path) -> None:
    report, linked, metrics = report_of(), control.link(), Metrics(control.tower)
    pod = PodId(report.id)
    await linked.introduce(report)
    data, _ = await _show_more_than_is_kept(linked, pod, tmp_path / "runner")
    control.tower.live(pod).resyncs += 3

    linked.peer.hear(PodGone(pod=pod))
    await until(lambda: pod not in control.tower.pods, "it is gone")
    await linked.leave()

    shown = metrics.encode().decode()
    assert f"scrubjay_received_bytes_total {float(len(data))}" in shown
    assert "scrubjay_viewer_resyncs_total 3.0" in shown
