"""A screen for a person's terminal: its text and colours, and nothing that could act there. Pure."""

from __future__ import annotations

from scrubjay.screen.picture import DEFAULT, Line, Picture, Span, Style
from scrubjay.screen.pieces import clean
from scrubjay.screen.sgr import encode_sgr


def encode_ansi(picture: Picture, *, colours: bool = True) -> str:
    """The history and the screen, a line per row, ended by a reset; without ``colours`` the text alone."""
    lines = picture.history + picture.lines
    if not colours:
        return "".join([clean(line.text) + "\n" for line in lines])
    return "".join([_encode_line(line, picture) + "\n" for line in lines])


def _encode_line(line: Line, picture: Picture) -> str:
    spans = line.spans
    if picture.bg != DEFAULT:
        used = sum(span.cells for span in spans)
        spans = (*spans, Span(" " * (picture.cols - used), picture.cols - used))
    parts: list[str] = []
    for span in spans:
        parts += (encode_sgr(_in_colours_of(picture, span.style)), clean(span.text))
    return "".join(parts) + "\x1b[0m"


def _in_colours_of(picture: Picture, style: Style) -> Style:
    """The style with the colours that the program changed, which the person's terminal does not know of."""
    if not picture.palette and picture.fg == picture.bg == DEFAULT:
        return style
    known = picture.palette.get
    fg, bg = known(style.fg, style.fg), known(style.bg, style.bg)
    return style._replace(
        fg=picture.fg if fg == DEFAULT else fg,
        bg=picture.bg if bg == DEFAULT else bg,
        underline_colour=known(style.underline_colour, style.underline_colour),
    )
