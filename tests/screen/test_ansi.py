"""A screen as text and colours for a person's terminal."""

from __future__ import annotations

import re
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.screen.ansi import encode_ansi
from scrubjay.screen.picture import PLAIN, Cursor, Line, Picture, Span
from tests.support.pictures import HOSTILE, draw, link

_HARMLESS = re.compile(r"(?:\x1b\[[0-9;:]*m|[^\x00-\x1f\x7f-\x9f]|\n)*")
_SGR = re.compile(r"\x1b\[[0-9;:]*m")

_STYLED = (
    b"\x1b[1mbold\x1b[0m \x1b[2;3mfaint italic\x1b[0m \x1b[7minverse\x1b[0m \x1b[9;53mstruck\x1b[0m\r\n"
    b"\x1b[4:3;58;2;255;0;9mcurly\x1b[0m \x1b[31mred\x1b[0m \x1b[94mbright\x1b[0m \x1b[38;5;208morange\x1b[0m\r\n"
    b"\x1b[38;2;1;2;3;48;2;4;5;6mown\x1b[0m\r\n\x1b[48;5;24mto the end\x1b[K\x1b[0m\r\n"
    + "日本語 👍 e\u0301 ║\r\n".encode()
)


def _merge(line: Line) -> list[tuple[object, str]]:
    """Neighbours of one style as one: what was erased in a colour and what was written in it look the same."""
    return [
        (style, "".join(span.text for span in spans)) for style, spans in groupby(line.spans, lambda span: span.style)
    ]


def test_there_is_a_line_per_row_and_colours_end_with_each() -> None:
    lines = encode_ansi(draw(_STYLED, 40, 10)).split("\n")

    assert lines.pop() == ""
    assert len(lines) == 10
    assert all(line.endswith("\x1b[0m") for line in lines)


def test_printed_again_it_is_the_same_screen() -> None:
    before = draw(_STYLED, 40, 10)

    after = draw(encode_ansi(before).rstrip("\n").replace("\n", "\r\n").encode(), 40, 10)

    assert [_merge(line) for line in after.lines] == [_merge(line) for line in before.lines]


def test_without_colours_it_is_the_text() -> None:
    picture = draw(_STYLED, 40, 10)

    assert encode_ansi(picture, colours=False).rstrip("\n") == picture.text


def test_history_comes_before_the_screen() -> None:
    picture = draw(b"".join(b"line %d\r\n" % n for n in range(20)), 40, 5, history=3)

    assert encode_ansi(picture, colours=False).split("\n")[:4] == ["line 13", "line 14", "line 15", "line 16"]


def test_colours_a_program_changed_come_out_as_it_made_them() -> None:
    shown = encode_ansi(draw(b"\x1b]4;1;rgb:12/34/56\x1b\\\x1b[31mred\x1b[0m", 10, 2))

    assert "38;2;18;52;86mred" in shown


def test_a_screen_of_another_colour_is_filled_with_it() -> None:
    shown = encode_ansi(draw(b"\x1b]11;rgb:01/02/03\x1b\\\x1b]10;rgb:a0/b0/c0\x1b\\hi", 10, 2)).split("\n")

    assert shown[0].startswith("\x1b[0;38;2;160;176;192;48;2;1;2;3mhi")
    assert _SGR.sub("", shown[1]) == " " * 10


def test_links_titles_and_everything_else_that_acts_stays_behind() -> None:
    hostile = "".join(HOSTILE).encode() + link("https://example.com", "text") + b"\x1b]0;title\x07\x1b]52;c;aGk=\x07"

    shown = encode_ansi(draw(hostile + b"\x9b31m\xc2\x9b31m\x1b[c\x05", 200, 30))

    assert _HARMLESS.fullmatch(shown)
    assert "text" in shown


@settings(max_examples=200, deadline=None)
@given(st.text(), st.booleans())
def test_whatever_a_span_says_nothing_acts(text: str, colours: bool) -> None:  # noqa: FBT001
    line = Line((Span(text, len(text), PLAIN, text),))
    cursor = Cursor(0, 0, visible=True, shape="block")
    picture = Picture(80, 1, (line,), (), cursor, text, text, alternate=False, modes=frozenset(), palette={})

    shown = encode_ansi(picture, colours=colours)

    assert _HARMLESS.fullmatch(shown)
    assert shown.count("\n") == 1
