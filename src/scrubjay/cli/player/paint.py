"""Rows of a recorded screen as Textual draws them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style as Look
from textual.strip import Strip

from scrubjay.cli.player.text import fit
from scrubjay.screen.picture import DEFAULT, Attribute, Line, Picture, Span, Style, is_rgb, split_rgb

_HIT = Look(reverse=True, color="yellow", bold=True)


class Paint:
    """Draws rows in the colours of one picture."""

    def __init__(self, picture: Picture) -> None:
        self._palette, self._fg, self._bg = picture.palette, picture.fg, picture.bg
        self.blank = Look(color=self._colour(DEFAULT, self._fg), bgcolor=self._colour(DEFAULT, self._bg))
        self._looks: dict[Style, Look] = {}

    def suits(self, picture: Picture) -> bool:
        """Whether another picture has the same colours."""
        return (self._palette, self._fg, self._bg) == (picture.palette, picture.fg, picture.bg)

    def draw(self, line: Line, cols: int) -> Strip:
        """A whole row, ``cols`` columns wide."""
        segments = [Segment(self._text(span), self._look(span.style)) for span in line.spans if span.cells > 0]
        # A row that was recorded wider than the screen is now is cut like the terminal cut it.
        return Strip(segments, sum(span.cells for span in line.spans)).adjust_cell_length(cols, self.blank)

    def _text(self, span: Span) -> str:
        return " " * span.cells if span.style.attributes & Attribute.INVISIBLE else fit(span.text, span.cells)

    def _look(self, style: Style) -> Look:
        look = self._looks.get(style)
        if look is None:
            look = self._looks[style] = self._make_look(style)
        return look

    def _make_look(self, style: Style) -> Look:
        has = Attribute(style.attributes)
        return Look(
            color=self._colour(style.fg, self._fg),
            bgcolor=self._colour(style.bg, self._bg),
            bold=Attribute.BOLD in has,
            italic=Attribute.ITALIC in has,
            dim=Attribute.FAINT in has,
            blink=Attribute.BLINK in has,
            reverse=Attribute.INVERSE in has,
            strike=Attribute.STRIKETHROUGH in has,
            overline=Attribute.OVERLINE in has,
            underline=style.underline > 0,
        )

    def _colour(self, colour: int, default: int) -> Color | None:
        colour = default if colour == DEFAULT else self._palette.get(colour, colour)
        return None if colour == DEFAULT else _rich_colour(colour)


@lru_cache(maxsize=4096)
def _rich_colour(colour: int) -> Color:
    # Numbers of the palette stay numbers: they look as the person's terminal is set up to show them.
    return Color.from_rgb(*split_rgb(colour)) if is_rgb(colour) else Color.from_ansi(colour)


def with_cursor(strip: Strip, x: int) -> Strip:
    """A row with the character at column ``x`` reversed."""
    if not 0 <= x < strip.cell_length:
        return strip
    wide = len(strip.crop(x, x + 2).text) == 1
    left, under, right = _divide(strip, x, x + 1 + wide)
    reversed_under = [
        Segment(text, (look or Look.null()) + Look(reverse=not (look and look.reverse))) for text, look, _ in under
    ]
    return Strip.join([left, Strip(reversed_under), right])


def with_hits(strip: Strip, places: Iterable[tuple[int, int]]) -> Strip:
    """A row in which some stretches of its text stand out."""
    text = strip.text
    for start, stop in places:
        before, hit, after = _divide(strip, cell_len(text[:start]), cell_len(text[:stop]))
        strip = Strip.join([before, Strip(Segment.apply_style(hit, post_style=_HIT)), after])
    return strip


def _divide(strip: Strip, start: int, stop: int) -> tuple[Strip, Strip, Strip]:
    end = strip.cell_length
    return strip.crop(0, start), strip.crop(start, min(stop, end)), strip.crop(min(stop, end), end)
