"""A screen, or a stretch of them, as a drawing that any page or viewer shows. Pure.

Every piece of text is stretched to its columns, so the grid holds in whatever font there is. A moving drawing moves
by CSS alone; there is no script, and nothing a program printed becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from scrubjay.screen.html import FONT, declare_font
from scrubjay.screen.palette import BACKGROUND, FOREGROUND, Ink, Look, css_colour, ink_of
from scrubjay.screen.picture import DEFAULT, Cursor, Line, Picture
from scrubjay.screen.pieces import cut

_CELL_PX, _ROW_PX, _BASE_PX, _FONT_PX, _MARGIN_PX = 9, 17, 14, 15, 12
_SLOT_PX = 2 * _ROW_PX  # of a strip: glyphs reach beyond their row, and must not be seen in the next one's place
_PLAIN = Look()

_CSS = (
    f"text{{font:{_FONT_PX}px {FONT};white-space:pre;fill:{css_colour(FOREGROUND)};font-variant-ligatures:none;"
    "unicode-bidi:bidi-override;direction:ltr}g rect{shape-rendering:crispEdges}"
    f".cursor{{fill:{css_colour(FOREGROUND)};opacity:.6}}"
)
_CURSOR = f'<rect class="{{}}" width="{_CELL_PX}" height="{_ROW_PX}"/>'
_FILM_CSS = (
    ".film{{animation:{seconds:g}s step-end infinite}}@media(prefers-reduced-motion:reduce){{.film{{animation:none}}}}"
)


class Shot(NamedTuple):
    """A screen and how long it stands."""

    picture: Picture
    us: int


class _Pen:
    """Draws rows, and knows the looks they needed."""

    def __init__(self) -> None:
        self._numbers: dict[Look, int] = {_PLAIN: 0}

    def row(self, line: Line, ink: Ink, cols: int) -> str:
        """A row with the left end of its baseline at the origin; empty if there is nothing to be seen."""
        fills = [] if ink.bg == BACKGROUND else [_draw_fill(0, cols, ink.bg)]
        texts: list[str] = []
        column = 0
        for span in line.spans:
            look = ink.look(span.style)
            if look.fg == DEFAULT and ink.fg != FOREGROUND:
                look = look._replace(fg=ink.fg)
            if look.bg != DEFAULT:
                fills.append(_draw_fill(column, span.cells, look.bg))
            number = self._numbers.setdefault(look._replace(bg=DEFAULT), len(self._numbers))
            if not look.hidden and (number or span.text.strip()):
                texts += _draw_text(span.text, column, span.cells, number)
            column += span.cells
        return "".join(fills + texts)

    def css(self) -> str:
        """The rules of everything drawn so far."""
        return "".join([f".s{number}{{{_declare(look)}}}" for look, number in self._numbers.items() if number])


def encode_svg(picture: Picture) -> str:
    """One screen, standing still."""
    pen, ink = _Pen(), ink_of(picture)
    rows = [_place(pen.row(line, ink, picture.cols), _ROW_PX * y) for y, line in enumerate(picture.lines)]
    css = pen.css()
    if picture.cursor.visible:
        rows.append(_CURSOR.format("cursor"))
        css += f".cursor{{transform:{_cursor_transform(picture.cursor)}}}"
    return "".join(_document(picture.cols, picture.rows, css, rows))


def encode_svg_clip(shots: Iterable[Shot]) -> Iterator[str]:
    """A stretch of screens that plays again and again.

    Each row of the window is a strip of everything that is ever shown there, so that what stays is there once.
    """
    pen = _Pen()
    strips: list[_Strip] = []
    cursor = _Strip()
    now = cols = 0
    for picture, us in shots:
        ink = ink_of(picture)
        strips += [_Strip(now) for _ in range(len(strips), picture.rows)]
        for y, strip in enumerate(strips):
            strip.show(pen.row(picture.lines[y], ink, picture.cols) if y < picture.rows else "", now)
        cursor.show(_cursor_transform(picture.cursor) if picture.cursor.visible else "", now)
        now += max(1, us)
        cols = max(cols, picture.cols)
    css = [pen.css(), _FILM_CSS.format(seconds=now / 1e6), _cursor_css(cursor, now)]
    css += [strip.css(f"r{y}", now) for y, strip in enumerate(strips)]
    rows = [strip.draw(f"r{y}", y) for y, strip in enumerate(strips)]
    yield from _document(cols, len(strips), "".join(css), [*rows, _CURSOR.format("film cursor")])


class _Strip:
    """Everything that is shown in one place, each once, and when which of it is."""

    def __init__(self, begin: int = 0) -> None:
        self._numbers: dict[str, int] = {"": 0}
        self._turns: list[tuple[int, int]] = [(0, 0)] if begin else []

    def show(self, drawn: str, at: int) -> None:
        """From this time on, this."""
        number = self._numbers.setdefault(drawn, len(self._numbers))
        if not self._turns or self._turns[-1][1] != number:
            self._turns.append((at, number))

    def turns(self, total: int) -> Iterator[tuple[str, str]]:
        """When what is shown, as shares of the whole time."""
        drawn = list(self._numbers)
        return ((f"{at / total:.4%}", drawn[number]) for at, number in self._turns)

    def css(self, name: str, total: int) -> str:
        """What moves the strip."""
        if len(self._turns) < 2:
            return ""
        stops = "".join([f"{at / total:.4%}{{transform:translateY({-_SLOT_PX * n}px)}}" for at, n in self._turns])
        return f"@keyframes {name}{{{stops}}}.{name}{{animation-name:{name}}}"

    def draw(self, name: str, y: int) -> str:
        """The strip behind a window that shows one of it; where nothing moves, the last."""
        last = self._turns[-1][1]
        if len(self._turns) < 2:
            return _place(list(self._numbers)[last], _ROW_PX * y)
        slots = "".join([_place(drawn, _SLOT_PX * number) for drawn, number in self._numbers.items()])
        window = f'<svg y="{_ROW_PX * y}" width="100%" height="{_ROW_PX}">'
        return f'{window}<g class="film {name}" transform="translate(0 {-_SLOT_PX * last})">{slots}</g></svg>'


def _document(cols: int, rows: int, css: str, body: Iterable[str]) -> Iterator[str]:
    """A window of that many columns and rows, with a margin around it."""
    width, height = cols * _CELL_PX + 2 * _MARGIN_PX, rows * _ROW_PX + 2 * _MARGIN_PX
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<style>{_CSS}{css}</style><rect width="100%" height="100%" rx="6" fill="{css_colour(BACKGROUND)}"/>'
        f'<svg x="{_MARGIN_PX}" y="{_MARGIN_PX}" width="{cols * _CELL_PX}" height="{rows * _ROW_PX}">'
    )
    yield from body
    yield "</svg></svg>\n"


def _place(row: str, top_px: int) -> str:
    return f'<g transform="translate(0 {top_px + _BASE_PX})">{row}</g>' if row else ""


def _cursor_transform(cursor: Cursor) -> str:
    """Where a block of one cell goes, and into which shape."""
    x, y = cursor.x * _CELL_PX, cursor.y * _ROW_PX
    match cursor.shape:
        case "bar":
            return f"translate({x}px,{y}px) scale(.2,1)"
        case "underline":
            return f"translate({x}px,{y + _ROW_PX - 2}px) scale(1,.12)"
        case _:
            return f"translate({x}px,{y}px)"


def _cursor_css(cursor: _Strip, total: int) -> str:
    """A cursor that jumps; where nothing moves, none."""
    stops = [
        f"{share}{{visibility:visible;transform:{transform}}}" if transform else f"{share}{{visibility:hidden}}"
        for share, transform in cursor.turns(total)
    ]
    return f".film.cursor{{visibility:hidden;animation-name:cursor}}@keyframes cursor{{{''.join(stops)}}}"


def _draw_text(text: str, column: int, cells: int, number: int) -> Iterator[str]:
    look = f' class="s{number}"' if number else ""
    for piece in cut(text, cells):
        stretch = f' textLength="{piece.cells * _CELL_PX}"'
        if not piece.text.isascii():
            stretch += ' lengthAdjust="spacingAndGlyphs"'  # or boxes would have gaps
        yield f'<text x="{column * _CELL_PX}"{stretch}{look}>{escape(piece.text)}</text>'
        column += piece.cells


def _draw_fill(column: int, cells: int, colour: int) -> str:
    size = f'x="{column * _CELL_PX}" y="{-_BASE_PX}" width="{cells * _CELL_PX}" height="{_ROW_PX}"'
    return f'<rect {size} fill="{css_colour(colour)}"/>'


def _declare(look: Look) -> str:
    colour = [] if look.fg == DEFAULT else [f"fill:{css_colour(look.fg)}"]
    return ";".join(colour + declare_font(look))
