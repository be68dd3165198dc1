"""Seek, step, play: one tape at any instant."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from scrubjay.replay import replay as replay_module
from scrubjay.replay.workers import Workers
from scrubjay.tape.reader import Tape
from tests.support.crashes import crashing_after_resize, crashing_stream
from tests.support.recordings import (
    WALL_US,
    cut_up,
    differences,
    head,
    mark,
    open_replay,
    output,
    record_tape,
    resize,
    truth_of,
)
from tests.support.tapes import TapeOnDisk

SECOND = 1_000_000


@pytest.fixture
def counting(tmp_path: Path) -> TapeOnDisk:
    """A tape that shows another word each second."""
    words = (b"one", b"two", b"three", b"four", b"five")
    return record_tape(
        tmp_path / "counting",
        [head(40, 5), *(output((n + 1) * SECOND, b"\x1b[2J\x1b[H" + word) for n, word in enumerate(words))],
    )


def test_the_screen_at_an_instant_holds_everything_up_to_it(counting: TapeOnDisk, workers: Workers) -> None:
    replay = open_replay(counting, workers)

    shown = [replay.seek(at).picture.text for at in (0, 999_999, SECOND, 2_500_000, 3 * SECOND, 10**12)]

    assert shown == ["", "", "one", "two", "three", "five"]


def test_seeking_back_and_forth_shows_the_same(counting: TapeOnDisk, workers: Workers) -> None:
    replay = open_replay(counting, workers)
    replay.index()
    rng = Random(5)
    expected = ["", "one", "two", "three", "four", "five"]

    for _ in range(60):
        at = rng.randrange(6 * SECOND)
        assert replay.seek(at).picture.text == expected[min(at // SECOND, 5)]


def test_an_offset_within_a_record_shows_the_part_before_it(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [head(40, 5), output(1, b"hello there")])
    (record,) = (record for record in tape.open().records() if record.at == 1 and record.kind == 2)
    replay = open_replay(tape, workers)

    assert replay.seek_offset(record.offset + 13 + 5).picture.text == "hello"
    assert replay.seek_offset(record.end).picture.text == "hello there"
    assert replay.seek_offset(record.offset).picture.text == ""


def test_a_frame_says_where_and_when_it_is(counting: TapeOnDisk, workers: Workers) -> None:
    frame = open_replay(counting, workers).seek(2_500_000)

    assert (frame.at, frame.wall_us) == (2 * SECOND, WALL_US + 2 * SECOND)
    assert (frame.picture.cols, frame.picture.rows) == (40, 5)


def test_stepping_goes_from_change_to_change_in_both_directions(counting: TapeOnDisk, workers: Workers) -> None:
    replay = open_replay(counting, workers)
    replay.index()
    frame, forward = replay.seek(0), list[str]()
    while (after := replay.step(frame, forward=True)) is not None:
        forward.append(after.picture.text)
        frame = after
    backward: list[str] = []
    while (before := replay.step(frame, forward=False)) is not None:
        backward.append(before.picture.text)
        frame = before

    assert forward == ["one", "two", "three", "four", "five"]
    assert backward == ["four", "three", "two", "one", ""]


def test_stepping_skips_output_that_changes_nothing(tmp_path: Path, workers: Workers) -> None:
    same = b"\x1b[2J\x1b[Hsame"
    tape = record_tape(
        tmp_path / "pod", [head(40, 5), *(output(n * SECOND, same) for n in range(1, 6)), output(9 * SECOND, b"!")]
    )
    replay = open_replay(tape, workers)

    first = replay.step(replay.seek(0), forward=True)
    assert first is not None
    second = replay.step(first, forward=True)
    assert second is not None
    assert (second.at, second.picture.text) == (9 * SECOND, "same!")
    back = replay.step(second, forward=False)
    assert back is not None
    assert back.picture.text == "same"


def test_what_comes_in_one_burst_is_one_change(tmp_path: Path, workers: Workers) -> None:
    burst = [output(SECOND + n * 1000, b"%d" % n) for n in range(9)]
    tape = record_tape(tmp_path / "pod", [head(40, 5), *burst, output(3 * SECOND, b"x")])
    replay = open_replay(tape, workers)

    first = replay.step(replay.seek(0), forward=True)

    assert first is not None
    assert first.picture.text == "012345678"


def test_frames_are_the_screens_that_look_different(counting: TapeOnDisk, workers: Workers) -> None:
    replay = open_replay(counting, workers)

    frames = list(replay.frames(1_500_000, 4 * SECOND))

    assert [frame.picture.text for frame in frames] == ["one", "two", "three", "four"]
    assert [frame.at for frame in frames] == [1_500_000, 2 * SECOND, 3 * SECOND, 4 * SECOND]


def test_frame_after_frame_the_tape_is_read_once(
    counting: TapeOnDisk, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = open_replay(counting, workers)
    walks: list[int] = []

    def skim(tape: Tape, offset: int = 0, *, of: Any = Tape.skim) -> Any:
        walks.append(offset)
        return of(tape, offset)

    monkeypatch.setattr(Tape, "skim", skim)
    frames = list(replay.frames(0, replay.duration))

    assert [frame.picture.text for frame in frames] == ["", "one", "two", "three", "four", "five"]
    assert len(walks) == 3  # to the first frame, to the end of its record, and once over everything


def test_playing_waits_between_frames_but_not_longer_than_the_idle_limit(
    counting: TapeOnDisk, workers: Workers
) -> None:
    replay = open_replay(counting, workers)

    at_speed = [round(delay, 3) for delay, _ in replay.play(0, speed=2.0)]
    limited = [round(delay, 3) for delay, _ in replay.play(0, idle_limit_us=300_000)]

    assert at_speed == [0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert limited == [0, 0.3, 0.3, 0.3, 0.3, 0.3]


def test_a_resize_is_shown_at_its_instant(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(
        tmp_path / "pod", [head(40, 5), output(1, b"text"), resize(SECOND, 100, 30), output(2 * SECOND, b" more")]
    )
    replay = open_replay(tape, workers)
    replay.index()

    sizes = [(replay.seek(at).picture.cols, replay.seek(at).picture.rows) for at in (5, SECOND, 3 * SECOND)]

    assert sizes == [(40, 5), (100, 30), (100, 30)]


@pytest.mark.parametrize("saved", [b"", b"\x1b7"])
def test_lines_that_scrolled_off_come_back_in_a_larger_terminal(tmp_path: Path, workers: Workers, saved: bytes) -> None:
    # A cursor that was saved where the next character wraps is what the engine cannot restore in a wider terminal:
    # after that resize there is no keyframe.
    lines = b"".join(b"%d\r\n" % n for n in range(50)) + b"x" * 20 + saved
    contents = [
        output(SECOND, lines),
        resize(2 * SECOND, 30, 12),
        output(3 * SECOND, b"end"),
        resize(4 * SECOND, 25, 4),
    ]
    tape = record_tape(tmp_path / "pod", [head(20, 5), output(1, b"first\r\n"), *contents])
    replay = open_replay(tape, workers)
    replay.index()

    for history in (0, 100):
        for at in (SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND):
            frame = replay.seek(at, history=history)
            truth = truth_of(frame, tape)
            assert truth is not None
            assert differences(frame.snapshot, truth, history=history) == [], (at, history)
            assert replay.seek_offset(frame.offset, history=history).snapshot == frame.snapshot
    assert replay.seek(3 * SECOND).picture.lines[0].text == "39"


def test_a_screen_the_engine_cannot_describe_is_shown_as_text_of_its_size(tmp_path: Path, workers: Workers) -> None:
    # Half of a wide character is left in the last column: one that is protected from being blanked.
    drawn = "\x1b[?1049h\x1b[1;9H\x1bV日\x1bW\x1b[2;1Hhello".encode()
    tape = record_tape(tmp_path / "pod", [head(10, 4), output(1, drawn), resize(2, 9, 4), output(3, b" there")])
    replay = open_replay(tape, workers)
    replay.index()

    frame = replay.seek(3)

    assert not frame.snapshot
    assert frame.picture.lines[1].text == "hello the"
    assert (frame.picture.cols, frame.picture.rows) == (9, 4)


def test_marks_are_found_also_after_the_keyframes(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [head(40, 5), mark(5, "early"), output(9, b"x"), mark(12, "late")])
    replay = open_replay(tape, workers)

    assert replay.marks() == [(5, "early", "ann"), (12, "late", "ann")]
    assert (replay.next_mark(0), replay.next_mark(5), replay.next_mark(12)) == (5, 12, None)


def test_a_tape_without_keyframes_plays_and_says_that_it_is_slower(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "NEAR_BYTES", 1000)
    rng = Random(6)
    tape = record_tape(tmp_path / "pod", [head(80, 24), *cut_up(rng, b"some output\r\n" * 2000)])
    told: list[tuple[int, int]] = []
    replay = open_replay(tape, workers, progress=lambda done, total: told.append((done, total)))

    frame = replay.seek(replay.duration)

    assert "some output" in frame.picture.text
    assert replay.slow
    assert told
    assert replay.indexed
    assert not open_replay(tape, workers).slow


def test_another_process_that_is_indexing_does_not_keep_anybody_from_looking(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "NEAR_BYTES", 10)
    tape = record_tape(tmp_path / "pod", [head(40, 5), output(1, b"hello")])
    replay, other = open_replay(tape, workers), open_replay(tape, workers)
    with other._keyframes.writing():  # pyright: ignore[reportPrivateUsage]
        assert replay.seek(1).picture.text == "hello"


def test_where_the_engine_crashes_the_screen_is_unavailable_and_there_again_later(
    tmp_path: Path, workers: Workers
) -> None:
    size, data = crashing_stream()
    parts = [data[n : n + 60_000] for n in range(0, len(data), 60_000)]
    tape = record_tape(
        tmp_path / "pod",
        [
            head(*size),
            output(1, b"\x1b[Hbefore"),
            *(output(SECOND + n, part) for n, part in enumerate(parts)),
            output(5 * SECOND, b"\x1b[2J\x1b[Hafter"),
        ],
    )
    replay = open_replay(tape, workers)
    replay.index()

    before, there, after = replay.seek(10), replay.seek(SECOND + len(parts)), replay.seek(9 * SECOND)

    assert (before.unavailable, before.picture.text) == (None, "before")
    assert "engine failed" in (there.unavailable or "")
    assert (after.unavailable, after.picture.text) == (None, "after")
    assert "engine failed" in (after.doubtful or "")


def test_it_is_the_same_where_a_resize_is_part_of_the_crash(tmp_path: Path, workers: Workers) -> None:
    size, first, smaller, then = crashing_after_resize()
    contents = [output(SECOND, first), resize(2 * SECOND, *smaller), output(3 * SECOND, then + b"." * 5000)]
    after = [output(5 * SECOND, b"\x1bcafter"), output(6 * SECOND, b".")]
    tape = record_tape(tmp_path / "pod", [head(*size), *contents, *after])
    replay = open_replay(tape, workers)
    replay.index()

    shown = [replay.seek(at * SECOND) for at in (2, 3, 6)]

    assert [frame.unavailable is None for frame in shown] == [True, False, True]
    assert shown[2].picture.text == "after\n."
    assert "engine failed" in (shown[2].doubtful or "")


def test_scrollback_is_there_on_request(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [head(40, 5), output(1, b"".join(b"row %d\r\n" % n for n in range(50)))])
    replay = open_replay(tape, workers)

    frame = replay.seek(1, history=10)

    assert [line.text for line in frame.picture.history] == [f"row {n}" for n in range(36, 46)]
    assert replay.seek(1).picture.history == ()


def test_a_tape_that_grows_is_taken_in_on_request(tmp_path: Path, workers: Workers) -> None:
    from tests.support.tapes import begin_tape

    writer = begin_tape(tmp_path / "pod")
    for content in (head(40, 5), output(1, b"one")):
        writer.append(*content)
    writer.sync()
    tape = TapeOnDisk(tmp_path / "pod", "jaytapejaytapejaytapejay23")
    replay = open_replay(tape, workers)
    first = replay.seek(10**9).picture.text
    writer.append(*output(SECOND, b" two"))
    writer.sync()
    replay.refresh()

    assert first == "one"
    assert replay.seek(10**9).picture.text == "one two"
    assert replay.duration == SECOND
    writer.close()
