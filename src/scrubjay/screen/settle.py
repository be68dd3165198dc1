"""Rows as they settle: the text a person could have read, each once. Pure.

A row is taken when it scrolls off, or when it has stood on the screen for a moment at a *look*: a pause in the output,
or once a second while there is none. A redraw of the same text is not a new row. A row that differs from one just taken
only by digits and symbols (a spinner, a clock, a counter) must stand still for longer.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

AGAIN_AFTER_US = 60_000_000  # the same text is news again after a minute
STANDS_US = 400_000  # what is gone sooner nobody has read; an answer that is being written is not taken word by word
RESEMBLES_US = 2_000_000  # how long a row that resembles a known one must stand
_KNOWN_MAX = 4096  # texts and shapes that are remembered
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_ASCII_NOT_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())


class SettledRow(NamedTuple):
    """A row to be found again."""

    at: int  #: microseconds since the tape began
    offset: int  #: in the tape: of a frame that shows it
    y: int  #: the row of the screen; -1 if it had scrolled off
    text: str


class _Waiting(NamedTuple):
    text: str
    ready: int  # at, when it has stood long enough
    shape: str


@dataclass(slots=True)
class SettledRows:
    """Many of them, a column each."""

    ats: list[int] = field(default_factory=list[int])
    offsets: list[int] = field(default_factory=list[int])
    ys: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])

    def __iter__(self) -> Iterator[SettledRow]:
        return map(SettledRow._make, zip(self.ats, self.offsets, self.ys, self.texts, strict=True))

    def add(self, at: int, offset: int, y: int, text: str) -> None:
        """One more."""
        self.ats.append(at)
        self.offsets.append(offset)
        self.ys.append(y)
        self.texts.append(text)

    def add_scrolled(self, at: int, offsets: list[int], texts: list[str]) -> None:
        """Those that scrolled off at the same time."""
        self.ats += [at] * len(texts)
        self.offsets += offsets
        self.ys += [-1] * len(texts)
        self.texts += texts


class Passage(NamedTuple):
    """A part of the tape, and the screen before it."""

    start: int  #: offsets
    stop: int
    cursor: int  #: the row the cursor was in at the start
    rows: int  #: of the screen
    lines: Sequence[int] = ()  #: how many lines had ended before and after each record that ends some
    ends: Sequence[int] = ()  #: and where it begins and ends

    def offsets_of(self, numbers: Iterable[int], scrolled: int) -> list[int]:
        """Where rows stood about in the middle of the screen, by their numbers among so many that scrolled off.

        Rows begin to scroll off when the screen is full; from then on each that is written drives one off.
        """
        empty, half = max(0, self.rows - 1 - self.cursor), self.rows // 2
        written = scrolled + empty
        places = [empty + (number - half if number > half else 0) for number in numbers]  # max() takes as long again
        if len(self.lines) <= 2:  # all in one record, as in a flood, which this is quick for
            start, stop = self.ends or (self.start, self.stop)
            length = stop - start
            return [start + length * place // written for place in places]
        lines, ends = (0, *self.lines), (self.start, *self.ends)
        return [_between(lines, ends, lines[-1] * place / written) for place in places]


def _between(lines: Sequence[int], ends: Sequence[int], line: float) -> int:
    """The offset where a line is written, by those where others end."""
    after = bisect_right(lines, line)
    if after == len(lines):
        return ends[-1]
    first, share = ends[after - 1], (line - lines[after - 1]) / (lines[after] - lines[after - 1])
    return first + int((ends[after] - first) * share)


class Settling:
    """What of one terminal's rows is known."""

    def __init__(self, state: bytes = b"") -> None:
        """Begin, or go on from the ``state`` of another one."""
        self._settled = SettledRows()
        self._shown: list[str] = []  # what the screen showed at the last look
        self._taken: Counter[str] = Counter()  # rows that were taken while they stood, and have not scrolled off yet
        self._known: dict[str, int] = {}  # when a text was last taken, of late
        self._known_before: dict[str, int] = {}  # and before that
        self._shapes: dict[str, int] = {}
        self._waiting: dict[int, _Waiting] = {}  # rows that have not stood long enough
        if state:
            kept = json.loads(state)
            self._shown = kept["shown"]
            self._taken = Counter(kept["taken"])
            self._known = kept["known"]
            self._waiting = {int(y): _Waiting(*waiting) for y, waiting in kept["waiting"].items()}
            self._shapes = {_shape(text): at for text, at in self._known.items()}

    def take(self) -> SettledRows:
        """What has settled since this was last asked."""
        settled, self._settled = self._settled, SettledRows()
        return settled

    def state(self) -> bytes:
        """Everything needed to go on."""
        known = dict(list(self._known.items())[-256:])
        kept = {"shown": self._shown, "taken": self._taken, "known": known, "waiting": self._waiting}
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()

    def scrolled(self, rows: Sequence[str], at: int, passage: Passage) -> None:
        """Rows went off the top while a part of the tape was shown."""
        # By whole dictionaries: a flood of rows one by one takes thrice as long. Of the same text only one is news.
        numbers = dict(self._numbered(rows))
        numbers.pop("", None)
        for known in (self._known, self._known_before):
            for text in known.keys() & numbers.keys():
                if known[text] > at - AGAIN_AFTER_US:
                    del numbers[text]
        self._known.update(dict.fromkeys(numbers, at))
        self._settled.add_scrolled(at, passage.offsets_of(numbers.values(), len(rows)), list(numbers))
        self._forget()

    def _numbered(self, rows: Sequence[str]) -> Iterable[tuple[str, int]]:
        """Texts and numbers of the rows that were not taken while they stood."""
        taken, numbered = self._taken, zip(rows, count())
        return numbered if taken.keys().isdisjoint(rows) else (row for row in numbered if not self._give_back(row[0]))

    def _give_back(self, text: str) -> bool:
        """Whether this was taken; if so, once less."""
        if text not in self._taken:
            return False
        self._taken[text] -= 1
        if not self._taken[text]:
            del self._taken[text]
        return True

    def look(self, rows: Sequence[str], at: int, offset: int, *, until: int | None = None) -> None:
        """The screen shows these rows, and stands ``until`` then, or for good."""
        shown, waiting = self._shown, self._waiting
        if rows != shown:
            before = set(shown)
            for y, text in enumerate(rows):
                if y < len(shown) and shown[y] == text:
                    continue
                waiting.pop(y, None)
                if text.strip() and text not in before and self._is_news(text, at):
                    shape = _shape(text)
                    resembles = at - self._shapes.get(shape, -AGAIN_AFTER_US) < AGAIN_AFTER_US
                    waiting[y] = _Waiting(text, at + (RESEMBLES_US if resembles else STANDS_US), shape)
            for y in [y for y in waiting if y >= len(rows)]:
                del waiting[y]
            self._shown = list(rows)
            # What was taken can only scroll off later if it still stands somewhere.
            self._taken &= Counter(rows)
        for y, (text, ready, shape) in list(waiting.items()):
            if until is None or until >= ready:
                del waiting[y]
                if self._is_news(text, at):
                    self._taken[text] += 1
                    self._known[text] = self._shapes[shape] = at
                    self._settled.add(at, offset, y, text)
        self._forget()

    def _is_news(self, text: str, at: int) -> bool:
        since = at - AGAIN_AFTER_US
        return self._known.get(text, since) <= since and self._known_before.get(text, since) <= since

    def _forget(self) -> None:
        if len(self._known) > _KNOWN_MAX:
            self._known_before, self._known = self._known, {}
        if len(self._shapes) > 2 * _KNOWN_MAX:
            self._shapes = dict(list(self._shapes.items())[-_KNOWN_MAX:])


def _shape(text: str) -> str:
    """The letters of a text: what a counter or a spinner leaves as it is."""
    if text.isascii():
        return text.encode().translate(None, _ASCII_NOT_LETTERS).decode()  # ten times as fast
    return _NOT_LETTERS.sub("", text)
