"""The tapes of one name as one line of time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from scrubjay.errors import BadInstant
from scrubjay.replay.reel import Reel, Source
from scrubjay.replay.workers import Workers
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from tests.support.recordings import WALL_US, head, mark, output, record_tape
from tests.support.tables import every_row
from tests.support.tapes import Content, TapeOnDisk, make_tape

SECOND = 1_000_000
HOUR = 3600 * SECOND


def _words(*words: bytes, wall_us: int) -> list[Content]:
    first = (int(Kind.HEAD), 0, encode_json(format=1, argv=["agent"], cols=40, rows=5, wall=wall_us))
    return [first, *(output((n + 1) * SECOND, b"\x1b[2J\x1b[H" + word) for n, word in enumerate(words))]


def _source(tape: TapeOnDisk) -> Source:
    return Source(tape.open(), tape.root, lambda: False)


@pytest.fixture(scope="module")
def reel(tmp_path_factory: pytest.TempPathFactory, workers: Workers) -> Reel:
    """Two tapes of three seconds, an hour apart."""
    folder = tmp_path_factory.mktemp("reel")
    first = make_tape(
        folder / "first", [*_words(b"a", b"b", b"c", wall_us=WALL_US), mark(3 * SECOND, "early")], "a" * 26
    )
    second = make_tape(
        folder / "second", [*_words(b"d", b"e", b"f", wall_us=WALL_US + HOUR), mark(3 * SECOND, "late")], "b" * 26
    )
    reel = Reel([_source(first), _source(second)], workers)
    reel.index()
    return reel


def test_its_time_goes_on_over_the_gap(reel: Reel) -> None:
    shown = [reel.seek(at * SECOND).picture.text for at in range(8)]

    assert reel.duration == 6 * SECOND
    assert shown == ["", "a", "b", "", "d", "e", "f", "f"]


def test_the_wall_clock_jumps_over_the_gap(reel: Reel) -> None:
    assert reel.wall_us(2 * SECOND) == WALL_US + 2 * SECOND
    assert reel.wall_us(5 * SECOND) == WALL_US + HOUR + 2 * SECOND


def test_stepping_crosses_from_one_tape_to_the_next_and_back(reel: Reel) -> None:
    end_of_first = reel.seek(3 * SECOND - 1)
    after = reel.step(end_of_first, forward=True)
    assert after is not None
    assert after.picture.text == "c"
    after = reel.step(after, forward=True)
    assert after is not None
    assert after.tape == "b" * 26
    before = reel.step(after, forward=False)
    assert before is not None
    assert (before.tape, before.picture.text) == ("a" * 26, "c")


def test_frames_cross_it_too(reel: Reel) -> None:
    texts = [frame.picture.text for frame in reel.frames(0, reel.duration)]

    assert texts == ["", "a", "b", "c", "", "d", "e", "f"]


def test_marks_of_all_tapes_are_in_order(reel: Reel) -> None:
    assert [(found.time, found.label) for found in reel.marks()] == [(3 * SECOND, "early"), (6 * SECOND, "late")]
    next_one, previous = reel.next_mark(3 * SECOND), reel.previous_mark(6 * SECOND)
    assert next_one is not None
    assert previous is not None
    assert (next_one.label, previous.label) == ("late", "early")


@every_row(
    ("raw", "text"),
    [("0", ""), ("1.5s", "a"), ("50%", ""), ("-1s", "e"), ("100%", "f"), ("-0s", "f")],
)
def test_instants_are_found_by_what_people_call_them(reel: Reel, raw: str, text: str) -> None:
    frame, told = reel.show(raw)

    assert frame.picture.text == text
    assert told is None


def test_a_wall_clock_is_found_in_the_tape_that_ran_then(reel: Reel) -> None:
    then = datetime.fromtimestamp((WALL_US + HOUR) / SECOND + 2).isoformat(timespec="seconds")  # noqa: DTZ006

    frame, told = reel.show(then)

    assert (frame.picture.text, told) == ("e", None)


def test_instants_outside_of_it_are_its_ends_and_say_so(reel: Reel) -> None:
    after, told_after = reel.show("9h")
    before, told_before = reel.show("-9h")

    assert (after.picture.text, before.picture.text) == ("f", "")
    assert told_after
    assert told_before


def test_what_cannot_be_understood_names_the_forms(reel: Reel) -> None:
    with pytest.raises(BadInstant) as caught:
        reel.show("around noon")

    assert "around noon" in str(caught.value)
    assert caught.value.hint


def test_the_timeline_says_how_long_there_was_nobody_between_two_tapes(reel: Reel) -> None:
    timeline = reel.timeline(60)

    assert timeline.seams == (3 * SECOND,)
    assert timeline.away == (HOUR - 3 * SECOND,)


def test_the_timeline_shows_activity_marks_and_seams(tmp_path: Path, workers: Workers) -> None:
    contents = [head(40, 5), output(SECOND, b"x" * 1000), output(60 * SECOND, b"y" * 10)]
    tape = record_tape(tmp_path / "pod", contents)
    reel = Reel([_source(tape)], workers)
    reel.index()
    timeline = reel.timeline(60)

    assert timeline.duration == 60 * SECOND
    assert timeline.density[1] == 1.0
    assert 0 < timeline.density[-1] < 1
    assert max(timeline.density[5:55]) == 0
    assert [(idle.start, idle.stop) for idle in timeline.idle] == [(SECOND, 60 * SECOND)]
    assert timeline.seams == ()
