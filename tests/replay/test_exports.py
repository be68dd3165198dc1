"""A stretch of a recording in other formats."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scrubjay.errors import BadInput
from scrubjay.replay.exports.cast import cast_records
from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.exports.html import encode_player
from scrubjay.replay.exports.segmented import INDEX, encode_segmented
from scrubjay.replay.exports.svg import encode_drawing
from scrubjay.replay.exports.txt import encode_text
from scrubjay.replay.workers import Workers
from scrubjay.tape.asciicast import encode_cast_v2, encode_cast_v3
from scrubjay.tape.format import Kind
from tests.replay.clips import SECOND, contents_of, make_clip, part_of, text_after, text_at
from tests.support.corpus import Recording, recordings
from tests.support.recordings import WALL_US, head, mark, output, resize
from tests.support.tables import every_row
from tests.support.tapes import Content
from tests.support.tiers import sized

_AGENTS = ("claude-session", "claude-turn-classic", "codex-turn", "gemini-resize", "opencode-drop")


@pytest.fixture(scope="module")
def agents() -> dict[str, Recording]:
    wanted = {recording.name: recording for recording in recordings()}
    return {name: wanted[name] for name in _AGENTS}


def _cast(clip: Clip) -> tuple[dict[str, Any], list[tuple[float, str, str]]]:
    header, *events = [json.loads(line) for line in encode_cast_v2(cast_records(clip))]
    return header, [tuple(event) for event in events]


def _counting(count: int) -> list[Content]:
    """A screen of 40 by 5 that shows a number every second."""
    return [head(40, 5), *(output(n * SECOND, b"\x1b[2J\x1b[Hnumber %d" % n) for n in range(1, count + 1))]


@every_row("name", _AGENTS)
def test_a_clip_as_a_cast_shows_what_was_shown(
    name: str, agents: dict[str, Recording], tmp_path: Path, workers: Workers
) -> None:
    whole = make_clip(tmp_path, workers, contents_of(agents[name]))
    rng = Random(name)
    for _ in range(sized(2, 4, 40)):
        start, stop = sorted(rng.randrange(whole.duration) for _ in range(2))

        header, events = _cast(part_of(whole, start, stop))

        shown = [(code, data) for _, code, data in events]
        assert text_after(shown, header["width"], header["height"]) == text_at(whole, stop)
        assert text_after(shown[:1], header["width"], header["height"]) == text_at(whole, start)


def test_a_clip_as_a_cast_begins_at_zero_with_size_and_wall_clock_of_its_start(
    tmp_path: Path, workers: Workers
) -> None:
    contents = [head(40, 5), output(SECOND, b"one"), resize(2 * SECOND, 60, 7), output(5 * SECOND, b" two")]
    clip = make_clip(tmp_path, workers, contents, start=3 * SECOND)

    header, events = _cast(clip)

    assert (header["width"], header["height"], header["timestamp"]) == (60, 7, WALL_US // SECOND + 3)
    assert [time for time, *_ in events] == [0, 2]
    assert "one" in events[0][2]
    assert events[1][1:] == ("o", " two")
    third = [json.loads(line) for line in encode_cast_v3(cast_records(clip))]
    assert third[0]["term"] == {"cols": 60, "rows": 7}
    assert [time for time, *_ in third[1:]] == [0, 2]


def test_a_clip_from_the_start_is_the_tape_itself(tmp_path: Path, workers: Workers) -> None:
    clip = make_clip(tmp_path, workers, _counting(3))

    assert list(encode_cast_v2(cast_records(clip))) == list(encode_cast_v2(clip.tapes[0].records()))


def test_a_cast_over_two_tapes_begins_the_second_with_an_empty_screen_of_its_size(
    tmp_path: Path, workers: Workers
) -> None:
    second = [head(30, 4), output(SECOND, b"second")]
    clip = make_clip(tmp_path, workers, [head(40, 5), output(SECOND, b"first")], second)

    _, events = _cast(clip)

    assert [event[1:] for event in events] == [("o", "first"), ("r", "30x4"), ("o", "\x1bc"), ("o", "second")]
    assert [event[0] for event in events] == [1, 1, 1, 2]


def test_parts_of_a_recording_put_together_are_the_recording(tmp_path: Path, workers: Workers) -> None:
    rng = Random(3)
    contents = [head(40, 5), *(output(rng.randrange(9) * n * 1000, rng.randbytes(9)) for n in range(1, 60))]
    contents.sort(key=lambda content: content[1])
    whole = make_clip(tmp_path, workers, contents, [head(40, 5), output(SECOND, b"second")])
    records = list(whole.records())
    for _ in range(30):
        cuts = sorted(rng.randrange(whole.duration) for _ in range(3))

        parts = [part_of(whole, start, stop) for start, stop in zip([0, *cuts], [*cuts, whole.duration], strict=True)]

        # What stands exactly on a seam belongs to the tape that begins there, in both parts.
        assert [record for part in parts for record in part.records() if record.kind == Kind.OUTPUT] == [
            record for record in records if record.kind == Kind.OUTPUT
        ]


def _check_as_the_player_does(files: dict[str, bytes]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rules of asciinema-player 3.17."""
    index = json.loads(files[INDEX])
    assert index["version"] == 1
    starts = [segment["start"] for segment in index["segments"]]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert len(starts) == 1 or starts[-1] < index["duration"]
    segments = [json.loads(files[segment["url"]]) for segment in index["segments"]]
    for number, segment in enumerate(segments):
        times = [time for time, *_ in segment["events"]]
        assert times == sorted(times)
        assert all(starts[number] <= time for time in times)
        assert number == 0 or times[0] == starts[number]
        assert number + 1 == len(segments) or times[-1] < starts[number + 1]
    assert segments[-1]["events"][-1][0] == index["duration"]
    marks = [(time, data) for segment in segments for time, code, data in segment["events"] if code == "m"]
    assert marks == [tuple(marker) for marker in index["markers"]]
    assert set(files) == {INDEX, *(segment["url"] for segment in index["segments"])}
    return index, segments


@every_row("name", _AGENTS)
def test_every_segment_shows_what_was_shown_without_those_before(
    name: str, agents: dict[str, Recording], tmp_path: Path, workers: Workers
) -> None:
    clip = make_clip(tmp_path, workers, contents_of(agents[name]))

    _, segments = _check_as_the_player_does(dict(encode_segmented(clip)))

    assert len(segments) >= clip.duration // (15 * SECOND)
    rng = Random(name)
    for segment in segments:
        snapshot, events = segment["snapshot"], segment["events"]
        time = rng.choice(events)[0]
        shown = [("o", snapshot["init"]), *((code, data) for at, code, data in events if at <= time)]
        assert text_after(shown, snapshot["cols"], snapshot["rows"]) == text_at(clip, round(time * SECOND))


def test_a_segmented_clip_keeps_its_marks_and_ends_at_its_end(tmp_path: Path, workers: Workers) -> None:
    contents = [*_counting(40), mark(41 * SECOND, "here\x1b[0m")]
    clip = make_clip(tmp_path, workers, contents, start=5 * SECOND + 1, stop=50 * SECOND)

    index, segments = _check_as_the_player_does(dict(encode_segmented(clip)))

    assert index["duration"] == 44.999999
    assert index["markers"] == [[35.999999, "here[0m"]]
    assert len(segments) == 4
    assert "number 5" in segments[0]["snapshot"]["init"]


def test_a_window_that_is_enlarged_in_a_clip_shows_what_had_scrolled_off_before_it(
    tmp_path: Path, workers: Workers
) -> None:
    lines = b"\r\n".join(b"line %d" % n for n in range(12))
    contents = [head(20, 4), output(SECOND, lines), resize(3 * SECOND, 20, 10), output(4 * SECOND, b"!")]
    clip = make_clip(tmp_path, workers, contents, start=2 * SECOND)
    header, events = _cast(clip)
    _, segments = _check_as_the_player_does(dict(encode_segmented(clip)))

    init = ("o", segments[0]["snapshot"]["init"])
    for shown in ([event[1:] for event in events], [init, *((code, data) for _, code, data in segments[0]["events"])]):
        assert text_after(shown, header["width"], header["height"]) == text_at(clip, clip.stop)


def test_a_segment_begins_between_characters(tmp_path: Path, workers: Workers) -> None:
    letter = "é".encode()
    pieces = (letter[:1], letter[1:] + letter[:1], letter[1:], letter)
    contents = [head(40, 5), *(output(n * 5 * SECOND, pieces[n % 4]) for n in range(4, 40))]
    clip = make_clip(tmp_path, workers, contents)

    _, segments = _check_as_the_player_does(dict(encode_segmented(clip)))

    assert len(segments) > 3
    assert {data for segment in segments for _, _, data in segment["events"]} <= {"é", ""}
    assert "\ufffd" not in "".join(segment["snapshot"]["init"] for segment in segments)


def test_a_clip_in_which_nothing_happens_has_an_end_too(tmp_path: Path, workers: Workers) -> None:
    clip = make_clip(
        tmp_path,
        workers,
        [head(40, 5), output(SECOND, b"x"), output(9 * SECOND, b"y")],
        start=2 * SECOND,
        stop=5 * SECOND,
    )

    index, segments = _check_as_the_player_does(dict(encode_segmented(clip)))

    assert index["duration"] == 3
    assert segments[0]["events"] == [[3, "o", ""]]


def _unpack_page(page: str) -> tuple[dict[str, Any], list[Any], list[Any]]:
    about, rows, frames = (
        json.loads(zlib.decompress(b64decode(data)))
        for data in re.findall(r'<script type="text/plain" id="\w+">([A-Za-z0-9+/=]*)</script>', page)
    )
    return about, rows, frames


def _screens(page: str) -> list[tuple[int, str]]:
    """When the page shows what."""
    _, rows, frames = _unpack_page(page)
    texts = ["".join(bit if isinstance(bit, str) else bit[0] for bit in row).rstrip() for row in rows]
    shown: list[str] = []
    time, found = 0, list[tuple[int, str]]()
    for frame in frames:
        changes: list[int] = frame[1] if len(frame) > 1 and frame[1] else []
        if len(frame) > 3 and frame[3]:
            rows = frame[3][1]
            shown = [*shown[:rows], *[""] * (rows - len(shown))]
        for y, row in zip(changes[::2], changes[1::2], strict=True):
            shown[y] = texts[row]
        time += frame[0]
        found.append((time, "\n".join(shown).rstrip("\n")))
    return found


@every_row("name", _AGENTS)
def test_a_page_has_every_screen_and_is_small(
    name: str, agents: dict[str, Recording], tmp_path: Path, workers: Workers
) -> None:
    clip = make_clip(tmp_path, workers, contents_of(agents[name]))

    page = b"".join(encode_player(clip)).decode()

    expected = [(frame.time // 1000, frame.picture.text) for frame in clip.reel.frames(0, clip.stop)]
    assert _screens(page) == expected
    assert len(page) < 24_000 + len(agents[name].cast) / 4


def test_a_page_knows_marks_wall_clock_and_duration(tmp_path: Path, workers: Workers) -> None:
    later = [
        (kind, at, data.replace(str(WALL_US).encode(), str(2 * WALL_US).encode())) for kind, at, data in _counting(2)
    ]
    clip = make_clip(tmp_path, workers, [*_counting(3), mark(3 * SECOND, "here\x07")], later, start=SECOND)

    about, _, _ = _unpack_page(b"".join(encode_player(clip)).decode())

    assert about["duration"] == 4000
    assert about["marks"] == [[2000, "here"]]
    assert about["walls"] == [[0, WALL_US // 1000 + 1000], [2000, 2 * WALL_US // 1000]]


def test_the_page_makes_no_markup_or_script_out_of_text(tmp_path: Path, workers: Workers) -> None:
    page = b"".join(encode_player(make_clip(tmp_path, workers, _counting(1)))).decode()

    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "http://",
        "//cdn",
    ):
        assert word not in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page


def test_colours_and_sizes_that_change_are_in_the_frames(tmp_path: Path, workers: Workers) -> None:
    contents = [
        head(40, 5),
        output(SECOND, b"plain"),
        output(2 * SECOND, b"\x1b]11;rgb:01/02/03\x1b\\"),
        resize(3 * SECOND, 20, 3),
        output(4 * SECOND, b"\x1b]111\x1b\\"),
    ]
    page = b"".join(encode_player(make_clip(tmp_path, workers, contents))).decode()

    _, _, frames = _unpack_page(page)
    assert [frame[3] for frame in frames if len(frame) > 3 and frame[3]] == [[40, 5], [20, 3]]
    assert "background:#010203" in page


def test_an_instant_is_a_still_drawing_and_a_stretch_a_moving_one(tmp_path: Path, workers: Workers) -> None:
    whole = make_clip(tmp_path, workers, _counting(4))

    still = b"".join(encode_drawing(part_of(whole, 2 * SECOND, 2 * SECOND))).decode()
    moving = b"".join(encode_drawing(part_of(whole, SECOND, 3 * SECOND))).decode()

    assert "number 2" in still
    assert "@keyframes" not in still
    assert re.findall(r"number \d", moving) == ["number 1", "number 2", "number 3"]
    assert "animation:4s" in moving


def test_long_pauses_are_short_in_a_drawing(tmp_path: Path, workers: Workers) -> None:
    contents = [head(40, 5), output(SECOND, b"a"), output(600 * SECOND, b"b")]

    moving = b"".join(encode_drawing(make_clip(tmp_path, workers, contents))).decode()

    assert "animation:6s" in moving


def test_what_is_too_much_for_a_drawing_is_refused(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.replay.exports.svg.ROWS_MAX", 2)

    with pytest.raises(BadInput, match="too much"):
        list(encode_drawing(make_clip(tmp_path, workers, _counting(5))))


def _text(
    tmp_path: Path, workers: Workers, *outputs: bytes, every_us: int = SECOND, cols: int = 20, rows: int = 4
) -> str:
    contents = [head(cols, rows), *(output((n + 1) * every_us, data) for n, data in enumerate(outputs))]
    return b"".join(encode_text(make_clip(tmp_path, workers, contents))).decode()


def test_text_is_everything_that_scrolled_off_and_the_last_screen(tmp_path: Path, workers: Workers) -> None:
    lines = [b"same" if n % 3 else b"line %d" % n for n in range(5000)]

    assert _text(tmp_path, workers, b"\r\n".join(lines)).encode().split(b"\n") == [*lines, b""]


def test_lines_that_were_wrapped_are_whole_in_a_text(tmp_path: Path, workers: Workers) -> None:
    line = "a line that is much longer than the screen is wide"

    assert _text(tmp_path, workers, f"{line}\r\n\r\n{line}\r\nend".encode()) == f"{line}\n\n{line}\nend\n"


def test_redrawing_leaves_no_noise_in_a_text(tmp_path: Path, workers: Workers) -> None:
    spinner = [b"\r\x1b[K%c working %ds" % (b"-\\|/"[n % 4], n) for n in range(20)]

    assert _text(tmp_path, workers, b"start\r\n", *spinner, b"\r\x1b[Kdone\r\n") == "start\ndone\n"


def test_what_is_cleared_away_was_seen(tmp_path: Path, workers: Workers) -> None:
    outputs = (b"first\r\n", b"half a line", b"\x1b[H\x1b[2J\x1b[3Jsecond")

    assert _text(tmp_path, workers, *outputs, every_us=600_000) == "first\nsecond\n"


def test_what_is_printed_again_later_is_news(tmp_path: Path, workers: Workers) -> None:
    outputs = (b"$ make\r\nok\r\n", b"\x1b[H\x1b[2J\x1b[3J$ ", b"make\r\nok\r\n", b"$ ")

    assert _text(tmp_path, workers, *outputs) == "$ make\nok\n$ make\nok\n$\n"


def test_what_is_erased_and_printed_again_is_in_a_text_once(tmp_path: Path, workers: Workers) -> None:
    lines = [b"line %d" % n for n in range(30)]
    redraws = [b"\x1b[2J\x1b[3J\x1b[H" + b"\r\n".join(lines[: 20 + n]) for n in range(0, 10, 3)]

    shown = _text(tmp_path, workers, b"\r\n".join(lines[:20]), *redraws, b"\r\nend")

    assert shown.encode().split() == b" ".join([*lines[:29], b"end"]).split()


def test_of_a_full_screen_program_every_row_is_taken_as_it_was_last(tmp_path: Path, workers: Workers) -> None:
    words = [b"\x1b[2;1H" + b" ".join([b"one", b"two", b"three"][: n + 1]) for n in range(3)]

    shown = _text(
        tmp_path,
        workers,
        b"before\r\n\x1b[?1049h\x1b[H",
        b"title\x1b[3;1Hfoot",
        *words,
        b"\x1b[2;1H\x1b[Kother",
        b"\x1b[?1049lafter",
    )

    assert shown == "one two three\ntitle\nother\nfoot\nbefore\nafter\n"


def test_the_text_of_a_clip_is_what_was_on_the_screen_and_came_since(tmp_path: Path, workers: Workers) -> None:
    contents = [head(20, 3), *(output(n * SECOND, b"line %d\r\n" % n) for n in range(1, 9))]
    clip = make_clip(tmp_path, workers, contents, start=5 * SECOND, stop=7 * SECOND)

    assert b"".join(encode_text(clip)) == b"line 4\nline 5\nline 6\nline 7\n"


def test_a_resize_loses_no_line_of_a_text(tmp_path: Path, workers: Workers) -> None:
    lines = [b"line %d" % n for n in range(12)]
    contents = [head(20, 10), output(SECOND, b"\r\n".join(lines[:8])), resize(2 * SECOND, 20, 4)]
    contents += [output(3 * SECOND, b"\r\n" + b"\r\n".join(lines[8:])), resize(4 * SECOND, 20, 10)]

    assert b"".join(encode_text(make_clip(tmp_path, workers, contents))).split(b"\n") == [*lines, b""]
