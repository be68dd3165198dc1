"""A style as the sequence that sets it, whatever was set before. Pure."""

from __future__ import annotations

from functools import lru_cache

from scrubjay.screen.picture import DEFAULT, Attribute, Style, is_rgb, split_rgb

_CODES = (
    (Attribute.BOLD, "1"),
    (Attribute.FAINT, "2"),
    (Attribute.ITALIC, "3"),
    (Attribute.BLINK, "5"),
    (Attribute.INVERSE, "7"),
    (Attribute.INVISIBLE, "8"),
    (Attribute.STRIKETHROUGH, "9"),
    (Attribute.OVERLINE, "53"),
)


@lru_cache(maxsize=4096)
def encode_sgr(style: Style) -> str:
    """Select Graphic Rendition, beginning with a reset."""
    codes = ["0", *(code for attribute, code in _CODES if style.attributes & attribute)]
    if style.underline:
        codes.append("4" if style.underline == 1 else f"4:{style.underline}")
    for colour, base in ((style.fg, 30), (style.bg, 40)):
        if colour != DEFAULT:
            codes.append(_encode_colour(colour, base))
    if style.underline_colour != DEFAULT:
        # With colons: a terminal that does not know 58 must not take its numbers for other codes.
        colour = style.underline_colour
        codes.append("58:2::{}:{}:{}".format(*split_rgb(colour)) if is_rgb(colour) else f"58:5:{colour}")
    return f"\x1b[{';'.join(codes)}m"


def _encode_colour(colour: int, base: int) -> str:
    if is_rgb(colour):
        return "{};2;{};{};{}".format(base + 8, *split_rgb(colour))
    if colour < 8:
        return str(base + colour)
    # Not 38;5 below 16: a terminal that shows bold text in bright colours does so for the short form alone.
    return str(base + 52 + colour) if colour < 16 else f"{base + 8};5;{colour}"
