"""R6: the terminal engine crashes, is killed, hangs; recording goes on, and other screens do too."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from chaos.fleet import Fleet
from chaos.machine import children_of, eventually, kill
from crashes import crashing_stream
from scrubjay.replay.workers import Workers, WorkerTerminal

_RESTART_S = 1.0  # the promise; the test allows for a machine that has other things to do
_SLACK = 5


def test_r6_output_that_crashes_the_engine_is_recorded_and_only_its_screen_is_missing(
    fleet: Fleet, tmp_path: Path
) -> None:
    (cols, rows), data = crashing_stream()
    hostile = tmp_path / "hostile"
    hostile.write_bytes(data)
    program = (
        "import sys, time; data = open(sys.argv[1], 'rb').read(); out = sys.stdout.buffer\n"
        "out.write(b'before\\r'); out.flush(); time.sleep(0.3); out.write(data); out.flush(); time.sleep(0.3)\n"
        "out.write(b'\\x1b[0m\\x1b[2J\\x1b[Hafter'); out.flush(); time.sleep(600)"
    )
    beat = fleet.metronome("beat", "--rate", "200")
    victim = fleet.start(
        "victim", sys.executable, "-c", program, str(hostile), options=("--cols", str(cols), "--rows", str(rows))
    )
    eventually(lambda: b"after" in victim.output(), "everything was printed", within_s=30)

    early = fleet.cli("screen", "victim", "--at", "0.2s")
    late = fleet.cli("screen", "victim")
    neighbour = fleet.cli("screen", "beat")

    assert early.stdout == "before\n"
    assert late.stdout == "after\n"
    assert "may differ" in late.stderr
    assert "n=" in neighbour.stdout
    assert fleet.ps()["victim"]["state"] == "running"
    assert victim.output() == b"before\r" + data + b"\x1b[0m\x1b[2J\x1b[Hafter"
    fleet.finish(beat)
    assert beat.ledger().faults == (0, 0, 0)


def test_r6_an_engine_that_crashes_everywhere_leaves_a_pod_running_with_its_screen_unavailable(fleet: Fleet) -> None:
    beat = fleet.metronome("beat", "--rate", "500")
    eventually(lambda: beat.progress > 500, "there is output", within_s=20)

    fleet.settings["SCRUBJAY_FAULT"] = "screen:raise@1000"
    broken = fleet.cli("screen", "beat", expect=1)
    del fleet.settings["SCRUBJAY_FAULT"]
    again = fleet.cli("screen", "beat")

    assert "screen unavailable" in broken.stderr
    assert broken.stdout == ""
    assert fleet.ps()["beat"]["state"] == "running"
    assert "n=" in again.stdout
    fleet.finish(beat)
    assert beat.ledger().faults == (0, 0, 0)


def test_r6_killed_in_the_middle_of_its_work_a_worker_is_replaced_and_nothing_is_missing(fleet: Fleet) -> None:
    beat = fleet.metronome("beat", "--rate", "20000", "--every-ms", "20")
    eventually(lambda: beat.progress > 60_000, "there is a lot of output", within_s=60)
    fleet.finish(beat)

    indexing = fleet.run_aside("reindex", "beat")
    (worker,) = eventually(lambda: children_of(indexing.pid), "a worker was started", within_s=20)
    kill(worker, signal.SIGKILL)

    assert indexing.wait() == 0
    rows = fleet.cli("screen", "beat", "--format", "text").stdout
    assert beat.ledger().faults == (0, 0, 0)
    assert f"n={beat.ledger().last:08d}" in rows


def test_r6_the_screens_of_other_pods_are_back_within_a_second() -> None:
    size, data = crashing_stream()
    with Workers() as workers:
        others = [WorkerTerminal(workers, 80, 24) for _ in range(6)]
        for number, terminal in enumerate(others):
            terminal.feed(b"pod %d" % number, offset=5)
            terminal.text()
        victim = WorkerTerminal(workers, *size)
        victim.feed(data, offset=len(data))
        victim.text()

        began = time.monotonic()
        shown = [terminal.text() for terminal in others]
        took_s = time.monotonic() - began

    assert shown == [f"pod {number}" for number in range(6)]
    assert took_s < _RESTART_S * _SLACK
