"""The two clocks of a recording: one that only moves forward, and the one on the wall."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # not typing's: importing typing costs a keeper 4 ms and 0.5 MB
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """Where the time comes from."""

        def monotonic_us(self) -> int:
            """Microseconds that never go back and go on while the machine sleeps."""
            ...

        def wall_us(self) -> int:
            """Microseconds since 1970 in UTC, as the machine believes them."""
            ...


# CLOCK_MONOTONIC stands still while a laptop sleeps; the tape must not.
_FORWARD = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clocks."""

    def monotonic_us(self) -> int:
        """Microseconds since some fixed instant, sleep included."""
        return time.clock_gettime_ns(_FORWARD) // 1000

    def wall_us(self) -> int:
        """Microseconds since 1970 in UTC."""
        return time.time_ns() // 1000
