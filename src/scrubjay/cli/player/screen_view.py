"""The recorded screen in the window."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style as Look
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from scrubjay.cli.player.paint import Paint, with_cursor, with_hits
from scrubjay.cli.player.viewport import Size, Viewport
from scrubjay.query import Query, mark
from scrubjay.screen.picture import Line, Picture, plain_picture

_EDGE = Look(dim=True)


class ScreenView(Widget):
    """Draws a picture at its size, with an edge where the window is larger, or the part that fits."""

    DEFAULT_CSS = "ScreenView { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.picture = plain_picture("", 1, 1)
        self.viewport = Viewport()
        self._paint = Paint(self.picture)
        self._query: Query | None = None
        self._empty = True

    @property
    def window(self) -> Size:
        """What there is room for."""
        return Size(*self.size)

    def show(self, picture: Picture) -> None:
        """Draw another picture; rows that are as they were are left alone."""
        before, viewport = self.picture, self.viewport
        self.picture, self._empty = picture, False
        self.viewport = viewport.following(picture, self.window)
        repaint = not self._paint.suits(picture)
        if repaint:
            self._paint = Paint(picture)
        resized = (before.cols, len(before.lines)) != (picture.cols, len(picture.lines))
        if repaint or resized or self.viewport != viewport:
            self.refresh()
            return
        rows = {y for y, pair in enumerate(zip(before.lines, picture.lines, strict=True)) if pair[0] != pair[1]}
        if before.cursor != picture.cursor:
            rows |= {before.cursor.y, picture.cursor.y}
        if self.viewport.y < 0 and before.history != picture.history:
            self.refresh()
        elif rows:
            self.refresh(*[Region(0, y - self.viewport.y, self.size.width, 1) for y in rows])

    def pan(self, dx: int, dy: int) -> None:
        """Look at another part of it."""
        self._move(self.viewport.panned(dx, dy, self.picture, self.window))

    def release(self) -> None:
        """Look where the cursor is again."""
        self._move(Viewport(self.viewport.x, self.viewport.y).following(self.picture, self.window))

    def reveal(self) -> None:
        """Look where the first of what was searched for is, if that is not to be seen."""
        query, top = self._query, self.viewport.y
        if query is None:
            return
        rows = [y for y, line in enumerate(self.picture.lines) if mark(line.text, query)]
        if rows and not any(top <= y < top + self.size.height for y in rows):
            self.pan(0, rows[0] - top - self.size.height // 2)

    def highlight(self, query: Query | None) -> None:
        """Have what was searched for stand out."""
        self._query = query
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in view."""
        self._move(self.viewport.following(self.picture, self.window))

    def _move(self, viewport: Viewport) -> None:
        if viewport != self.viewport:
            self.viewport = viewport
            self.refresh()

    @property
    def extent(self) -> str:
        """How large the screen is and, if that is not all, which part of it is seen."""
        picture, window, viewport = self.picture, self.window, self.viewport
        size = f"{picture.cols}x{picture.rows}"
        if viewport.y < 0 or (picture.cols <= window.cols and picture.rows <= window.rows):
            return size
        cols, rows = min(picture.cols, window.cols), min(picture.rows, window.rows)
        return f"{cols}x{rows}+{viewport.x}+{viewport.y} of {size}"

    @property
    def history_note(self) -> str:
        """How far back we look into what scrolled off, for people; empty if not."""
        if self.viewport.y >= 0:
            return ""
        return f"{-self.viewport.y} of {len(self.picture.history)} rows back, esc returns"

    def render_line(self, y: int) -> Strip:
        """One row of the window."""
        picture, viewport, width = self.picture, self.viewport, self.size.width
        row = y + viewport.y
        if self._empty:
            return Strip.blank(width)
        line = self._line(row)
        if line is None:
            edge = "─" * picture.cols + "┘" if row == picture.rows else ""
            return Strip([Segment(edge, _EDGE)]).adjust_cell_length(width)
        strip = self._paint.draw(line, picture.cols)
        if self._query is not None:
            strip = with_hits(strip, mark(strip.text, self._query))
        if picture.cursor.visible and row == picture.cursor.y:
            strip = with_cursor(strip, picture.cursor.x)
        if picture.cols < width:
            strip = Strip.join([strip, Strip([Segment("│", _EDGE)], 1)])
        return strip.crop(viewport.x, viewport.x + width).adjust_cell_length(width)

    def _line(self, row: int) -> Line | None:
        history = self.picture.history
        if -len(history) <= row < 0:
            return history[row]
        return self.picture.lines[row] if 0 <= row < len(self.picture.lines) else None
