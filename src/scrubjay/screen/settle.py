"""Rows as they settle: the text a person could have read, each once. Pure.

A row is taken when it scrolls off, or when it has stood on the screen for a moment at a *look*: a pause in the output,
or once a second while there is none. A redraw of the same text is not a new row. A row that differs from one just taken
only by digits and symbols (a spinner, a clock, a counter) must stand still for longer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scrubjay.screen.engine import ChangedRow

AGAIN_AFTER_US = 60_000_000  # the same text is news again after a minute
STANDS_US = 400_000  # what is gone sooner nobody has read; an answer that is being written is not taken word by word
RESEMBLES_US = 2_000_000  # how long a row that resembles a known one must stand
_KNOWN_MAX = 4096  # texts and shapes that are remembered
_NOT_LETTERS = re.compile(r"[\W\d_]+")


class SettledRow(NamedTuple):
    """A row to be found again."""

    at: int  #: microseconds since the tape began
    offset: int  #: in the tape: of a frame that shows it
    y: int  #: the row of the screen; -1 if it had scrolled off
    text: str


class Passage(NamedTuple):
    """A part of the tape, and the screen before it."""

    start: int  #: offsets
    stop: int
    cursor: int  #: the row the cursor was in at the start
    rows: int  #: of the screen

    def offset_of(self, number: int, scrolled: int) -> int:
        """Where a row stood about in the middle of the screen, the ``number``-th of so many that scrolled off.

        Rows begin to scroll off when the screen is full; from then on each that is written drives one off.
        """
        empty = max(0, self.rows - 1 - self.cursor)
        written = max(0, number - self.rows // 2) + empty
        return self.start + (self.stop - self.start) * written // (scrolled + empty)


class Settling:
    """What of one terminal's rows is known."""

    def __init__(self, state: bytes = b"") -> None:
        """Begin, or go on from the ``state`` of another one."""
        self._shown: dict[int, str] = {}  # what each row of the screen shows
        self._taken: Counter[str] = Counter()  # rows that were taken while they stood, and have not scrolled off yet
        self._known: dict[str, int] = {}  # when a text was last taken
        self._shapes: dict[str, int] = {}
        self._waiting: dict[int, int] = {}  # rows that resemble a known one, and since when they stand
        if state:
            kept = json.loads(state)
            self._shown = {int(y): text for y, text in kept["shown"].items()}
            self._taken = Counter(kept["taken"])
            self._known = kept["known"]
            self._shapes = {_shape(text): at for text, at in self._known.items()}

    def state(self) -> bytes:
        """Everything needed to go on."""
        known = dict(list(self._known.items())[-256:])
        kept = {"shown": self._shown, "taken": self._taken, "known": known}
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()

    def scrolled(self, rows: Sequence[str], at: int, passage: Passage) -> list[SettledRow]:
        """Rows that went off the top while a part of the tape was shown."""
        found: list[SettledRow] = []
        taken, known = self._taken, self._known
        for number, text in enumerate(rows):
            if not text:
                continue
            if taken and text in taken:
                taken[text] -= 1
                if not taken[text]:
                    del taken[text]
            elif at - known.get(text, -AGAIN_AFTER_US) >= AGAIN_AFTER_US:
                known[text] = at
                found.append(SettledRow(at, passage.offset_of(number, len(rows)), -1, text))
        if len(known) > 2 * _KNOWN_MAX:
            self._forget()
        return found

    def look(
        self, changed: Iterable[ChangedRow], at: int, offset: int, *, until: int | None = None
    ) -> list[SettledRow]:
        """These rows were drawn on since the last look, and the screen stands ``until`` then, or for good."""
        before = set(self._shown.values())
        drawn = {row.y: row.text for row in changed if self._shown.get(row.y) != row.text}
        self._shown.update(drawn)
        for y, text in drawn.items():
            self._waiting.pop(y, None)
            if text.strip() and text not in before and self._is_news(text, at):
                self._waiting[y] = at
        found: list[SettledRow] = []
        for y, since in list(self._waiting.items()):
            text = self._shown[y]
            resembles = at - self._shapes.get(_shape(text), -AGAIN_AFTER_US) < AGAIN_AFTER_US
            if until is None or until - since >= (RESEMBLES_US if resembles else STANDS_US):
                del self._waiting[y]
                if self._is_news(text, at):
                    found.append(self._take(y, text, at, offset))
        if drawn:
            # What was taken can only scroll off later if it still stands somewhere.
            self._taken &= Counter(self._shown.values())
        return found

    def _is_news(self, text: str, at: int) -> bool:
        return at - self._known.get(text, -AGAIN_AFTER_US) >= AGAIN_AFTER_US

    def resized(self, rows: int) -> None:
        """The screen has another size; what it shows is drawn anew."""
        self._shown = {y: text for y, text in self._shown.items() if y < rows}
        self._waiting.clear()

    def _take(self, y: int, text: str, at: int, offset: int) -> SettledRow:
        self._taken[text] += 1
        self._known[text] = at
        self._shapes[_shape(text)] = at
        return SettledRow(at, offset, y, text)

    def _forget(self) -> None:
        self._known = dict(list(self._known.items())[-_KNOWN_MAX:])
        self._shapes = dict(list(self._shapes.items())[-_KNOWN_MAX:])


def _shape(text: str) -> str:
    """The letters of a text: what a counter or a spinner leaves as it is."""
    return _NOT_LETTERS.sub("", text)
