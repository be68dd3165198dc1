"""What a screen shows, for whoever draws it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import NamedTuple

DEFAULT = -1  #: the colour a terminal has by itself
DEFAULT_SIZE = (80, 24)  #: of a tape that does not say
_RGB = 1 << 24


def rgb(red: int, green: int, blue: int) -> int:
    """A colour of its own; colours below 256 are numbers of the palette."""
    return _RGB | red << 16 | green << 8 | blue


def is_rgb(colour: int) -> bool:
    """Whether a colour is one of its own."""
    return colour >= _RGB


def split_rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue of such a colour."""
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


class Attribute(IntFlag):
    """How text is shown."""

    BOLD = 1
    ITALIC = 2
    FAINT = 4
    BLINK = 8
    INVERSE = 16
    INVISIBLE = 32
    STRIKETHROUGH = 64
    OVERLINE = 128


class Style(NamedTuple):
    """How a piece of text looks."""

    fg: int = DEFAULT
    bg: int = DEFAULT
    attributes: int = 0  #: Attributes
    underline: int = 0  #: none, single, double, curly, dotted, dashed
    underline_colour: int = DEFAULT


PLAIN = Style()


class Span(NamedTuple):
    """Neighbouring cells that look the same."""

    text: str  #: without control characters; what a cell was never given is a space
    cells: int  #: columns it takes, which wide characters make more than its length
    style: Style = PLAIN
    link: str | None = None


class Line(NamedTuple):
    """One row."""

    spans: tuple[Span, ...]  #: the row ends after them; the rest of it is blank
    wrapped: bool = False  #: whether the next row continues it

    @property
    def text(self) -> str:
        """Its text without trailing blanks."""
        return "".join([span.text for span in self.spans]).rstrip()


class Cursor(NamedTuple):
    """Where the next character goes."""

    x: int
    y: int
    visible: bool
    shape: str  #: block, bar or underline


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole screen at one instant."""

    cols: int
    rows: int
    lines: tuple[Line, ...]  #: as many as ``rows``
    history: tuple[Line, ...]  #: what scrolled off the top, oldest first, as far as it was asked for
    cursor: Cursor
    title: str
    cwd: str  #: as the program reported it, a path or a file URL
    alternate: bool  #: whether a full-screen program has taken the screen
    modes: frozenset[int]  #: private modes that are on, such as 2004 for bracketed paste
    palette: dict[int, int]  #: colours of the palette that the program changed
    fg: int = DEFAULT  #: what the program made of the default colours
    bg: int = DEFAULT

    @property
    def text(self) -> str:
        """The screen as plain text, a line per row, blank rows at the end left out."""
        return "\n".join([line.text for line in self.lines]).rstrip("\n")


def plain_picture(text: str, cols: int, rows: int) -> Picture:
    """A screen of which nothing but the text is known."""
    lines = [Line((Span(line, len(line)),) if line else ()) for line in text.split("\n")[:rows]]
    lines += [Line(())] * (rows - len(lines))
    cursor = Cursor(0, 0, visible=False, shape="block")
    return Picture(cols, rows, tuple(lines), (), cursor, "", "", alternate=False, modes=frozenset(), palette={})
