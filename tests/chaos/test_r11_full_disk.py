"""R11: on a full disk an agent sleeps, or, if told so, runs on past a gap that is counted to the byte."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from scrubjay.errors import KeeperRefused
from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Tape
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member, open_fleet
from tests.support.processes import is_alive, is_blocked_in_write, kill
from tests.support.small_disk import SmallDisk, mount_small_disk
from tests.support.tiers import sized

pytestmark = pytest.mark.needs("mount")

_LINE_BYTES = 12  # n=00000042 and what a terminal ends a line with
_NOTICE = b"agent paused: disk full"
_BEAT = ("--rate", "5000", "--every-ms", "5")  # slow enough not to fill the disk itself within any test


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with mount_small_disk(tmp_path / "disk", size="8m") as disk:
        yield disk


@pytest.fixture
def fleet(tmp_path: Path, disk: SmallDisk) -> Generator[Fleet]:
    """A fleet whose data directory is on the small disk."""
    with open_fleet(disk.path / "data", tmp_path / "logs") as fleet:
        yield fleet
        disk.free()


def _describe(fleet: Fleet, member: Member) -> object:
    return fleet.ps()[member.name]["description"]


def _wait_until_paused(fleet: Fleet, member: Member, *, within_s: float = DEADLINE_S) -> None:
    eventually(lambda: _describe(fleet, member) == "paused: disk full", "ps says paused", within_s=within_s)


def _wait_until_running(fleet: Fleet, member: Member, *, within_s: float = DEADLINE_S) -> None:
    eventually(lambda: _describe(fleet, member) == "running", "it runs again", within_s=within_s)


def _wait_for_more(member: Member) -> None:
    reached = member.progress
    eventually(lambda: member.progress > reached + 1000, "the agent continues")


def _wait_until_asleep(member: Member) -> None:
    eventually(lambda: is_blocked_in_write(member.agent_pid), "the agent sleeps in its write")


def _wait_until_followed(member: Member) -> None:
    def is_followed() -> bool:
        live = member.pod.observe().live
        return live is not None and live["followers"] == 1

    eventually(is_followed, "the keeper shows a person what the agent does")


def test_r11_who_is_attached_is_told_of_the_pause_and_sees_every_line_once(fleet: Fleet, disk: SmallDisk) -> None:
    pauses = sized(2, 3, 10)
    member = fleet.metronome("m", *_BEAT)
    onlooker = fleet.attach(member)
    _wait_until_followed(member)

    for _ in range(pauses):
        disk.fill()
        _wait_until_paused(fleet, member)
        disk.free()
        _wait_until_running(fleet, member)
        _wait_for_more(member)
    fleet.finish(member)
    onlooker.wait()

    assert onlooker.shown.count(_NOTICE) == pauses
    # One that was being written at the pause may have the notice in the middle.
    shown = re.sub(rb"\r\n\[scrubjay: [^]]*\]\r\n", b"", bytes(onlooker.shown))
    numbers = [int(number) for number in re.findall(rb"n=(\d{8})", shown)]
    assert len(numbers) > 1000 * pauses
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[-1] == member.ledger().last


def test_r11_who_attaches_during_a_pause_is_told_of_it_once(fleet: Fleet, disk: SmallDisk) -> None:
    member = fleet.metronome("m", *_BEAT)
    disk.fill()
    _wait_until_paused(fleet, member)

    onlooker = fleet.attach(member)
    eventually(lambda: _NOTICE in onlooker.shown, "the person is told")
    with member.pod.connect() as follower, member.pod.connect() as looker:
        follower.send({"do": "follow", "from": member.pod.tape().end})
        follower.socket.settimeout(1)
        paused = eventually(lambda: [meta for meta, _ in follower.receive() if "paused" in meta], "it is told")
        status = looker.status(timeout_s=DEADLINE_S)
        disk.free()
        _wait_until_running(fleet, member)
        looker.send({"do": "follow", "from": member.pod.tape().end})
        resumed = eventually(lambda: [meta for meta, _ in looker.receive() if "paused" in meta], "it is told")
    fleet.finish(member)
    onlooker.wait()

    assert paused == [{"paused": "disk full"}]
    assert status is not None
    assert status["paused"] == "disk full"
    assert resumed == [{"paused": None}]
    assert onlooker.shown.count(_NOTICE) == 1


def test_r11_a_full_disk_pauses_the_agent_and_nothing_is_lost(
    fleet: Fleet, disk: SmallDisk, promised: Callable[[float], float]
) -> None:
    member = fleet.metronome("m", *_BEAT)
    eventually(lambda: member.progress > 1000, "the agent writes")

    disk.fill()
    _wait_until_paused(fleet, member, within_s=promised(2))
    _wait_until_asleep(member)
    disk.free()
    _wait_until_running(fleet, member, within_s=promised(2))
    _wait_for_more(member)
    fleet.finish(member)

    ledger = member.ledger()
    assert ledger.faults == (0, 0, 0)
    assert ledger.last is not None
    assert ledger.last >= member.progress
    (paused,) = member.events("recording.paused")
    assert paused["reason"] == "disk full"
    assert len(member.events("recording.resumed")) == 1
    assert member.records(Kind.GAP) == []
    fleet.assert_clean(member)


def test_r11_while_the_disk_is_full_pods_are_listed_and_deleted_and_typing_is_refused(
    fleet: Fleet, disk: SmallDisk
) -> None:
    ended = fleet.start("ended", "echo", "hello")
    fleet.eventually(lambda: not ended.pod.alive and ended.sealed, "it has ended")
    member = fleet.metronome("m", *_BEAT)

    disk.fill()
    _wait_until_paused(fleet, member)
    refused = fleet.cli("send", "m", "ls", "--enter", expect=1)
    with member.pod.connect() as keeper, pytest.raises(KeeperRefused, match="did not answer"):
        keeper.ask({"do": "mark", "label": "unsynced", "author": "test"}, timeout_s=0.2)
    labels_while_full = member.labels()
    logs = fleet.cli("logs", "ended")
    fleet.cli("rm", "ended")

    assert refused.stderr.startswith("scrubjay: pod 'm': recording is paused: disk full")
    assert labels_while_full == []
    assert logs.stdout == "hello\n"
    assert set(fleet.ps()) == {"m"}
    assert is_alive(member.agent_pid)
    disk.free()
    _wait_until_running(fleet, member)
    fleet.cli("mark", "m", "synced")
    assert member.labels() == ["unsynced", "synced"]
    assert member.records(Kind.INPUT) == []
    fleet.finish(member)
    assert member.ledger().faults == (0, 0, 0)


def test_r11_best_effort_runs_on_and_leaves_a_gap_of_exactly_what_is_missing(fleet: Fleet, disk: SmallDisk) -> None:
    fleet.settings["SCRUBJAY_WHEN_FULL"] = "best_effort"
    member = fleet.metronome("m", *_BEAT)

    disk.fill()
    _wait_until_paused(fleet, member)
    reached = member.progress
    eventually(lambda: member.progress > reached + 2000, "the agent runs on")
    disk.free()
    _wait_until_running(fleet, member)
    _wait_for_more(member)
    kill(member.agent_pid, signal.SIGUSR2)
    eventually(lambda: not member.pod.alive, "it has ended")

    count = member.progress + 1
    gaps = [record.json() for record in member.records(Kind.GAP)]
    missing_bytes = sum(int(str(gap["bytes"])) for gap in gaps)
    ledger = member.ledger()
    assert len(gaps) == len(member.events("recording.paused")) == len(member.events("recording.resumed")) == 1
    assert missing_bytes > 1000 * _LINE_BYTES
    assert len(member.output()) + missing_bytes == count * _LINE_BYTES
    assert ledger.faults == (ledger.missing, 0, 0)
    assert ledger.missing * _LINE_BYTES == missing_bytes + ledger.torn_bytes
    assert ledger.last == count - 1
    (exit_record,) = member.records(Kind.EXIT)
    assert exit_record.json() == {"status": 0}
    assert int(str(gaps[0]["from"])) < int(str(gaps[0]["to"])) <= exit_record.at
    fleet.assert_clean(member)


def test_r11_a_pod_started_on_a_full_disk_runs_or_fails_in_one_line_and_leaves_nothing(
    fleet: Fleet, disk: SmallDisk
) -> None:
    first = fleet.start("first", "echo", "hello")
    fleet.eventually(lambda: not first.pod.alive and not fleet.processes(first), "it has ended")
    before = _tree(disk.path)

    for leave_bytes in (0, 4096, 16384, 65536):
        disk.fill(leave_bytes=leave_bytes)
        started = fleet.cli("run", "-d", "--name", "m", "--", "sleep", "1000", expect=None)

        if started.returncode != 0 or leave_bytes == 0:
            assert started.returncode == 1
            assert re.fullmatch(r"scrubjay: .*[Nn]o space left.*\n", started.stderr)
            fleet.eventually(lambda: fleet.processes() == [], "no process is left")
            assert _tree(disk.path) == before | {"filler"}
            disk.free()
        else:
            assert fleet.ps()["m"]["description"] in ("running", "paused: disk full")
            disk.free()
            fleet.cli("stop", "m")
            fleet.eventually(lambda: fleet.processes() == [], "no process is left")
            fleet.cli("rm", "m")


def _tree(path: Path) -> set[str]:
    return {str(entry.relative_to(path)) for entry in path.rglob("*")}


def test_r11_a_keeper_killed_while_paused_loses_nothing_it_acknowledged(fleet: Fleet, disk: SmallDisk) -> None:
    member = fleet.metronome("m", *_BEAT)
    fleet.cli("mark", "m", "acknowledged")
    disk.fill()
    _wait_until_paused(fleet, member)
    shown = _numbers_written(member.pod.tape())

    kill(member.keeper_pid)
    fleet.eventually(lambda: not fleet.processes(member), "nothing of the pod is left")

    assert "torn" in fleet.cli("verify", "m", expect=1).stdout
    assert member.labels() == ["acknowledged"]
    assert _numbers_written(member.pod.tape()) == shown
    disk.free()
    fleet.cli("seal", "m")
    fleet.assert_clean(member)
    assert member.ledger().faults == (0, 0, 0)
    assert member.labels() == ["acknowledged"]


def _numbers_written(tape: Tape) -> int:
    return sum(record.payload.count(b"\n") for record in tape.records() if record.kind == Kind.OUTPUT)


def test_r11_what_an_agent_showed_before_it_ended_during_a_pause_is_on_the_tape(fleet: Fleet, disk: SmallDisk) -> None:
    count = 1200  # of which the terminal holds most: 18 KB when nobody reads it
    member = fleet.metronome("m", "--wait", "--rate", "2000", "--every-ms", "50", "--count", str(count))
    eventually(member.log.exists, "the agent waits for its start")
    disk.fill()

    kill(member.agent_pid, signal.SIGUSR1)
    eventually(lambda: member.progress == count - 1, "the agent has written everything")
    eventually(lambda: not is_alive(member.agent_pid), "the agent has ended")
    disk.free()
    eventually(lambda: not member.pod.alive, "the keeper has ended")

    ledger = member.ledger()
    assert ledger.faults == (0, 0, 0)
    assert ledger.last == count - 1
    kinds = [record.kind for record in member.records(Kind.OUTPUT, Kind.EXIT, Kind.SEAL)]
    assert kinds[-2:] == [Kind.EXIT, Kind.SEAL]
    fleet.assert_clean(member)


def test_r11_an_agent_that_is_stopped_during_a_pause_ends_and_its_tape_is_closed_when_there_is_room(
    fleet: Fleet, disk: SmallDisk
) -> None:
    member = fleet.metronome("m", *_BEAT)
    disk.fill()
    _wait_until_paused(fleet, member)
    _wait_until_asleep(member)

    with member.pod.connect() as keeper:
        keeper.send({"do": "stop", "author": "test", "grace_ms": 5000})
    eventually(lambda: not is_alive(member.agent_pid), "the agent has ended")
    still_there = member.pod.alive
    disk.free()
    eventually(lambda: not member.pod.alive, "the keeper has ended")

    assert still_there
    ledger = member.ledger()
    assert ledger.faults == (0, 0, 0)
    assert ledger.last is not None
    assert ledger.last >= member.progress
    assert member.records()[-1].kind == Kind.SEAL
    fleet.assert_clean(member)
