"""When somebody was last heard of, by the clock that only moves forward: a jump of the other one takes nobody's lease.

It is in memory. After a start everybody is given as long as if they had just been heard of, for while there was no
server nobody could be.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrubjay.clock import Clock

_FORGET_ABOVE = 10_000


class Heartbeats:
    """Of all connections and machines."""

    def __init__(self, clock: Clock, *, lease_us: int) -> None:
        self._clock, self.lease_us = clock, lease_us
        self._begun_us = clock.monotonic_us()
        self._heard_us: dict[str, int] = {}
        self._busy: dict[str, int] = {}

    def hear(self, who: str) -> None:
        """Somebody is there."""
        self._heard_us.pop(who, None)
        self._heard_us[who] = self._clock.monotonic_us()  # the last one of all, so that the first is the oldest
        while len(self._heard_us) > _FORGET_ABOVE and self.lapsed(next(iter(self._heard_us))):
            del self._heard_us[next(iter(self._heard_us))]

    @contextmanager
    def busy(self, who: str) -> Generator[None]:
        """Somebody waits for an answer, and so is there until they have it."""
        self._busy[who] = self._busy.get(who, 0) + 1
        try:
            yield
        finally:
            self._busy[who] -= 1
            if not self._busy[who]:
                del self._busy[who]
            self.hear(who)

    def lapsed(self, who: str) -> bool:
        """Whether nothing was heard of somebody for too long."""
        return self.left_us(who) <= 0

    def left_us(self, who: str) -> int:
        """How long it is until somebody has lapsed, if nothing is heard of them."""
        if who in self._busy:
            return self.lease_us
        # Who is not known any more has been silent for long, or nobody has heard of them since the start.
        return self._heard_us.get(who, self._begun_us) + self.lease_us - self._clock.monotonic_us()
