"""Screen workers: they may die at any byte, and nobody loses a screen."""

from __future__ import annotations

import os
import signal
import time

import pytest

from crashes import crashing_stream
from scrubjay.replay.workers import EngineRefused, LeftOut, Workers, WorkerTerminal


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
        began = time.monotonic()
        shown = [terminal.text() for terminal in terminals]
        took_s = time.monotonic() - began

        assert shown == [f"pod {number}" for number in range(5)]
        assert [terminal.left_out for terminal in terminals] == [[]] * 5
        assert took_s < 5  # a start takes 0.4 s on a quiet machine


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


def test_a_worker_that_hangs_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers() as workers:
        terminal = WorkerTerminal(workers, 80, 24)
        terminal.feed(b"patience", offset=8)
        terminal.text()
        (pid,) = workers.pids
        monkeypatch.setattr("scrubjay.replay.workers.ANSWER_WITHIN_S", 4.0)
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
