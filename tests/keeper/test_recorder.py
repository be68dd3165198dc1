"""What a recorder does about time, a full disk and a failing one; R14 and the logic under R11 and R13."""

from __future__ import annotations

import errno
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from scrubjay.clock import SystemClock
from scrubjay.tape.format import Kind
from tests.keeper.recorder_rig import RESERVE_BYTES, SYNC_US, WINDOW_BYTES, Rig
from tests.support.faulty_disk import FaultyDisk


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def best_effort(tmp_path: Path) -> Rig:
    return Rig(tmp_path, best_effort=True)


# Time.


@pytest.mark.parametrize("jump_s", [-3600, 3600, -86_400, 86_400, -0.6, 0.6])
def test_r14_a_wall_clock_that_jumps_moves_nothing_on_the_tape(rig: Rig, jump_s: float) -> None:
    for number in range(10):
        rig.recorder.output(b"%d" % number)
        rig.clock.advance(1)
        if number == 4:
            rig.clock.jump(jump_s)
    rig.recorder.note(Kind.MARK, label="end")
    rig.sync_all()

    records = rig.records()
    assert all(before.at <= after.at for before, after in pairwise(records))
    assert [record.at for record in records if record.kind == Kind.OUTPUT] == [n * 1_000_000 for n in range(10)]
    assert rig.output() == b"0123456789"
    assert records[-1].at == 10_000_000
    (jump,) = rig.clocks("jump")
    assert jump["step"] == round(jump_s * 1e6)


def test_r14_a_jump_is_recorded_before_what_comes_after_it_with_the_new_time(rig: Rig) -> None:
    rig.clock.advance(2)
    rig.clock.jump(-3600)
    rig.recorder.output(b"x")
    rig.sync_all()

    *_, clock, output = rig.records()
    assert (clock.kind, output.kind) == (Kind.CLOCK, Kind.OUTPUT)
    assert clock.at == output.at == 2_000_000
    assert clock.json() == {"wall": rig.clock.wall_us() - 200_000, "reason": "jump", "step": -3_600_000_000}


def test_r14_two_jumps_that_cancel_each_other_are_two_records(rig: Rig) -> None:
    for jump_s in (3600, -3600):
        rig.clock.jump(jump_s)
        rig.clock.advance(1)
        rig.recorder.tick()
    rig.sync_all()

    assert [clock["step"] for clock in rig.clocks("jump")] == [3_600_000_000, -3_600_000_000]


def test_r14_a_jump_of_an_idle_pod_is_noticed_by_the_next_tick(rig: Rig) -> None:
    rig.sync_all()
    rig.clock.jump(3600)
    rig.clock.advance(rig.recorder.next_tick_us() / 1e6)
    rig.settle()

    assert len(rig.clocks("jump")) == 1


def test_r14_a_clock_that_is_slewed_for_hours_never_jumps(rig: Rig) -> None:
    for _ in range(3 * 3600):
        rig.clock.advance(1)
        rig.clock.jump(0.0005)  # 500 ppm, the most a time server may slew
        rig.sync()

    assert rig.clocks("jump") == []
    walls = [int(str(clock["wall"])) for clock in rig.clocks("minute")]
    assert len(walls) == 180
    assert walls[-1] - walls[0] == 179 * 60_030_000


def test_r14_the_wall_clock_does_not_know_summer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = SystemClock(), list[int]()
    try:
        for zone in ("Europe/Berlin", "Pacific/Kiritimati", "UTC"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            seen.append(clock.wall_us())
    finally:
        monkeypatch.undo()
        time.tzset()

    assert max(seen) - min(seen) < 1_000_000


def test_the_wall_clock_is_recorded_at_the_start_and_every_minute(rig: Rig) -> None:
    began = rig.clock.wall_us()

    for _ in range(600):
        rig.clock.advance(1)
        rig.sync()
    rig.sync_all()

    (start,) = rig.clocks("start")
    assert start["wall"] == began
    minutes = [record for record in rig.records(Kind.CLOCK) if record.json()["reason"] == "minute"]
    assert [record.at for record in minutes] == [n * 60_000_000 for n in range(1, 11)]
    assert [record.json()["wall"] for record in minutes] == [began + record.at for record in minutes]


def test_the_tape_of_an_idle_pod_asks_for_nothing_between_two_minutes(rig: Rig) -> None:
    rig.sync_all()

    assert rig.recorder.next_tick_us() == 60_000_000 - rig.recorder.now()


# Syncing.


def test_output_is_synced_after_the_sync_window_and_not_before(rig: Rig) -> None:
    rig.sync_all()
    rig.recorder.output(b"x")

    assert not rig.sync()
    assert rig.recorder.next_tick_us() == SYNC_US
    rig.clock.advance(0.199)
    assert not rig.sync()
    assert rig.recorder.next_tick_us() == 1000
    rig.clock.advance(0.001)
    assert rig.sync()
    assert rig.recorder.writer.synced == rig.recorder.writer.offset


def test_a_stream_of_output_does_not_put_the_sync_off(rig: Rig) -> None:
    rig.sync_all()
    synced = 0

    for _ in range(1000):
        rig.recorder.output(b"x")
        rig.clock.advance(0.001)
        synced += rig.sync()

    assert synced in (4, 5)


def test_a_sync_begins_at_once_when_somebody_waits_for_it(rig: Rig) -> None:
    rig.sync_all()
    rig.mark("now")

    assert rig.acknowledged == []
    assert rig.sync()
    assert rig.acknowledged == ["now"]


def test_a_sync_begins_at_once_when_the_window_is_half_full(rig: Rig) -> None:
    rig.sync_all()
    rig.recorder.output(bytes(WINDOW_BYTES // 2))

    assert rig.sync()


def test_a_full_window_stops_the_output_until_a_sync_has_made_room(rig: Rig) -> None:
    rig.sync_all()
    rig.recorder.output(bytes(WINDOW_BYTES))
    sync = rig.settle()

    assert sync is not None
    assert not rig.recorder.wants_output
    rig.recorder.finish_sync(sync.run())
    assert rig.recorder.wants_output
    assert rig.events() == []


def test_there_is_one_sync_at_a_time_and_it_acknowledges_only_what_it_took(rig: Rig) -> None:
    rig.mark("first")
    sync = rig.settle()
    assert sync is not None
    rig.mark("second")

    assert rig.settle() is None
    rig.recorder.finish_sync(sync.run())
    assert rig.acknowledged == ["first"]
    assert rig.sync()
    assert rig.acknowledged == ["first", "second"]


def test_nobody_waits_for_what_is_synced_already(rig: Rig) -> None:
    rig.sync_all()

    rig.recorder.when_synced(lambda: rig.acknowledged.append("at once"))

    assert rig.acknowledged == ["at once"]


def test_the_watermark_is_synced_every_five_seconds(rig: Rig) -> None:
    for _ in range(200):
        rig.recorder.output(b"x")
        rig.clock.advance(0.1)
        rig.sync()

    assert rig.disk.folder(".").files["watermark"].syncs in (4, 5)


def test_the_age_of_what_is_not_synced_includes_what_a_slow_disk_is_busy_with(rig: Rig) -> None:
    rig.sync_all()
    assert rig.recorder.unsynced_us == 0
    rig.recorder.output(b"x")
    rig.clock.advance(0.2)
    assert rig.recorder.unsynced_us == 200_000

    sync = rig.settle()
    assert sync is not None
    rig.clock.advance(5)
    rig.recorder.output(b"y")
    rig.recorder.flush()

    assert rig.recorder.unsynced_us == 5_200_000
    rig.recorder.finish_sync(sync.run())
    assert rig.recorder.unsynced_us == 0
    rig.clock.advance(0.05)
    assert rig.recorder.unsynced_us == 50_000


# A disk whose sync fails.


def test_r13_after_a_failed_sync_everything_since_the_last_good_one_is_in_a_new_segment(rig: Rig) -> None:
    rig.recorder.output(b"synced ")
    rig.sync_all()
    synced = rig.recorder.writer.synced
    rig.recorder.output(b"not yet ")
    rig.mark("waits")
    rig.disk.fail_sync(1)
    rig.sync()

    assert rig.acknowledged == []
    assert rig.recorder.sync_failures == 1
    assert rig.recorder.writer.synced == synced
    assert rig.segments() == 2
    rig.sync_all()
    assert rig.acknowledged == ["waits"]
    assert rig.output() == b"synced not yet "
    (event,) = rig.records(Kind.EVENT)
    assert event.json() == {"event": "tape.sync_failed", "error": "Input/output error", "synced": synced}
    assert not any(file.syncs_after_failure for file in rig.disk.folder("tape").files.values())


def test_r13_a_disk_that_keeps_failing_is_asked_less_and_less_often_and_nothing_is_acknowledged(rig: Rig) -> None:
    rig.sync_all()
    rig.disk.fail_sync(*range(1, 9))
    rig.mark("waits")
    failed_at: list[int] = []

    while not rig.acknowledged:
        failures = rig.recorder.sync_failures
        rig.sync()
        if rig.recorder.sync_failures > failures:
            failed_at.append(rig.recorder.now())
        rig.clock.advance(0.05)

    pauses = [after - before for before, after in pairwise(failed_at)]
    assert len(failed_at) == 8
    assert all(before <= after for before, after in pairwise(pauses))
    assert pauses[0] >= 2 * SYNC_US
    assert pauses[-1] <= 10_050_000
    assert rig.segments() == 9
    assert rig.events() == ["tape.sync_failed"] * 8


def test_r13_a_sync_that_works_again_ends_the_caution(rig: Rig) -> None:
    rig.disk.fail_sync(1, 2, 3)
    rig.sync_all()
    rig.disk.fail_sync(1)
    rig.mark("waits")
    rig.sync()
    failed_at = rig.recorder.now()

    while not rig.acknowledged:
        rig.clock.advance(0.05)
        rig.sync()

    assert rig.recorder.sync_failures == 4
    assert rig.recorder.now() - failed_at == 2 * SYNC_US


def test_r13_what_a_failed_sync_left_behind_is_as_old_as_it_was(rig: Rig) -> None:
    rig.sync_all()
    rig.recorder.output(b"x")
    rig.clock.advance(0.2)
    rig.disk.fail_sync(1)
    rig.sync()
    rig.clock.advance(0.1)

    assert rig.recorder.unsynced_us == 300_000


def test_r13_records_made_during_a_sync_that_fails_are_kept_in_order(rig: Rig) -> None:
    rig.recorder.output(b"one ")
    rig.clock.advance(0.2)
    sync = rig.settle()
    assert sync is not None
    rig.recorder.output(b"two ")
    rig.recorder.flush()
    rig.disk.fail_sync(1)
    rig.recorder.finish_sync(sync.run())
    rig.recorder.output(b"three")
    rig.sync_all()

    assert rig.output() == b"one two three"
    assert [record.kind for record in rig.records(Kind.OUTPUT, Kind.EVENT)] == [2, 2, 8, 2]


# A full disk.


def test_r11_a_full_disk_pauses_says_so_and_goes_on_by_itself(rig: Rig) -> None:
    rig.recorder.output(b"before ")
    rig.sync_all()
    rig.fill(leave_bytes=10)
    rig.recorder.output(b"across ")
    rig.recorder.flush()

    assert rig.recorder.paused == "disk full"
    assert not rig.recorder.wants_output
    assert not rig.reserve.held
    assert rig.output() == b"before across "
    assert rig.events() == ["recording.paused"]
    rig.free()
    assert rig.recorder.paused is not None
    rig.clock.advance(0.2)
    rig.sync()
    assert rig.recorder.paused is None
    assert rig.recorder.wants_output
    assert rig.reserve.held
    rig.recorder.output(b"after")
    rig.sync_all()
    assert rig.output() == b"before across after"
    assert rig.events() == ["recording.paused", "recording.resumed"]
    assert rig.records(Kind.GAP) == []


def test_r11_a_paused_recording_tries_again_every_200_ms(rig: Rig) -> None:
    rig.sync_all()
    rig.fill()
    rig.recorder.output(b"x" * 100)
    rig.recorder.flush()

    assert rig.recorder.next_tick_us() == 200_000
    for _ in range(50):
        rig.clock.advance(0.2)
        rig.sync()
        assert 0 < rig.recorder.next_tick_us() <= 200_000
    assert rig.recorder.paused == "disk full"
    assert rig.events() == ["recording.paused"]


def test_r11_the_room_that_the_reserve_gave_up_is_not_taken_for_room(rig: Rig) -> None:
    rig.sync_all()
    rig.fill()
    rig.recorder.output(b"x" * 100)
    rig.recorder.flush()

    room = rig.disk.room
    assert room is not None
    assert room > 1000
    rig.clock.advance(1)
    rig.sync()
    assert rig.recorder.paused == "disk full"


def test_r11_room_for_the_reserve_alone_is_given_back_again(rig: Rig) -> None:
    rig.sync_all()
    rig.fill()
    rig.recorder.output(bytes(RESERVE_BYTES + 1000))
    rig.recorder.flush()
    rig.disk.room = RESERVE_BYTES

    rig.clock.advance(0.2)
    rig.sync()

    assert rig.recorder.paused == "disk full"
    assert not rig.reserve.held
    assert rig.disk.room == RESERVE_BYTES
    rig.free()
    rig.clock.advance(0.2)
    rig.sync()
    assert rig.recorder.paused is None
    assert rig.output() == bytes(RESERVE_BYTES + 1000)


def test_r11_what_is_acknowledged_during_a_pause_is_synced(rig: Rig) -> None:
    rig.sync_all()
    rig.mark("in the reserve")
    rig.fill()
    rig.recorder.flush()
    rig.mark("after the pause")

    for _ in range(20):
        rig.clock.advance(0.2)
        rig.sync()
    assert rig.acknowledged == ["in the reserve"]
    rig.free()
    for _ in range(5):
        rig.clock.advance(0.2)
        rig.sync()
    assert rig.acknowledged == ["in the reserve", "after the pause"]


def test_r11_a_disk_without_room_for_a_reserve_pauses_and_goes_on_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, disk=FaultyDisk(room=1000))
    assert not rig.reserve.held
    rig.recorder.output(b"x" * 2000)
    rig.recorder.flush()

    assert rig.recorder.paused == "disk full"
    rig.disk.room = 2000  # still too little for a reserve
    rig.clock.advance(0.2)
    rig.sync()
    assert rig.recorder.paused is None
    rig.sync_all()
    assert rig.output() == b"x" * 2000
    assert rig.events() == ["recording.paused", "recording.resumed"]


def test_r11_pausing_again_and_again_loses_nothing(rig: Rig) -> None:
    for number in range(20):
        rig.fill(leave_bytes=number)
        rig.recorder.output(b"%02d " % number)
        rig.free()
        rig.clock.advance(0.2)
        rig.sync()
    rig.sync_all()

    assert rig.output() == b"".join(b"%02d " % number for number in range(20))
    assert rig.events() == ["recording.paused", "recording.resumed"] * 20


def test_r11_best_effort_counts_what_it_drops(best_effort: Rig) -> None:
    rig = best_effort
    rig.recorder.output(b"before ")
    rig.sync_all()
    rig.fill()
    rig.recorder.output(b"in memory ")
    rig.recorder.flush()

    assert rig.recorder.paused == "disk full"
    assert rig.recorder.wants_output
    rig.clock.advance(0.01)
    first = rig.recorder.now()
    for _ in range(7):
        rig.recorder.output(b"dropped")
        rig.recorder.flush()
        rig.clock.advance(0.01)
    last = rig.recorder.now() - 10_000
    rig.free()
    rig.clock.advance(0.2)
    rig.sync()
    rig.recorder.output(b"after")
    rig.sync_all()

    assert rig.output() == b"before in memory after"
    (gap,) = rig.records(Kind.GAP)
    assert gap.json() == {"reason": "disk full", "bytes": 49, "records": 7, "from": first, "to": last}
    kinds = [record.kind for record in rig.records(Kind.OUTPUT, Kind.EVENT, Kind.GAP)]
    assert kinds == [Kind.OUTPUT, Kind.OUTPUT, Kind.EVENT, Kind.GAP, Kind.EVENT, Kind.OUTPUT]


def test_r11_best_effort_without_anything_dropped_leaves_no_gap(best_effort: Rig) -> None:
    best_effort.sync_all()
    best_effort.fill()
    best_effort.recorder.output(b"in memory")
    best_effort.recorder.flush()
    best_effort.free()
    best_effort.clock.advance(0.2)
    best_effort.sync()

    assert best_effort.records(Kind.GAP) == []
    assert best_effort.output() == b"in memory"


def _break(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(rig.disk, "check_room", refuse)


def test_a_disk_that_cannot_be_written_pauses_and_goes_on_in_a_new_segment(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.recorder.output(b"before ")
    rig.sync_all()
    with monkeypatch.context() as broken:
        _break(rig, broken)
        rig.recorder.output(b"across ")
        rig.recorder.flush()
        assert rig.recorder.paused == "disk error: Input/output error"
        rig.clock.advance(0.2)
        rig.sync()
        assert rig.recorder.paused is not None
    rig.clock.advance(0.2)
    rig.sync()

    assert rig.recorder.paused is None
    rig.recorder.output(b"after")
    rig.sync_all()
    assert rig.output() == b"before across after"
    assert rig.segments() == 2


def test_a_gap_says_why_it_is_there(best_effort: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = best_effort
    rig.sync_all()
    with monkeypatch.context() as broken:
        _break(rig, broken)
        rig.recorder.output(b"in memory")
        rig.recorder.flush()
        rig.recorder.output(b"dropped")
    rig.clock.advance(0.2)
    rig.sync()
    rig.sync_all()

    (gap,) = rig.records(Kind.GAP)
    assert gap.json()["reason"] == "disk error: Input/output error"


# The end.


def test_nothing_follows_the_end_of_a_tape_whatever_happens_then(rig: Rig) -> None:
    rig.recorder.output(b"all")
    rig.recorder.end("ended")
    rig.recorder.note(Kind.MARK, label="too late")
    rig.clock.jump(3600)
    rig.disk.fail_sync(1)
    rig.clock.advance(60)
    rig.sync()
    rig.sync_all()

    assert rig.recorder.sync_failures == 1
    assert rig.records()[-1].kind == Kind.SEAL
    assert rig.report().verdict == "clean"
    assert rig.output() == b"all"


def test_an_end_that_finds_the_disk_full_waits_for_room(rig: Rig) -> None:
    rig.recorder.output(b"all")
    rig.sync_all()
    rig.reserve.release()
    rig.fill()
    rig.recorder.end("ended")
    rig.recorder.when_synced(lambda: rig.acknowledged.append("closed"))
    for _ in range(10):
        rig.clock.advance(0.2)
        rig.sync()

    assert rig.acknowledged == []
    rig.free()
    for _ in range(3):
        rig.clock.advance(0.2)
        rig.sync()
    assert rig.acknowledged == ["closed"]
    assert rig.records()[-1].kind == Kind.SEAL
    assert rig.report().verdict == "clean"
