from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorType
from rich.style import Style as Look

from scrubjay.cli.player.paint import Paint, with_cursor, with_hits
from scrubjay.query import mark, parse_query
from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.picture import Attribute, Line, Picture, Span, Style, plain_picture, rgb
from scrubjay.screen.snapshot import read_picture


def _picture(output: bytes, cols: int = 20, rows: int = 3) -> Picture:
    terminal = Terminal(cols, rows)
    terminal.feed(output)
    snapshot = terminal.snapshot(history=False)
    terminal.close()
    assert snapshot is not None
    return read_picture(snapshot)


def _looks(picture: Picture) -> list[tuple[str, Look]]:
    strip = Paint(picture).draw(picture.lines[0], picture.cols)
    assert strip.cell_length == picture.cols
    return [(text, look or Look.null()) for text, look, _ in strip]


def test_colours_of_the_palette_stay_numbers_and_others_are_exact() -> None:
    looks = _looks(_picture(b"\x1b[31mred\x1b[38;5;173morange\x1b[0m\x1b[38;2;1;2;3mown"))

    colours = [look.color for _, look in looks[:3]]
    assert [(colour.type, colour.number) for colour in colours if colour is not None][:2] == [
        (ColorType.STANDARD, 1),
        (ColorType.EIGHT_BIT, 173),
    ]
    assert colours[2] is not None
    assert colours[2].triplet == (1, 2, 3)


def test_attributes_are_drawn() -> None:
    ((_, look), *_) = _looks(_picture(b"\x1b[1;2;3;4;7;9;53mall"))

    assert (look.bold, look.dim, look.italic, look.underline) == (True,) * 4
    assert (look.reverse, look.strike, look.overline) == (True,) * 3


def test_text_that_was_hidden_is_not_drawn() -> None:
    assert _looks(_picture(b"\x1b[8msecret"))[0][0] == "      "


def test_a_link_is_text_and_nothing_more() -> None:
    ((text, look), *_) = _looks(_picture(b"\x1b]8;;javascript:alert(1)\x1b\\here\x1b]8;;\x1b\\"))

    assert text == "here"
    assert look.link is None
    assert not look.meta


def test_what_a_program_made_of_the_palette_is_drawn_so() -> None:
    picture = replace(
        plain_picture("", 5, 1),
        lines=(Line((Span("x", 1, Style(fg=4)),)),),
        palette={4: rgb(9, 8, 7)},
        bg=rgb(1, 1, 1),
    )

    (_, first), (_, rest) = _looks(picture)

    assert first.color is not None
    assert rest.bgcolor is not None
    assert (first.color.triplet, rest.bgcolor.triplet) == ((9, 8, 7), (1, 1, 1))


def test_wide_characters_keep_their_columns() -> None:
    picture = _picture("漢字 x".encode())

    assert Paint(picture).draw(picture.lines[0], 20).text == "漢字 x" + " " * 14


@pytest.mark.parametrize(("x", "under"), [(0, "漢"), (2, "字"), (4, " "), (5, "x"), (6, " "), (19, " ")])
def test_the_cursor_reverses_the_character_it_is_on(x: int, under: str) -> None:
    picture = _picture("漢字 x".encode())

    strip = with_cursor(Paint(picture).draw(picture.lines[0], 20), x)

    assert [text for text, look, _ in strip if look is not None and look.reverse] == [under]
    assert strip.cell_length == 20


def test_the_cursor_on_reversed_text_is_not_reversed() -> None:
    picture = _picture(b"\x1b[7mabc")

    strip = with_cursor(Paint(picture).draw(picture.lines[0], 20), 1)

    assert [text for text, look, _ in strip if look is not None and look.reverse] == ["a", "c"]


def test_a_cursor_outside_the_row_is_not_drawn() -> None:
    picture = _picture(b"abc")
    strip = Paint(picture).draw(picture.lines[0], 20)

    assert with_cursor(strip, 20) is strip


def test_what_was_searched_for_stands_out_in_any_case() -> None:
    picture = _picture("漢 Error, error".encode())

    row = Paint(picture).draw(picture.lines[0], 20)
    strip = with_hits(row, mark(row.text, parse_query("error")))

    assert [text for text, look, _ in strip if look is not None and look.reverse] == ["Error", "error"]
    assert strip.text == "漢 Error, error" + " " * 5


def test_a_row_wider_than_the_screen_is_cut() -> None:
    line = Line((Span("x" * 50, 50, Style(attributes=Attribute.BOLD)),))

    assert Paint(plain_picture("", 20, 1)).draw(line, 20).text == "x" * 20
