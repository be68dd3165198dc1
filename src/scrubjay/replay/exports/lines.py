"""Which lines of a screen that changes are news. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_REMEMBERED = 20_000  # lines that may be printed again
_MOVED_MAX = 50  # how far they may have moved then
_AGAIN_US = 60_000_000  # the same text is news again after a minute
_STANDS_US = 2_000_000  # how long one that differs by digits and symbols alone must stand


class Printed:
    """Lines in the order they were printed; what a program erases and prints again at once is no news."""

    def __init__(self) -> None:
        self._now: list[str] = []  # since the screen was last erased
        self._before: list[str] = []  # what may be printed again; only in the same burst of output
        self._place = 0  # in those before, after the last one that was
        self._again: Counter[str] = Counter()  # what was, and stands on the screen

    def erase(self) -> None:
        """The screen was erased."""
        if self._now:
            self._before, self._now, self._place = self._now, [], 0
            self._again.clear()

    def rest(self, standing: Iterable[str]) -> None:
        """Output paused with these lines on the screen: whatever is printed from now on is news."""
        if self._before:
            self._again = Counter(line for line in standing if self._is_before(line))
            self._before = []

    def is_news(self, line: str) -> bool:
        """Whether a line that has left the screen was not there before it was erased."""
        self._now.append(line)
        if len(self._now) > _REMEMBERED:
            del self._now[: _REMEMBERED // 2]
        if self._again[line]:
            self._again[line] -= 1
            return False
        return not self._is_before(line)

    def _is_before(self, line: str) -> bool:
        near = _MOVED_MAX if line else 1  # an empty one is everywhere
        try:
            self._place = self._before.index(line, self._place, self._place + near) + 1
        except ValueError:
            return False
        return True


class Stage:
    """The rows of a full-screen program, each taken when it goes, as it was then.

    Not when it comes: a row that is being written would be taken word by word. Of rows that differ by digits and
    symbols alone (a spinner, a clock, a counter) only those that stood for a while are taken.
    """

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._since: dict[str, int] = {}
        self._taken: dict[str, int] = {}  # when a text or the letters of one were taken

    def look(self, rows: list[str], at: int) -> list[str]:
        """What was there at the last look, and has gone."""
        standing = set(rows)
        gone = [
            row for row in self._rows if row not in standing and not any(other.startswith(row) for other in standing)
        ]
        found = [row for row in gone if self._is_news(row, at)]
        self._rows = [row for row in rows if row]
        self._since = {row: self._since.get(row, at) for row in self._rows}
        return found

    def leave(self, at: int) -> list[str]:
        """What was there when the program left the screen."""
        return self.look([], at)

    def _is_news(self, row: str, at: int) -> bool:
        letters = "".join(filter(str.isalpha, row)) or row
        if at - self._taken.get(row, -_AGAIN_US) < _AGAIN_US:
            return False
        alike = at - self._taken.get(letters, -_AGAIN_US) < _AGAIN_US
        if alike and at - self._since[row] < _STANDS_US:
            return False
        self._taken[row] = self._taken[letters] = at
        if len(self._taken) > _REMEMBERED:
            self._taken = dict(list(self._taken.items())[_REMEMBERED // 2 :])
        return True
