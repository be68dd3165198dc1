"""One search: the ways to the newest (or oldest) rows that match, the cheapest that suffices first.

FTS5 gives the rows of one tape in order at once, however many match. Two things it cannot: put the rows of many
tapes in the order they were shown, and find a prefix without gathering every row that has it. Where a word or prefix
is frequent, reading the rows at the end that is wanted soon meets enough of it; where it is rare, all can be gathered.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, TypeVar

from scrubjay.query import Query, expression, fold, matches, sieve
from scrubjay.replay.rows import BLOCK_BITS, BLOCK_ROWS, BadBlock, Block

KINDS = ("shown", "typed")
TAPE_BITS = 32  # a row's number is its tape's number, then 32 bits of its own

# A row's id in FTS5 is its number with these bits turned: FTS5 is quick in the order of its ids, ten times as quick as
# against it, and the newest are wanted first.
_TURNED = (1 << TAPE_BITS) - 1
_FEW_TAPES = 64  # to ask for each by itself costs 0.1 to 0.5 ms
_GATHER_ROWS = 512  # of many tapes
_CHECK_ROWS = 48  # to read one takes 0.1 to 0.2 ms
_READ_BLOCKS = 16  # 8192 rows in about 5 ms
_TRY_BLOCKS = 2  # after so many it is known whether that will do


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found."""

    tape: str
    at: int  #: microseconds since the tape began
    offset: int  #: in the tape, of a frame that shows it
    y: int  #: the row of the screen; -1 if it had scrolled off or was typed
    kind: str  #: shown or typed
    text: str
    wall_us: int | None  #: when; None if nobody knows

    @property
    def time(self) -> int:
        """What hits are ordered by."""
        return self.wall_us if self.wall_us is not None else self.at


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of one tape among which is searched."""

    tape: str
    wall_us: int | None  #: when the tape began
    first: int  #: number of a row
    last: int
    since_at: int | None = None  #: rows before it do not count; it cuts the first block
    until_at: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it is not the whole tape."""
        return self.since_at is not None or self.until_at is not None

    def holds(self, at: int) -> bool:
        """Whether an instant is within the time that was asked for."""
        return (self.since_at is None or self.since_at <= at) and (self.until_at is None or at <= self.until_at)


def row_ids(stretches: Sequence[Stretch]) -> tuple[int, int]:
    """The first and last id in FTS5 that rows of some stretches have."""
    return min(stretch.last ^ _TURNED for stretch in stretches), max(stretch.first ^ _TURNED for stretch in stretches)


def row_id(number: int) -> int:
    """The id in FTS5 of the row of that number."""
    return number ^ _TURNED


@dataclass(frozen=True, slots=True)
class _BlockPlace:
    time: int  #: of the row in it that comes first in the order of the search
    stretch: Stretch
    key: int


_Timed = TypeVar("_Timed", Hit, _BlockPlace)
_TIME = attrgetter("time")


class Finder:
    """Finds up to ``limit`` rows in order."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        query: Query,
        stretches: Sequence[Stretch],
        *,
        limit: int,
        newest_first: bool,
    ) -> None:
        self._connection = connection
        self._query = query
        self._stretches = stretches
        self._limit = limit
        self._newest_first = newest_first
        self._kinds = KINDS if query.kind is None else (query.kind,)
        self._blocks: dict[int, Block] = {}

    def find(self) -> list[Hit]:
        """The hits."""
        if not self._stretches or self._limit <= 0:
            return []
        for way in self._ways():
            found = way()
            if found is not None:
                return found
        raise AssertionError("the last way always finds what there is")

    def _ways(self) -> Sequence[Callable[[], list[Hit] | None]]:
        """Each either finds everything or gives up, None, before it takes long; the last does not give up."""
        if any(term.prefix for term in self._query.terms):
            return self._gather_whole_words, self._read, self._gather
        if len(self._stretches) == 1:
            return (self._ask_each,)
        # FTS5 goes on to the next row that matches, on whichever tape: where there is none, only one may do so.
        if len(self._stretches) <= _FEW_TAPES:
            return self._gather_few, self._ask_each
        return self._gather_few, self._read, self._ask_each

    def _ask_each(self) -> list[Hit]:
        """Ask for the rows of each tape by itself."""
        wanted = expression(self._query.terms, self._query.without)
        return self._in_order(self._of_one(wanted, stretch) for stretch in self._stretches)

    def _of_one(self, wanted: str, stretch: Stretch) -> Iterator[Hit]:
        limit = self._limit + 2 * BLOCK_ROWS * stretch.is_cut  # of a block that is cut, all may be outside
        yield from self._hits(stretch, self._match(wanted, [stretch], limit))

    def _gather(self) -> list[Hit]:
        """Ask for all rows at once and put them in order."""
        return self._sort(self._match(expression(self._query.terms, self._query.without), self._stretches, -1))

    def _gather_few(self) -> list[Hit] | None:
        """The same if there are not many."""
        rows = self._match(expression(self._query.terms, self._query.without), self._stretches, _GATHER_ROWS)
        return self._sort(rows) if len(rows) < _GATHER_ROWS else None

    def _gather_whole_words(self) -> list[Hit] | None:
        """The same for the words alone that are not prefixes; the rows themselves tell which have those too."""
        whole = tuple(term for term in self._query.terms if not term.prefix)
        rows = self._match(expression(whole), self._stretches, _CHECK_ROWS) if whole else []
        return self._sort(rows, check=True) if whole and len(rows) < _CHECK_ROWS else None

    def _read(self) -> list[Hit] | None:
        """Look at the rows themselves, block by block in the order of time."""
        parts = sieve(self._query)
        most = _READ_BLOCKS + len(self._stretches)  # the last block of each may be short
        found: list[Hit] = []
        seen = 0
        for count, place in enumerate(self._places()):
            if len(found) >= self._limit and self._is_beyond(place.time, found[-1].time):
                return found
            too_few = count >= _TRY_BLOCKS and seen * most < self._limit * count
            if too_few or count == most:
                return None
            more = list(islice(self._read_block(place, parts), self._limit))
            seen += len(more)
            found = sorted([*found, *more], key=_TIME, reverse=self._newest_first)[: self._limit]
        return found

    def _read_block(self, place: _BlockPlace, parts: list[tuple[str, re.Pattern[str]]]) -> Iterator[Hit]:
        stretch = place.stretch
        block = self._block(place.key)
        lines = fold(block.text).split("\n")
        start = place.key << BLOCK_BITS
        likely = range(max(start, stretch.first) - start, min(start + len(block), stretch.last + 1) - start)
        for word, pattern in parts:
            likely = [index for index in likely if word in lines[index] and pattern.search(lines[index])]
        for index in reversed(likely) if self._newest_first else likely:
            hit = self._hit(stretch, start + index)
            if hit.kind in self._kinds and stretch.holds(hit.at) and matches(hit.text, self._query):
                yield hit

    def _places(self) -> Iterator[_BlockPlace]:
        return self._merge(self._list_blocks(stretch) for stretch in self._stretches)

    def _list_blocks(self, stretch: Stretch) -> Iterator[_BlockPlace]:
        keys = range(stretch.first >> BLOCK_BITS, (stretch.last >> BLOCK_BITS) + 1)
        edge = "last_at" if self._newest_first else "first_at"
        for key in reversed(keys) if self._newest_first else keys:
            yield _BlockPlace((stretch.wall_us or 0) + read_edge(self._connection, edge, key), stretch, key)

    def _is_beyond(self, time: int, last: int) -> bool:
        return time < last if self._newest_first else time > last

    def _match(self, wanted: str, stretches: Sequence[Stretch], limit: int) -> list[int]:
        """Numbers of rows that match, in order within each tape; all of them with a limit of -1.

        Those between the first and the last of several stretches may be of other tapes, too.
        """
        order = "ASC" if self._newest_first else "DESC"
        first, last = row_ids(stretches)
        found = [
            self._connection.execute(
                f"SELECT rowid FROM {kind} WHERE {kind} MATCH ? AND rowid BETWEEN ? AND ?"
                f" ORDER BY rowid {order} LIMIT ?",
                (wanted, first, last, limit),
            ).fetchall()
            for kind in self._kinds
        ]
        rows = [turned ^ _TURNED for (turned,) in merge(*found, reverse=not self._newest_first)]
        return rows if limit < 0 else rows[:limit]

    def _sort(self, rows: list[int], *, check: bool = False) -> list[Hit]:
        """Rows of many tapes in the order of time."""
        by_tape: dict[int, list[int]] = {}
        for row in rows:
            by_tape.setdefault(row >> TAPE_BITS, []).append(row)
        return self._in_order(
            self._hits(stretch, by_tape[stretch.first >> TAPE_BITS], check=check)
            for stretch in self._stretches
            if stretch.first >> TAPE_BITS in by_tape
        )

    def _hits(self, stretch: Stretch, rows: Iterable[int], *, check: bool = False) -> Iterator[Hit]:
        for number in rows:
            if stretch.first <= number <= stretch.last:
                hit = self._hit(stretch, number)
                if stretch.holds(hit.at) and (not check or matches(hit.text, self._query)):
                    yield hit

    def _in_order(self, parts: Iterable[Iterator[Hit]]) -> list[Hit]:
        return list(islice(self._merge(parts), self._limit))

    def _merge(self, parts: Iterable[Iterator[_Timed]]) -> Iterator[_Timed]:
        return merge(*parts, key=_TIME, reverse=self._newest_first)

    def _hit(self, stretch: Stretch, number: int) -> Hit:
        row = self._block(number >> BLOCK_BITS)[number & (BLOCK_ROWS - 1)]
        wall_us = None if stretch.wall_us is None else stretch.wall_us + row.at
        return Hit(stretch.tape, row.at, row.offset, row.y, row.kind, row.text, wall_us)

    def _block(self, key: int) -> Block:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = read_block(self._connection, key)
        return block


def read_block(connection: sqlite3.Connection, key: int) -> Block:
    """A block of rows; BadBlock if it is damaged or missing."""
    return Block(_read_column(connection, "data", key))


def read_edge(connection: sqlite3.Connection, edge: Literal["first_at", "last_at"], key: int) -> int:
    """When the first or last row of a block was shown; BadBlock if it is missing."""
    return _read_column(connection, edge, key)


def _read_column(connection: sqlite3.Connection, column: str, key: int) -> Any:
    found = connection.execute(f"SELECT {column} FROM block WHERE key = ?", (key,)).fetchone()
    if found is None:
        raise BadBlock("it is missing")
    return found[0]
