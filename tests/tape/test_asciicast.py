from __future__ import annotations

import base64
import io
import json
import tracemalloc
from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import CastError
from scrubjay.tape.asciicast import (
    LINE_MAX_BYTES,
    Cast,
    CastEvent,
    CastLines,
    encode_cast_v2,
    encode_cast_v3,
    encode_jsonl,
    limited_lines,
    read_cast,
)
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_size, encode_typed
from scrubjay.tape.record import Json, Record, decode_json
from tests.support.tables import every_row

V1 = b'{"version": 1, "width": 80, "height": 24, "stdout": [[0.25, "a"], [1.5, "b"]]}\n'
V1_FULL = b"""{
  "version": 1,
  "width": 100,
  "height": 50,
  "duration": 1.75,
  "command": "/bin/zsh",
  "title": "Demo",
  "env": {"TERM": "xterm-256color", "SHELL": "/bin/zsh"},

  "stdout": [
    [0.25, "a"],
    [1.5, "b"]
  ]
}
"""
V1_NULLS = (
    b'{"version": 1, "width": 80, "height": 24, "duration": null, "command": null, "title": null, "env": null,'
    b' "stdout": [[0.25, "a"], [1.5, "b"]]}'
)
V2 = b'{"version": 2, "width": 80, "height": 24}\n'
V2_FULL = (
    b'{"version": 2, "width": 100, "height": 50, "timestamp": 1509091818.25, "duration": 1.75, "idle_time_limit": 2.5,'
    b' "command": "/bin/zsh -l", "title": "Demo", "env": {"TERM": "xterm", "SHELL": null},'
    b' "theme": {"fg": "#d0d0d0", "bg": "#212121", "palette": "#151515"}}\n'
)
V2_NULLS = (
    b'{"version": 2, "width": 80, "height": 24, "timestamp": null, "idle_time_limit": null, "command": null,'
    b' "title": null, "env": null, "theme": null}\n'
)
V3 = b'{"version": 3, "term": {"cols": 80, "rows": 24}}\n'
V3_FULL = (
    b'{"version": 3, "term": {"cols": 100, "rows": 50, "type": "xterm-256color", "version": "ghostty 1.2",'
    b' "theme": {"fg": "#d0d0d0", "bg": "#212121", "palette": "#151515"}}, "timestamp": 1509091818,'
    b' "idle_time_limit": 2.5, "command": "/bin/zsh", "title": "Demo", "env": {"SHELL": "/bin/zsh"}, "tags": ["x"]}\n'
)
V3_NULLS = (
    b'{"version": 3, "term": {"cols": 80, "rows": 24, "type": null, "theme": null}, "timestamp": null,'
    b' "idle_time_limit": null, "command": null, "title": null, "env": null}\n'
)


def read(*lines: bytes, accept_truncated: bool = False) -> Cast:
    return read_cast(b"".join(lines).splitlines(keepends=True), "demo.cast", accept_truncated=accept_truncated)


def events(*lines: bytes) -> list[CastEvent]:
    return list(read(*lines).events)


def record(kind: int, at: int, payload: bytes, *, offset: int = 0) -> Record:
    return Record(offset, kind, at, payload, 0)


def head(**fields: object) -> Record:
    return record(Kind.HEAD, 0, encode_json(**{"cols": 80, "rows": 24, "name": "demo", "argv": ["sh"], **fields}))


def outputs(pieces: Iterable[bytes]) -> list[Record]:
    return [head(), *(record(Kind.OUTPUT, at, piece) for at, piece in enumerate(pieces))]


def export(lines: CastLines) -> tuple[Json, list[CastEvent]]:
    """The header as JSON, and the events as they are read again."""
    written = list(lines)
    return decode_json(written[0]), list(read_cast(written, "exported").events)


@every_row("cast", [V1, V1_FULL, V1_NULLS])
def test_version_1_has_its_events_in_the_header_with_delays(cast: bytes):
    assert events(cast) == [CastEvent(250_000, "o", "a"), CastEvent(1_750_000, "o", "b")]


@every_row("header", [V2, V2_FULL, V2_NULLS])
def test_version_2_has_times_from_the_start(header: bytes):
    found = events(header, b'[0.25, "o", "a"]\n', b'[1.75, "i", "b"]\n')

    assert found == [CastEvent(250_000, "o", "a"), CastEvent(1_750_000, "i", "b")]


@every_row("header", [V3, V3_FULL, V3_NULLS])
def test_version_3_has_times_since_the_event_before(header: bytes):
    found = events(header, b'[0.25, "o", "a"]\n', b'[1.5, "x", "0"]\n')

    assert found == [CastEvent(250_000, "o", "a"), CastEvent(1_750_000, "x", "0")]


@every_row("header", [V1, V1_NULLS, V2, V2_NULLS, V3, V3_NULLS])
def test_a_header_without_more_than_a_size_says_nothing_else(header: bytes):
    found = read(header).header

    assert (found.cols, found.rows) == (80, 24)
    assert (found.wall_us, found.title, found.command, found.idle_time_limit, found.term) == (None,) * 5
    assert found.env == found.extra == {}


def test_a_full_header_of_version_1_is_read_without_losing_a_field():
    found = read(V1_FULL).header

    assert (found.version, found.cols, found.rows) == (1, 100, 50)
    assert (found.title, found.command, found.wall_us, found.idle_time_limit) == ("Demo", "/bin/zsh", None, None)
    assert (found.env["SHELL"], found.term) == ("/bin/zsh", "xterm-256color")
    assert found.extra == {"duration": 1.75}


def test_a_full_header_of_version_2_is_read_without_losing_a_field():
    found = read(V2_FULL).header

    assert (found.version, found.cols, found.rows) == (2, 100, 50)
    assert (found.title, found.command, found.wall_us) == ("Demo", "/bin/zsh -l", 1509091818_250_000)
    assert (found.env, found.term, found.idle_time_limit) == ({"TERM": "xterm"}, "xterm", 2.5)
    assert found.extra["duration"] == 1.75
    assert found.extra["theme"] == {"fg": "#d0d0d0", "bg": "#212121", "palette": "#151515"}


def test_a_full_header_of_version_3_is_read_without_losing_a_field():
    found = read(V3_FULL).header

    assert (found.version, found.cols, found.rows) == (3, 100, 50)
    assert (found.title, found.command, found.wall_us) == ("Demo", "/bin/zsh", 1509091818_000_000)
    assert (found.env, found.term, found.idle_time_limit) == ({"SHELL": "/bin/zsh"}, "xterm-256color", 2.5)
    assert found.extra["tags"] == ["x"]
    assert set(cast(Json, found.extra["term"])) == {"type", "version", "theme"}


def test_a_field_of_an_unexpected_type_is_kept_among_the_others():
    header = b'{"version": 2, "width": 80, "height": 24, "title": 7, "timestamp": "noon", "env": {"A": 1}}\n'

    found = read(header).header

    assert (found.title, found.wall_us, found.env) == (None, None, {})
    assert found.extra == {"title": 7, "timestamp": "noon", "env": {"A": 1}}


@pytest.mark.parametrize(("interval", "count", "total_us"), [("0.1", 10_000, 10**9), ("0.0000004", 1000, 400)])
def test_many_intervals_add_up_without_an_error(interval: str, count: int, total_us: int):
    found = events(V3, *[f'[{interval}, "o", "."]\n'.encode()] * count)

    assert found[-1].at_us == total_us


def test_equal_times_are_in_order():
    assert [event.at_us for event in events(V2, b'[1, "o", "a"]\n', b'[1.0, "o", "b"]\n')] == [1_000_000] * 2


def test_comments_and_blank_lines_are_skipped_and_counted():
    cast = read(V3, b"# a comment\n", b"\n", b' \r\n[1, "o", "a"]\r\n', b"#\n")

    assert list(cast.events) == [CastEvent(1_000_000, "o", "a")]
    assert cast.line == 6


def test_codes_nobody_knows_are_kept():
    assert events(V3, b'[1, "zz", "?"]\n', b'[1, "", ""]\n') == [
        CastEvent(1_000_000, "zz", "?"),
        CastEvent(2_000_000, "", ""),
    ]


def test_a_last_line_without_a_newline_is_complete():
    cast = read(V2, b'[1, "o", "a"]')

    assert len(list(cast.events)) == 1
    assert cast.truncated_line is None


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


BAD_HEADERS = {
    "empty": (b"", 1, "empty"),
    "blank": (b"\n \n", 1, "empty"),
    "text": (b"hello\n", 1, "not JSON"),
    "text of two lines": (b"\nhello\nthere\n", 2, "not JSON"),
    "not an object": (b"[1, 2]\n", 1, "no header"),
    "an event": (b'[0.5, "o", "a"]\n', 1, "no header"),
    "a number": (b"12\n", 1, "no header"),
    "no version": (b'{"width": 80}\n', 1, "names no version"),
    "null version": (b'{"version": null}\n', 1, "names no version"),
    "version 0": (b'{"version": 0}\n', 1, "version 0 is not supported"),
    "version 4": (b'{"version": 4, "term": {}}\n', 1, "version 4 is not supported"),
    "version true": (b'{"version": true}\n', 1, "version true is not supported"),
    "version in quotes": (b'{"version": "2"}\n', 1, 'version "2" is not supported'),
    "version 2.5": (b'{"version": 2.5}\n', 1, "version 2.5 is not supported"),
    "nested version": (b'{"version": ' + nested(900) + b"}\n", 1, "version […] is not supported"),
    "no width": (b'{"version": 2, "height": 24}\n', 1, '"width" is missing'),
    "no height": (b'{"version": 2, "width": 80}\n', 1, '"height" is missing'),
    "null height": (b'{"version": 2, "width": 80, "height": null}\n', 1, '"height" is missing'),
    "no term": (b'{"version": 3, "width": 80, "height": 24}\n', 1, '"cols" is missing'),
    "odd term": (b'{"version": 3, "term": "80x24"}\n', 1, '"cols" is missing'),
    "width 0": (b'{"version": 2, "width": 0, "height": 24}\n', 1, '"width" is 0'),
    "width -1": (b'{"version": 2, "width": -1, "height": 24}\n', 1, '"width" is -1'),
    "width 10001": (b'{"version": 2, "width": 10001, "height": 24}\n', 1, '"width" is 10001'),
    "width true": (b'{"version": 2, "width": true, "height": 24}\n', 1, '"width" is true'),
    "width 80.0": (b'{"version": 2, "width": 80.0, "height": 24}\n', 1, '"width" is 80.0'),
    "nested width": (b'{"version": 2, "width": ' + nested(900) + b', "height": 24}\n', 1, '"width" is […]'),
    "nested extra": (b'{"version": 2, "width": 80, "height": 24, "x": ' + nested(500) + b"}\n", 1, "nested"),
    "a nesting bomb": (b'{"version": 2, "width": 80, "height": 24, "x": ' + nested(10**6) + b"}\n", 1, "nested"),
    "a nesting bomb without an end": (b"[" * 10**6, 1, "nested"),
    "an infinite number": (b'{"version": 2, "width": 80, "height": 24, "x": [{"y": 1e999}]}\n', 1, "not finite"),
    "a huge number": (b'{"version": 2, "width": ' + b"9" * 5000 + b', "height": 24}\n', 1, "digits"),
    "NUL": (b'{"version": 2, "width": 80, "height": 24, "title": "\0"}\n', 1, "NUL"),
    "NULs only": (bytes(4096), 1, "NUL"),
    "compressed": (b"\x1f\x8b\x08\xff\n\xff\xff\n", 1, "not UTF-8"),
    "not UTF-8": (b'{"version": 2, "width": 80, "height": 24, "title": "\xff"}\n', 1, "not UTF-8"),
    "a header cut off": (b'{"version": 2, "width"', 1, "not JSON"),
    "version 1 cut off": (V1_FULL[:-20], 12, "not JSON"),
    "version 1 without events": (b'{"version": 1, "width": 80, "height": 24}\n', 1, '"stdout"'),
    "version 1 with odd events": (b'{"version": 1, "width": 80, "height": 24, "stdout": {}}\n', 1, '"stdout"'),
    "version 1 and more": (V1 + b'[1, "o", "a"]\n', 2, "follows the end"),
}


@every_row("accept_truncated", [False, True])
@every_row(("data", "line", "why"), BAD_HEADERS.values())
def test_a_bad_header_is_an_error_that_names_the_line(data: bytes, line: int, why: str, *, accept_truncated: bool):
    with pytest.raises(CastError) as caught:
        read(data, accept_truncated=accept_truncated)

    assert (caught.value.source, caught.value.line) == ("demo.cast", line)
    assert why in str(caught.value)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


BAD_EVENTS = {
    "an object": (b"{}", "not an event"),
    "a number": (b"1", "not an event"),
    "too short": (b'[1, "o"]', "not an event"),
    "too long": (b'[1, "o", "a", 2]', "not an event"),
    "time in quotes": (b'["1", "o", "a"]', "not an event"),
    "time true": (b'[true, "o", "a"]', "not an event"),
    "time null": (b'[null, "o", "a"]', "not an event"),
    "code 1": (b'[1, 1, "a"]', "not an event"),
    "data null": (b'[1, "o", null]', "not an event"),
    "nested": (b'[1, "o", ' + nested(500) + b"]", "not an event"),
    "a nesting bomb": (nested(10**6), "nested too deeply"),
    "negative": (b'[-0.1, "o", "a"]', "a time of -0.1 s"),
    "NaN": (b'[NaN, "o", "a"]', "a time of nan s"),
    "Infinity": (b'[Infinity, "o", "a"]', "a time of inf s"),
    "1e999": (b'[1e999, "o", "a"]', "a time of inf s"),
    "31 years": (b'[1000000000.1, "o", "a"]', "a time of 1000000000.1 s"),
    "many digits": (b"[" + b"9" * 1000 + b', "o", "a"]', "a time of 9999999999"),
    "thousands of digits": (b"[" + b"9" * 5000 + b', "o", "a"]', "digits"),
    "not JSON": (b"[1, o, a]", "not JSON"),
    "raw control character": (b'[1, "o", "\x1b[0m"]', "not JSON"),
    "two events": (b'[1, "o", "a"] [2, "o", "b"]', "not JSON"),
    "NUL": (b'[1, "o", "\0"]', "NUL"),
    "not UTF-8": (b'[1, "o", "\xc3("]', "not UTF-8"),
}


@every_row("accept_truncated", [False, True])
@every_row("header", [V2, V3])
@every_row(("line", "why"), BAD_EVENTS.values())
def test_a_bad_event_is_an_error_that_names_the_line(header: bytes, line: bytes, why: str, *, accept_truncated: bool):
    cast = read(header, b'[1, "o", "a"]\n\n', line, b'\n[1, "o", "a"]\n', accept_truncated=accept_truncated)

    assert next(cast.events) == CastEvent(1_000_000, "o", "a")
    with pytest.raises(CastError) as caught:
        next(cast.events)

    assert (caught.value.source, caught.value.line) == ("demo.cast", 4)
    assert why in str(caught.value)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@every_row("item", [b'[0.1, "o", "a"]', b'["a", 0.1]', b'[-1, "a"]', b'[NaN, "a"]', b"[1]", b"7"])
def test_a_bad_event_of_version_1_is_an_error(item: bytes):
    cast = read(b'{"version": 1, "width": 80, "height": 24, "stdout": [[1, "a"], ' + item + b"]}")

    assert next(cast.events).data == "a"
    with pytest.raises(CastError, match=r"line 1: (item 2 of|a time of)"):
        next(cast.events)


def test_a_time_before_the_one_before_is_an_error_that_names_the_line():
    cast = read(V2, b'[2, "o", "a"]\n', b'[1.999999, "o", "b"]\n', b'[3, "o", "c"]\n')

    with pytest.raises(CastError, match=r"line 3: 1\.999999 s comes after 2 s"):
        list(cast.events)


def test_intervals_that_add_up_to_more_than_31_years_are_an_error():
    with pytest.raises(CastError, match="line 3: a time of 1200000000 s"):
        events(V3, *[b'[600000000, "o", "a"]\n'] * 2)


def test_a_torn_last_line_is_an_error_that_says_how_to_read_the_rest():
    cast = read(V2, b'[1, "o", "a"]\n', b'[2, "o", "b')

    with pytest.raises(CastError, match="line 3: the last line is cut off") as caught:
        list(cast.events)

    assert caught.value.hint == "import what is readable with --accept-truncated"


@every_row("tail", [b"", b"\n", b"\n\n \n"])
def test_a_cast_cut_anywhere_gives_every_complete_event_if_that_is_accepted(tail: bytes):
    whole, last = b'[1, "o", "a"]\n', '[2, "o", "é\\n"]'.encode()
    for cut in range(1, len(last)):
        cast = read(V2, whole, last[:cut], tail, accept_truncated=True)

        assert list(cast.events) == [CastEvent(1_000_000, "o", "a")]
        assert (cast.truncated_line, cast.truncated_bytes) == (3, cut + len(tail[:1]))


def test_zeros_at_the_end_are_a_torn_line():
    cast = read(V2, b'[1, "o", "a"]\n', bytes(4096), accept_truncated=True)

    assert len(list(cast.events)) == 1
    assert cast.truncated_line == 3


@given(
    st.lists(st.sampled_from([V1, V2, V3, b'[1, "o", "a"]\n', b"[", b'"', b"{", b"}\n", b"\xff", b"1e9"]) | st.binary())
)
def test_whatever_the_bytes_the_only_error_is_that_it_is_no_cast(parts: list[bytes]):
    try:
        found = events(*parts)
    except CastError:
        return

    assert found == sorted(found, key=lambda event: event.at_us)


class LongLine:
    """A file of one long line that is nowhere in memory."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readline(self, limit: int, /) -> bytes:
        count = min(limit, self.left)
        self.left -= count
        return b"x" * count


def test_a_line_of_200_mb_is_an_error_without_reading_it_to_its_end_or_the_memory_for_it():
    file = LongLine(200 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(CastError, match=r"line 1: it is longer than 67108864 bytes") as caught:
            read_cast(limited_lines(file, "demo.cast"), "demo.cast")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert caught.value.hint
    assert peak < LINE_MAX_BYTES + (4 << 20)
    assert file.left > 100 << 20


def test_a_line_above_the_limit_that_comes_from_elsewhere_is_an_error_too():
    with pytest.raises(CastError, match="line 2: it is longer than"):
        list(read_cast([V2, bytes(LINE_MAX_BYTES + 1)], "demo.cast").events)


def test_a_version_1_cast_above_the_limit_is_an_error_though_its_lines_are_short():
    blank = b" " * (1 << 20) + b"\n"

    with pytest.raises(CastError, match="it is longer than"):
        read_cast([b'{"version": 1,\n', *[blank] * 65], "demo.cast")


@given(st.binary())
def test_limited_lines_are_the_lines_of_the_file(data: bytes):
    assert list(limited_lines(io.BytesIO(data), "demo.cast")) == io.BytesIO(data).readlines()


def test_a_line_of_just_the_limit_is_read():
    assert list(limited_lines(io.BytesIO(b"abcd\nabc"), "demo.cast", limit_bytes=5)) == [b"abcd\n", b"abc"]
    with pytest.raises(CastError, match="line 2"):
        list(limited_lines(io.BytesIO(b"abcd\nabcde\n"), "demo.cast", limit_bytes=5))


EVERY_KIND = [
    head(wall=1_700_000_000_999_999, argv=["sh", "-c", "echo hi"], term="xterm"),
    record(Kind.CLOCK, 0, encode_json(wall=1_700_000_000_999_999, reason="start")),
    record(Kind.OUTPUT, 1_000_400, 'h"é\x1b'.encode()),
    record(Kind.INPUT, 2_000_800, encode_typed(b"y\r", "anna", hidden=False)),
    record(Kind.INPUT, 2_000_900, encode_typed(b"secret", "anna", hidden=True)),
    record(Kind.SIGNAL, 2_000_900, encode_json(signal="SIGINT", author="anna")),
    record(Kind.RESIZE, 3_001_200, encode_size(100, 50)),
    record(Kind.MARK, 4_001_600, encode_json(label="here", author="anna")),
    record(Kind.EVENT, 4_001_600, encode_json(event="hook.stop")),
    record(Kind.EVENT, 5_002_000, encode_json(event="asciicast", code="z", data="?")),
    record(Kind.GAP, 5_002_000, encode_json(reason="disk", bytes=3, **{"from": 5})),
    record(42, 5_002_000, b"\0\xff"),
    record(Kind.EXIT, 6_002_400, encode_json(status=130, signal="SIGINT")),
    record(Kind.SEAL, 6_002_400, encode_json(reason="exit")),
]


def test_version_2_has_absolute_times_and_no_exit():
    header, *lines = encode_cast_v2(EVERY_KIND)

    assert header == (
        b'{"version": 2, "width": 80, "height": 24, "timestamp": 1700000000, "command": "sh -c \'echo hi\'",'
        b' "title": "demo", "env": {"TERM": "xterm"}}\n'
    )
    assert lines == [
        '[1.000400, "o", "h\\"é\\u001b"]\n'.encode(),
        b'[2.000800, "i", "y\\r"]\n',
        b'[3.001200, "r", "100x50"]\n',
        b'[4.001600, "m", "here"]\n',
        b'[5.002000, "z", "?"]\n',
    ]


def test_version_3_has_intervals_in_milliseconds_and_the_exit():
    header, *lines = encode_cast_v3(EVERY_KIND)

    assert header == (
        b'{"version": 3, "term": {"cols": 80, "rows": 24, "type": "xterm"}, "timestamp": 1700000000,'
        b' "command": "sh -c \'echo hi\'", "title": "demo"}\n'
    )
    assert lines == [
        '[1.000, "o", "h\\"é\\u001b"]\n'.encode(),
        b'[1.001, "i", "y\\r"]\n',
        b'[1.000, "r", "100x50"]\n',
        b'[1.001, "m", "here"]\n',
        b'[1.000, "z", "?"]\n',
        b'[1.000, "x", "130"]\n',
    ]


@given(st.lists(st.integers(0, 10**7), min_size=1))
def test_intervals_of_version_3_never_drift_by_a_millisecond(steps: list[int]):
    instants = [sum(steps[: count + 1]) for count in range(len(steps))]
    records = [head(), *(record(Kind.OUTPUT, at, b".") for at in instants)]

    _, found = export(encode_cast_v3(records))

    assert all(abs(event.at_us - at) < 1000 for event, at in zip(found, instants, strict=True))


def test_a_time_that_goes_back_on_the_tape_stands_still_in_the_cast():
    records = [head(), record(Kind.OUTPUT, 2_000_000, b"a"), record(Kind.OUTPUT, 1_000_000, b"b")]

    for encode in (encode_cast_v2, encode_cast_v3):
        assert [event.at_us for event in export(encode(records))[1]] == [2_000_000] * 2


def test_a_character_split_over_two_records_comes_out_whole_in_the_later_event():
    lines = encode_cast_v2(outputs([b"a\xe2\x9c", b"\x93b"]))

    assert export(lines)[1] == [CastEvent(0, "o", "a"), CastEvent(1, "o", "\u2713b")]
    assert lines.replaced == 0


def test_a_record_that_ends_no_character_gives_no_event():
    lines = encode_cast_v2(outputs([b"\xe2", b"\x9c", b"\x93"]))

    assert export(lines)[1] == [CastEvent(2, "o", "\u2713")]


def test_a_character_split_by_other_records_is_whole_too():
    records = [
        head(),
        record(Kind.OUTPUT, 1, b"\xe2\x9c"),
        record(Kind.INPUT, 2, encode_typed(b"\xc3", "anna", hidden=False)),
        record(Kind.RESIZE, 3, encode_size(9, 9)),
        record(Kind.OUTPUT, 4, b"\x93"),
        record(Kind.INPUT, 5, encode_typed(b"\xa9", "anna", hidden=False)),
    ]

    _, found = export(encode_cast_v2(records))

    assert found == [CastEvent(3, "r", "9x9"), CastEvent(4, "o", "\u2713"), CastEvent(5, "i", "é")]


def test_invalid_bytes_are_replaced_and_counted():
    lines = encode_cast_v2(outputs([b"a\xffb\xc3", b"(\xef\xbf\xbd", b"\xf0\x9f"]))

    _, found = export(lines)

    assert "".join(event.data for event in found) == "a\ufffdb\ufffd(\ufffd\ufffd"
    assert lines.replaced == 3


# Bytes that make and break characters are more interesting than most.
BYTES = st.binary() | st.lists(st.sampled_from(list("aé✓😀\ufffd".encode() + b"\xff\xc0\xed\xa0\xf4"))).map(bytes)


@given(st.lists(BYTES))
def test_output_in_any_pieces_is_the_output_decoded_at_once(pieces: list[bytes]):
    for encode in (encode_cast_v2, encode_cast_v3):
        lines = encode(outputs(pieces))

        _, found = export(lines)

        whole = b"".join(pieces)
        assert "".join(event.data for event in found) == whole.decode("utf-8", "replace")
        assert lines.replaced == whole.decode("utf-8", "replace").count("\ufffd") - whole.count("\ufffd".encode())


def test_a_tape_without_a_readable_head_is_exported_at_80_by_24():
    for records in ([], [record(Kind.OUTPUT, 5, b"a")], [record(Kind.HEAD, 0, b"?"), record(Kind.OUTPUT, 5, b"a")]):
        header, found = export(encode_cast_v2(records))

        assert header == {"version": 2, "width": 80, "height": 24}
        assert [event.data for event in found] == ["a"][: len(records)]


def restore(line: bytes) -> tuple[str, int, int, bytes | Json]:
    """What a line says: kind, offset, at, and the payload, or its meaning where it was JSON."""
    match decode_json(line):
        case {"kind": str(kind), "offset": int(offset), "at": int(at), **rest}:
            return kind, offset, at, restore_payload(rest)
        case _:
            raise AssertionError(line)


def restore_payload(fields: Json) -> bytes | Json:
    match fields:
        case {"author": str(author), "hidden": int(hidden)}:
            return encode_typed(bytes(hidden), author, hidden=True, **_turn(fields))
        case {"author": str(author), "text": str(text)}:
            return encode_typed(text.encode(), author, hidden=False, **_turn(fields))
        case {"author": str(author), "base64": str(text)}:
            return encode_typed(base64.b64decode(text), author, hidden=False, **_turn(fields))
        case {"text": str(text)}:
            return text.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text)
        case {"cols": int(cols), "rows": int(rows)}:
            return encode_size(cols, rows)
        case {"data": data}:
            return cast(Json, data)
        case _:
            raise AssertionError(fields)


def _turn(fields: Json) -> dict[str, int]:
    return {name: value for name in ("epoch", "answers") if isinstance(value := fields.get(name), int)}


_NUMBERS = st.none() | st.integers(0, 2**53)
PAYLOADS = (
    st.binary(max_size=40)
    | st.builds(encode_typed, BYTES, st.text(), hidden=st.booleans(), epoch=_NUMBERS, answers=_NUMBERS)
    | st.dictionaries(st.text(), st.integers() | st.floats() | st.text() | st.none()).map(
        lambda it: json.dumps(it).encode()
    )
)


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 2**56), PAYLOADS)))
def test_json_lines_hold_everything_a_tape_does(items: list[tuple[int, int, bytes]]):
    records = [record(kind, at, payload, offset=at + 7) for kind, at, payload in items]

    lines = list(encode_jsonl(records))

    for found, line in zip(records, lines, strict=True):
        json.loads(line, parse_constant=pytest.fail)
        kind, offset, at, payload = restore(line)
        assert (kind, offset, at) == (found.kind_name, found.offset, found.at)
        assert payload == (found.payload if isinstance(payload, bytes) else found.json())


def test_json_lines_are_easy_to_read():
    assert list(encode_jsonl(EVERY_KIND))[2:7] == [
        '{"offset": 0, "at": 1000400, "kind": "output", "text": "h\\"é\\u001b"}\n'.encode(),
        b'{"offset": 0, "at": 2000800, "kind": "input", "author": "anna", "text": "y\\r"}\n',
        b'{"offset": 0, "at": 2000900, "kind": "input", "author": "anna", "hidden": 6}\n',
        b'{"offset": 0, "at": 2000900, "kind": "signal", "data": {"signal": "SIGINT", "author": "anna"}}\n',
        b'{"offset": 0, "at": 3001200, "kind": "resize", "cols": 100, "rows": 50}\n',
    ]
    assert list(encode_jsonl(EVERY_KIND))[11] == b'{"offset": 0, "at": 5002000, "kind": "kind-42", "base64": "AP8="}\n'
