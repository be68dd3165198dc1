"""Count what is missing, double or out of order in what a metronome has printed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Tape

_LINE = re.compile(rb"n=([0-9]{8,18})(?: \.*)?\r?")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The numbers 0, 1, 2 … as they were found."""

    missing: int  #: numbers up to the largest that are nowhere
    duplicate: int  #: numbers that were there before
    out_of_order: int  #: numbers that came after a larger one
    count: int  #: numbers found
    last: int | None  #: the largest
    strange: int = 0  #: whole lines that are not a metronome's
    torn_bytes: int = 0  #: of lines without beginning or end, beside a gap or at the end

    @property
    def faults(self) -> tuple[int, int, int]:
        """Missing, duplicate and out of order; a strange line is a number that is missing."""
        return self.missing + self.strange, self.duplicate, self.out_of_order

    @property
    def whole(self) -> bool:
        """Whether every number up to the last is there, once and in order."""
        return self.faults == (0, 0, 0)


class LedgerReader:
    """Collects numbers out of bytes that arrive in any portions."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._pending = b""
        self._headless = False
        self._strange = self._torn_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        if self._headless and lines:
            self._torn_bytes += len(lines.pop(0)) + 1
            self._headless = False
        for line in lines:
            match = _LINE.fullmatch(line)
            if match is not None:
                self._numbers.append(int(match[1]))
            else:
                self._strange += 1

    def skip(self) -> None:
        """Something is known to be missing here, perhaps the middle of a line."""
        self._torn_bytes += len(self._pending)
        # A piece that happens to begin with a line would be told by its first bytes, but a number cut
        # in front and one that is whole look the same: what precedes the next line end does not count.
        self._pending, self._headless = b"", True

    def finish(self) -> Ledger:
        """The count so far; an unfinished last line is torn, not missing."""
        largest = -1
        out_of_order = 0
        seen: set[int] = set()
        for number in self._numbers:
            if number < largest and number not in seen:
                out_of_order += 1
            seen.add(number)
            largest = max(largest, number)
        return Ledger(
            missing=largest + 1 - len(seen),
            duplicate=len(self._numbers) - len(seen),
            out_of_order=out_of_order,
            count=len(self._numbers),
            last=largest if seen else None,
            strange=self._strange,
            torn_bytes=self._torn_bytes + len(self._pending),
        )


def read_ledger(parts: Iterable[bytes]) -> Ledger:
    """The ledger of bytes in portions."""
    reader = LedgerReader()
    for part in parts:
        reader.feed(part)
    return reader.finish()


def tape_ledger(tape: Tape | Path) -> Ledger:
    """The ledger of what a tape's agent has shown. A gap record excuses no missing number, only half a line."""
    reader = LedgerReader()
    for record in (Tape(tape) if isinstance(tape, Path) else tape).records():
        if record.kind == Kind.OUTPUT:
            reader.feed(record.payload)
        elif record.kind == Kind.GAP:
            reader.skip()
    return reader.finish()
