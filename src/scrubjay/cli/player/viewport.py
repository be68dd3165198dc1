"""Which part of a recorded screen is seen in a window that may be smaller. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scrubjay.screen.picture import Picture


class Size(NamedTuple):
    """Columns and rows."""

    cols: int
    rows: int


@dataclass(frozen=True, slots=True)
class Viewport:
    """The top left corner of what is seen, counted from the screen's; above it is what scrolled off."""

    x: int = 0
    y: int = 0
    held: bool = False  #: the person has moved it, so the cursor does not

    def panned(self, dx: int, dy: int, picture: Picture, window: Size) -> Viewport:
        """Moved by a person."""
        return Viewport(self.x + dx, self.y + dy, held=True).within(picture, window)

    def within(self, picture: Picture, window: Size) -> Viewport:
        """Moved back to where there is something to see."""
        right, bottom = max(0, picture.cols - window.cols), max(0, picture.rows - window.rows)
        x, y = min(max(0, self.x), right), min(max(-len(picture.history), self.y), bottom)
        return Viewport(x, y, held=self.held)

    def following(self, picture: Picture, window: Size) -> Viewport:
        """Moved as little as possible so that the cursor is seen, unless a person holds it."""
        if self.held:
            return self.within(picture, window)
        cursor = picture.cursor
        x, y = self.x, max(0, self.y)
        y = min(max(y, cursor.y - window.rows + 1), cursor.y)
        # Programs park a hidden cursor in the row a person looks at, but in any column.
        if cursor.visible:
            x = min(max(x, cursor.x - window.cols + 1), cursor.x)
        return Viewport(x, y).within(picture, window)
