"""The colours a page is drawn in: the 256 of the palette, and what a program made of them. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scrubjay.screen.picture import DEFAULT, Attribute, Picture, Style, is_rgb, rgb, split_rgb

_REVERSE_MODE = 5  # DECSCNM: the whole screen with its two default colours exchanged
_KEPT = Attribute.BOLD | Attribute.ITALIC | Attribute.STRIKETHROUGH | Attribute.OVERLINE
_LEVELS = (0, 95, 135, 175, 215, 255)  # of each primary colour in the cube of 216

FOREGROUND, BACKGROUND = rgb(0xCF, 0xD5, 0xDC), rgb(0x0E, 0x12, 0x17)
_NAMED = (
    *(0x25292F, 0xED7473, 0x52B766, 0xC59700, 0x51A2F8, 0xC57EDA, 0x2CB2BF, 0xB9BEC6),
    *(0x6C727A, 0xFF9B98, 0x80D58D, 0xE1B850, 0x7DC2FF, 0xE1A2F4, 0x65D0DC, 0xF2F5F9),
)
PALETTE: tuple[int, ...] = (
    *(rgb(*split_rgb(colour)) for colour in _NAMED),
    *(rgb(red, green, blue) for red in _LEVELS for green in _LEVELS for blue in _LEVELS),
    *(rgb(level, level, level) for level in range(8, 248, 10)),
)


class Look(NamedTuple):
    """A style with everything decided that depends on the screen around it; colours are rgb."""

    fg: int = DEFAULT  #: DEFAULT if it is the screen's own
    bg: int = DEFAULT
    attributes: int = 0  #: of bold, italic, strikethrough, overline
    underline: int = 0
    underline_colour: int = DEFAULT
    hidden: bool = False  #: whether the text is not to be seen


class Ink(NamedTuple):
    """The colours of one screen."""

    fg: int
    bg: int
    changed: tuple[tuple[int, int], ...]  #: of the palette

    def look(self, style: Style) -> Look:
        """How a piece of text comes out in these colours."""
        return _look(self, style)


def ink_of(picture: Picture) -> Ink:
    """The colours of a screen; the default ones where the program left them alone."""
    fg = FOREGROUND if picture.fg == DEFAULT else picture.fg
    bg = BACKGROUND if picture.bg == DEFAULT else picture.bg
    if _REVERSE_MODE in picture.modes:
        fg, bg = bg, fg
    return Ink(fg, bg, tuple(picture.palette.items()))


def css_colour(colour: int) -> str:
    """An rgb colour as CSS writes it."""
    return "#{:02x}{:02x}{:02x}".format(*split_rgb(colour))


@lru_cache(maxsize=4096)
def _look(ink: Ink, style: Style) -> Look:
    changed = dict(ink.changed)

    def known(colour: int) -> int:
        return colour if colour == DEFAULT or is_rgb(colour) else changed.get(colour, PALETTE[colour])

    fg, bg = known(style.fg), known(style.bg)
    if style.attributes & Attribute.INVERSE:
        fg, bg = (ink.bg if bg == DEFAULT else bg), (ink.fg if fg == DEFAULT else fg)
    if style.attributes & Attribute.FAINT:
        fg = _between(ink.fg if fg == DEFAULT else fg, ink.bg if bg == DEFAULT else bg)
    return Look(
        fg=fg,
        bg=bg,
        attributes=style.attributes & _KEPT,
        underline=style.underline,
        underline_colour=known(style.underline_colour),
        hidden=bool(style.attributes & Attribute.INVISIBLE),
    )


def _between(one: int, other: int) -> int:
    return rgb(*((a + b) // 2 for a, b in zip(split_rgb(one), split_rgb(other), strict=True)))
