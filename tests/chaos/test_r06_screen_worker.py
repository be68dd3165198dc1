"""R6: the terminal engine crashes, is killed, hangs; recording goes on, and other screens do too."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scrubjay.replay.indexer import APART_US
from scrubjay.replay.workers import Workers, WorkerTerminal
from scrubjay.tape.format import Kind
from tests.support.conditions import eventually
from tests.support.crashes import crashing_stream
from tests.support.fleet import Fleet
from tests.support.processes import kill, screen_workers_of


def test_r6_output_that_crashes_the_engine_is_recorded_and_only_its_screen_is_missing(
    fleet: Fleet, tmp_path: Path
) -> None:
    (cols, rows), data = crashing_stream()
    hostile = tmp_path / "hostile"
    hostile.write_bytes(data)
    after = b"\x1b[0m\x1b[2J\x1b[Hafter"
    program = (
        "import signal, sys; data = open(sys.argv[1], 'rb').read(); out = sys.stdout.buffer\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        f"for part in (b'before\\r', data, {after!r}):\n"
        "    out.write(part); out.flush(); signal.sigwait([signal.SIGUSR1])"
    )
    beat = fleet.metronome("beat", "--rate", "200")
    victim = fleet.start(
        "victim", sys.executable, "-c", program, str(hostile), options=("--cols", str(cols), "--rows", str(rows))
    )
    for shown in (b"before\r", b"before\r" + data):
        eventually(lambda: victim.output() == shown, "this part was printed")  # noqa: B023
        time.sleep(2 * APART_US / 1e6)  # so that it is a redraw of its own, and not the end of what crashes the engine
        kill(victim.agent_pid, signal.SIGUSR1)
    eventually(lambda: victim.output() == b"before\r" + data + after, "everything was printed")
    before_at_us = victim.records(Kind.OUTPUT)[0].at

    early = fleet.cli("screen", "victim", "--at", f"{before_at_us / 1e6}s")
    late = fleet.cli("screen", "victim")
    neighbor = fleet.cli("screen", "beat")

    assert early.stdout == "before\n"
    assert late.stdout == "after\n"
    assert "may differ" in late.stderr
    assert "n=" in neighbor.stdout
    assert fleet.ps()["victim"]["state"] == "running"
    fleet.finish(beat)
    assert beat.ledger().faults == (0, 0, 0)


def test_r6_an_engine_that_crashes_everywhere_leaves_a_pod_running_with_its_screen_unavailable(fleet: Fleet) -> None:
    beat = fleet.metronome("beat", "--rate", "500")
    eventually(lambda: len(beat.records(Kind.OUTPUT)) > 10, "there is output to crash at ten times")

    fleet.settings["SCRUBJAY_FAULT"] = "screen:raise@1"
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
    beat = fleet.metronome("beat", "--rate", "0", "--count", "100000", "--stay")
    eventually(lambda: beat.progress == 99_999, "there is a lot of output")
    fleet.finish(beat)

    indexing = fleet.run_aside("reindex", "beat")
    (worker,) = eventually(lambda: screen_workers_of(indexing.pid), "a worker was started")
    kill(worker, signal.SIGKILL)

    assert indexing.wait() == 0
    rows = fleet.cli("screen", "beat", "--format", "text").stdout
    assert beat.ledger().faults == (0, 0, 0)
    assert f"n={beat.ledger().last:08d}" in rows


def test_r6_the_screens_of_other_pods_are_back_within_a_second(promised: Callable[[float], float]) -> None:
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
    assert took_s <= promised(1)
