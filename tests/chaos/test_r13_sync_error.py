"""R13: a descriptor whose sync failed once is never synced again; its records are written to a new segment."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.support.conditions import eventually
from tests.support.fleet import Fleet
from tests.support.processes import kill
from tests.support.strace import Tracing, tampered

pytestmark = pytest.mark.needs("strace")

_SYNC = re.compile(r"fdatasync\([0-9]+<([^>]*)>\)\s*=\s*(-?[0-9]+)")


def _syncs_of_segments(tracing: Tracing) -> list[tuple[str, int]]:
    """File and result of each sync but those of the watermark, which is synced every 5 s and may fail."""
    matches = [match for line in tracing.lines() if (match := _SYNC.match(line))]
    return [(match[1], int(match[2])) for match in matches if not match[1].endswith("/watermark")]


def test_r13_after_a_failed_sync_a_new_segment_holds_everything_and_the_old_one_is_never_synced(
    fleet: Fleet, tmp_path: Path
) -> None:
    member = fleet.metronome("m", "--rate", "2000", "--every-ms", "5")
    fleet.cli("mark", "m", "before")
    acknowledged = ["before"]

    failures, syncs = 0, list[tuple[str, int]]()
    while -1 not in [result for _, result in syncs]:  # the fault may have come to a sync of the watermark
        with tampered(
            member.keeper_pid,
            tmp_path / "strace",
            trace="fdatasync",
            inject=["fdatasync:error=EIO:when=1"],
        ) as tracing:
            with member.pod.connect() as keeper:
                for number in range(20):
                    label = f"mark {number}"
                    keeper.ask({"do": "mark", "label": label, "author": "test"})
                    acknowledged.append(label)
            failures = fleet.ps()["m"]["sync_failures"]
            reached = member.progress
            eventually(lambda: member.progress > reached + 500, "the agent goes on")  # noqa: B023
        syncs = _syncs_of_segments(tracing)
    fleet.finish(member)

    assert failures == 1
    (failed, result), *others = syncs
    assert result == -1
    assert "000001-" in failed
    assert failed not in [path for path, _ in others]
    assert all(result == 0 for _, result in others)
    assert any("000002-" in path for path, _ in others)
    (event,) = member.events("tape.sync_failed")
    assert event["error"] == "Input/output error"
    fleet.assert_clean(member)
    assert [name[:6] for name in member.segments(".sealed")] == ["000001", "000002"]
    assert member.labels() == acknowledged
    assert member.ledger().faults == (0, 0, 0)


def test_r13_nothing_is_acknowledged_while_syncs_fail(fleet: Fleet, tmp_path: Path) -> None:
    member = fleet.metronome("m", "--rate", "100")

    with tampered(
        member.keeper_pid, tmp_path / "strace", trace="fdatasync", inject=["fdatasync:error=EIO:when=1..2"]
    ) as tracing:
        fleet.cli("mark", "m", "acknowledged late")
        results = [result for _, result in _syncs_of_segments(tracing)]

    failures = results.count(-1)
    assert failures in (1, 2)  # one of the two faults may come to a sync of the watermark
    assert results[: failures + 1] == [-1] * failures + [0]
    assert member.labels() == ["acknowledged late"]
    assert len(member.events("tape.sync_failed")) == failures
    fleet.finish(member)
    assert member.ledger().faults == (0, 0, 0)
    fleet.assert_clean(member)


def test_r13_the_last_sync_of_a_tape_may_fail_too(fleet: Fleet, tmp_path: Path) -> None:
    member = fleet.metronome("m", "--wait", "--rate", "0", "--count", "100")
    eventually(member.log.exists, "the agent waits for its start")
    fleet.cli("mark", "m", "all is synced")

    with tampered(member.keeper_pid, tmp_path / "strace", trace="fdatasync", inject=["fdatasync:error=EIO:when=1..2"]):
        kill(member.agent_pid, signal.SIGUSR1)
        eventually(lambda: not member.pod.alive, "the keeper has ended")

    ledger = member.ledger()
    assert ledger.faults == (0, 0, 0)
    assert ledger.last == 99
    assert len(member.events("tape.sync_failed")) >= 1
    fleet.assert_clean(member)
    assert fleet.ps()["m"]["description"] == "exited 0"
