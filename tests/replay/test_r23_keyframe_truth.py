"""R23: what is seen at an instant is what was on the screen at that instant."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from scrubjay.replay import indexer
from scrubjay.replay.workers import Workers
from scrubjay.screen.ghostty import Terminal
from scrubjay.tape.payload import encode_json
from tests.support.corpus import Output, Recording, recordings
from tests.support.recordings import (
    cut_up,
    differences,
    head,
    open_replay,
    output,
    record_tape,
    resize,
    shown_by,
    truth_of,
)
from tests.support.streams import random_stream
from tests.support.tapes import Content
from tests.support.tiers import sized

SIZES = ((80, 24), (20, 6), (100, 30), (132, 43), (5, 3), (2, 2), (220, 60))
HISTORY = 1000
_STREAMS = sized(100, 1000, 10_000)


def test_r23_a_restored_screen_goes_on_like_the_one_it_was_taken_of() -> None:
    """Random streams cut anywhere: ``restore(snapshot(feed(a)))`` fed ``b`` equals ``feed(a + b)``."""
    kept = 0
    for seed in range(_STREAMS):
        rng = Random(seed)
        cols, rows = rng.choice(SIZES)
        stream = random_stream(rng, cols, rows, rng.choice((20, 200, 1000, 4000)))
        cut = rng.randrange(len(stream) + 1)
        whole = rng.random() < 0.5
        one = Terminal(cols, rows)
        one.feed(stream[:cut])
        snapshot = one.snapshot(history=whole, exact=True)
        if snapshot is not None:  # where the engine cannot, the keyframe is taken a little later
            kept += 1
            other = Terminal.restore(snapshot, scrollback=whole)
            one.feed(stream[cut:])
            _feed_in_pieces(rng, other, stream[cut:])
            _assert_same(one, other, f"seed {seed}", history=HISTORY if whole else 0)
            other.close()
        one.close()

    assert kept >= 0.99 * _STREAMS


def _feed_in_pieces(rng: Random, terminal: Terminal, data: bytes) -> None:
    position = 0
    while position < len(data):
        size = rng.choice((1, 2, 7, 100, 4096))
        terminal.feed(data[position : position + size])
        position += size


def _assert_same(one: Terminal, other: Terminal, where: str, *, history: int = 0) -> None:
    a, b = one.snapshot(history=True), other.snapshot(history=True)
    if a is None or b is None:
        assert one.text(0) == other.text(0), where
        return
    assert differences(a, b, history=history) == [], where


@pytest.mark.usefixtures("small_intervals")
def test_r23_seeking_in_random_tapes_shows_what_playing_from_the_start_shows(tmp_path: Path, workers: Workers) -> None:
    for seed in range(sized(4, 25, 250)):
        rng = Random(seed)
        tape = record_tape(tmp_path / str(seed), _random_contents(rng))
        if rng.random() < 0.5:
            tape.seal()
        replay = open_replay(tape, workers)
        replay.index()
        end = tape.open().end
        for number in range(8):
            frame = replay.seek(rng.randrange(replay.duration + 1)) if number % 2 else None
            frame = frame or replay.seek_offset(rng.randrange(end + 1))
            truth = truth_of(frame, tape)
            assert frame.snapshot or truth is None, f"seed {seed} at {frame.offset}"
            if truth is not None:
                assert differences(frame.snapshot, truth) == [], f"seed {seed} at {frame.offset}"
        replay.close()


def _random_contents(rng: Random) -> list[Content]:
    cols, rows = rng.choice(SIZES)
    contents = [head(cols, rows)]
    at = 1000
    for _ in range(rng.randint(1, 4)):
        part = cut_up(rng, random_stream(rng, cols, rows, rng.choice((500, 5000, 20_000))), start=at)
        at = part[-1][1] + rng.choice((0, 10_000, 2_000_000))
        cols, rows = rng.choice(SIZES)
        contents += [*part, resize(at, cols, rows)]
    return contents


@pytest.fixture
def small_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyframes so close together that a small tape has many."""
    monkeypatch.setattr(indexer, "KEYFRAME_BYTES", 1000)
    monkeypatch.setattr(indexer, "KEYFRAME_MAX_BYTES", 3000)
    monkeypatch.setattr(indexer, "WHOLE_BYTES", 8000)


@pytest.mark.usefixtures("small_intervals")
def test_r23_seeking_in_recordings_of_real_agents_shows_what_playing_from_the_start_shows(
    tmp_path: Path, workers: Workers
) -> None:
    for recording in recordings(one_of=sized(16, 1, 1)):
        tape = record_tape(tmp_path / recording.name, _contents_of(recording))
        replay = open_replay(tape, workers)
        replay.index()
        rng = Random(recording.name)
        end = tape.open().end
        records = list(tape.open().records())
        for _ in range(sized(4, 4, 40)):
            place = rng.randrange(end + 1)
            frame = replay.seek_offset(place)

            terminal = shown_by(records, until_offset=place)
            truth = terminal.snapshot(history=True)
            terminal.close()
            if truth is not None:
                assert differences(frame.snapshot, truth) == [], f"{recording.name} at {place}"
        replay.close()


def _contents_of(recording: Recording) -> list[Content]:
    contents = [head(*recording.size)]
    for event in recording.events:
        if isinstance(event, Output):
            contents.append(output(event.at_us, event.data))
        else:
            contents.append(resize(event.at_us, event.cols, event.rows))
    return contents


@pytest.mark.usefixtures("small_intervals")
def test_r23_a_thousand_lines_of_scrollback_are_there_at_any_instant(tmp_path: Path, workers: Workers) -> None:
    rng = Random(23)
    lines = b"".join(
        b"\x1b[3%dmline %d of many %s\x1b[0m\r\n" % (rng.randrange(8), n, b"x" * rng.randrange(60)) for n in range(3000)
    )
    tape = record_tape(tmp_path / "pod", [head(80, 24), *cut_up(rng, lines)])
    replay = open_replay(tape, workers)
    replay.index()
    for _ in range(5):
        frame = replay.seek_offset(rng.randrange(tape.open().end + 1), history=HISTORY)
        truth = truth_of(frame, tape)

        assert truth is not None
        assert differences(frame.snapshot, truth, history=HISTORY) == []
        assert len(frame.picture.history) == min(HISTORY, frame.picture.history and len(frame.picture.history))
        shown = [line.text for line in (*frame.picture.history, *frame.picture.lines)]
        numbers = [int(text.split()[1]) for text in shown if text.startswith("line ") and len(text.split()) > 2]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_r23_a_tape_without_a_head_is_shown_too(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [output(5, b"hello"), (42, 6, encode_json(unknown=1)), output(7, b" there")])
    replay = open_replay(tape, workers)

    assert replay.seek(10).picture.text == "hello there"
