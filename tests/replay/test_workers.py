"""Screen workers: they may die at any byte, and nobody loses a screen."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from scrubjay.replay.workers import EngineRefused, LeftOut, Worker, Workers, WorkerTerminal
from tests.support.conditions import DEADLINE_S
from tests.support.crashes import crashing_stream
from tests.support.processes import descriptors_of, parent_of


@pytest.fixture
def own(workers: Workers) -> WorkerTerminal:
    """A terminal of the shared workers."""
    return WorkerTerminal(workers, 80, 24)


def test_a_terminal_shows_what_it_is_fed(own: WorkerTerminal) -> None:
    own.feed(b"hello \x1b[31mthere", offset=17)

    assert own.text() == "hello there"


def test_a_snapshot_is_restored_in_the_middle_of_a_sequence(workers: Workers, own: WorkerTerminal) -> None:
    own.feed(b"one \x1b[3", offset=7)
    other = WorkerTerminal(workers, 80, 24)
    other.restore(own.snapshot(), offset=7)

    other.feed(b"1mtwo", offset=12)

    assert other.text() == "one two"


def test_killing_a_worker_costs_no_terminal_its_screen() -> None:
    with Workers() as workers:
        terminals = [WorkerTerminal(workers, 80, 24) for _ in range(5)]
        for number, terminal in enumerate(terminals):
            terminal.feed(b"pod %d" % number, offset=5)
            terminal.snapshot()
        (pid,) = workers.pids

        os.kill(pid, signal.SIGKILL)

        assert [terminal.text() for terminal in terminals] == [f"pod {number}" for number in range(5)]
        assert [terminal.left_out for terminal in terminals] == [[]] * 5


def test_bytes_that_crash_the_engine_are_left_out_and_the_rest_is_shown() -> None:
    size, data = crashing_stream()
    with Workers() as workers:
        neighbour = WorkerTerminal(workers, 80, 24)
        neighbour.feed(b"unharmed", offset=8)
        terminal = WorkerTerminal(workers, *size)
        terminal.feed(data, offset=len(data))
        terminal.feed(b"\x1b[2J\x1b[Hstill here", offset=len(data) + 100)

        assert terminal.text() == "still here"
        assert neighbour.text() == "unharmed"
        assert terminal.left_out
        assert all(0 <= left.start < left.stop <= len(data) for left in terminal.left_out)


def test_output_that_crashes_the_engine_in_many_small_parts_is_left_out_too() -> None:
    size, data = crashing_stream()
    with Workers() as workers:
        terminal = WorkerTerminal(workers, *size)
        terminal.feed(data[:-4000], offset=len(data) - 4000)
        terminal.checkpoint(terminal.snapshot(), offset=len(data) - 4000)
        for start in range(len(data) - 4000, len(data), 100):  # as a busy machine reads them
            terminal.feed(data[start : start + 100], offset=start + 100)
        terminal.feed(b"\x1b[2J\x1b[Hstill here", offset=len(data) + 100)

        assert terminal.text() == "still here"
        assert all(0 <= left.start < left.stop <= len(data) for left in terminal.left_out)


def test_a_worker_that_hangs_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.feed(b"patience", offset=8)
        terminal.text()
        (pid,) = workers.pids
        _wait_for_the_next_worker_only(monkeypatch)
        os.kill(pid, signal.SIGSTOP)

        assert terminal.text() == "patience"
        assert pid not in workers.pids


def _wait_for_the_next_worker_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a worker no time until one was killed for it, and then as much as a busy machine takes to start another."""
    limit, kill = "scrubjay.replay.workers.ANSWER_WITHIN_S", Worker.kill

    def kill_and_wait(worker: Worker) -> None:
        monkeypatch.setattr(limit, DEADLINE_S)
        kill(worker)

    monkeypatch.setattr(Worker, "kill", kill_and_wait)
    monkeypatch.setattr(limit, 0.2)


def test_a_worker_that_waits_for_a_processor_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.feed(b"patience", offset=8)
        terminal.text()
        (pid,) = workers.pids
        looks: list[int] = []

        def look(worker: Worker) -> tuple[bool, float]:
            looks.append(worker.pid)
            if len(looks) == 30:  # long after it would have been given up
                os.kill(pid, signal.SIGCONT)
            return True, 0.0

        monkeypatch.setattr(Worker, "_look", look)
        monkeypatch.setattr("scrubjay.replay.workers.ANSWER_WITHIN_S", 0.1)
        os.kill(pid, signal.SIGSTOP)

        assert terminal.text() == "patience"
        assert workers.pids == [pid]


def test_a_worker_that_works_for_too_long_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.feed(b"patience", offset=8)
        terminal.text()
        (pid,) = workers.pids
        looks = iter(range(1000))

        def look(worker: Worker) -> tuple[bool, float]:
            return True, next(looks) if worker.pid == pid else 0.0

        monkeypatch.setattr(Worker, "_look", look)
        _wait_for_the_next_worker_only(monkeypatch)
        os.kill(pid, signal.SIGSTOP)

        assert terminal.text() == "patience"
        assert pid not in workers.pids


def test_a_keyframe_that_kills_the_engine_is_refused_and_not_tried_for_ever(workers: Workers) -> None:
    terminal = WorkerTerminal(workers, 80, 24)
    terminal.restore(b"GHOSTSNP\x01\x00 this was never a snapshot", offset=0)

    with pytest.raises(EngineRefused):
        terminal.text()


def test_replies_titles_and_notifications_are_told_once_even_if_a_worker_dies() -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.listen()
        terminal.feed(
            b"\x1b[c\x1b]2;title\x07\x1b]9;look here\x07\x1b]9;4;1;42\x07\x1b]7;file:///src\x07\x07", offset=50
        )
        first = terminal.effects()
        os.kill(workers.pids[0], signal.SIGKILL)
        second = terminal.effects()
        terminal.feed(b"\x1b[6n", offset=54)
        third = terminal.effects()

        assert [effect.kind for effect in first] == ["reply", "title", "notification", "progress", "cwd", "bell"]
        assert first[1].data == b"title"
        assert first[2].data == b"look here"
        assert (first[3].state, first[3].percent) == (1, 42)
        assert first[4].data == b"file:///src"
        assert second == []
        assert [effect.data for effect in third] == [b"\x1b[1;1R"]


def test_rows_that_were_drawn_on_are_told_with_ids_that_follow_them(own: WorkerTerminal) -> None:
    own.feed(b"one\r\ntwo\r\nthree", offset=15)
    first = {row.text: row.id for row in own.changed_rows() if row.text}
    nothing = own.changed_rows()
    own.feed(b"\x1b[2;1HTWO", offset=24)
    second = own.changed_rows()
    own.feed(b"\x1b[24;1H\r\nlast", offset=36)
    third = {row.text: row for row in own.changed_rows() if row.text}

    assert list(first) == ["one", "two", "three"]
    assert nothing == []
    assert (1, first["two"], "TWO") in second
    assert "one" not in [row.text for row in second]  # those the cursor left or came to may be told too
    assert (third["TWO"].y, third["TWO"].id) == (0, first["two"])


def test_left_out_bytes_are_named_by_their_offsets_in_the_tape() -> None:
    size, data = crashing_stream()
    with Workers() as workers:
        terminal = WorkerTerminal(workers, *size)
        terminal.feed(b"before", offset=1000)
        terminal.feed(data[:900_000], offset=950_000)
        terminal.feed(data[900_000:], offset=1_000_000)
        terminal.text()

        (left,) = terminal.left_out
        assert left.stop <= 1_000_000
        assert left.start >= 900_000
        assert isinstance(left, LeftOut)


def test_killing_the_process_that_forks_workers_costs_no_terminal_its_screen() -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.feed(b"before", offset=6)
        assert terminal.text() == "before"
        (pid,) = workers.pids
        for process in (parent_of(pid), pid):
            os.kill(process, signal.SIGKILL)

        terminal.feed(b" and after", offset=16)

        assert terminal.text() == "before and after"
        assert pid not in workers.pids


def test_a_worker_holds_its_own_socket_and_no_file_of_ours(tmp_path: Path) -> None:
    with Workers() as others, Workers() as workers, (tmp_path / "secret").open("w"):
        for each in (others, workers):
            assert WorkerTerminal(each, 80, 24).text() == ""
        (pid,) = workers.pids

        held = [target for target in descriptors_of(pid).values() if target != "/dev/null"]

        assert len([target for target in held if target.startswith("socket:")]) == 1
        assert not [target for target in held if str(tmp_path) in target]
