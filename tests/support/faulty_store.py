"""A store of tapes whose answers cannot be relied on, after Temporal's fault injection.

It does what ``scrubjay.store.tapes`` promises, in memory, but for each call it may be told to fail: without doing it,
after doing part of it, or after doing all of it.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from scrubjay.errors import DiskFull, TapeDiverged
from scrubjay.ids import PodId
from scrubjay.store.tapes import Held, Synced
from scrubjay.tape.format import peek_record, skim_records, tape_salt
from scrubjay.tape.raw_bytes import fingerprint

Fate = Literal["Done", "ExecuteAndTimeout", "Timeout", "Unavailable", "Partial"]
FAULTS: tuple[Fate, ...] = ("ExecuteAndTimeout", "Timeout", "Unavailable", "Partial")


@dataclass(slots=True)
class FaultyStore:
    """Copies of tapes in memory."""

    fate: Fate = "Done"  #: of the next call, once
    data: defaultdict[PodId, bytearray] = field(default_factory=lambda: defaultdict[PodId, bytearray](bytearray))
    synced: defaultdict[PodId, int] = field(default_factory=lambda: defaultdict[PodId, int](int))

    def have(self, pod: PodId) -> Held:
        """How much there is."""
        self._fail_before(self._draw())
        data = self.data[pod]
        return Held(len(data), self.synced[pod], fingerprint(bytes(data)))

    def append(self, pod: PodId, offset: int, records: bytes) -> int:
        """Add whole records: what is there is skipped, what does not follow is not taken."""
        fate = self._draw()
        self._fail_before(fate)
        data = self.data[pod]
        if offset > len(data):
            return len(data)
        fresh = records[len(data) - offset :]
        size, *_ = skim_records(fresh, offset=len(data), salt=tape_salt(pod), stop=-1)
        if size < len(fresh):
            raise TapeDiverged(pod, len(data) + size, "no record of this tape")
        if fate == "Partial":
            first = peek_record(fresh, 0)
            data += fresh[: first[0] if first is not None else 0]
            raise DiskFull(pod)
        data += fresh
        self._fail_after(fate)
        return len(data)

    def sync(self) -> Synced:
        """Make everything survive ``lose_power``."""
        fate = self._draw()
        self._fail_before(fate)
        synced = Synced()
        for pod, data in self.data.items():
            if fate == "Partial" and pod > min(self.data):
                synced.failed[pod] = "Input/output error"
                continue
            self.synced[pod] = synced.kept[pod] = len(data)
        self._fail_after(fate)
        return synced

    def lose_power(self, rng: Random) -> None:
        """Lose some of what was not synced; what is left ends with a record."""
        for pod, data in self.data.items():
            ends = [self.synced[pod]]
            while (peeked := peek_record(bytes(data), ends[-1])) is not None:
                ends.append(ends[-1] + peeked[0])
            del data[rng.choice(ends) :]

    def _draw(self) -> Fate:
        fate, self.fate = self.fate, "Done"
        return fate

    def _fail_before(self, fate: Fate) -> None:
        if fate == "Unavailable":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if fate == "Timeout":
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def _fail_after(self, fate: Fate) -> None:
        if fate == "ExecuteAndTimeout":
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
