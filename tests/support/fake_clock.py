"""A clock that tests set."""

from __future__ import annotations

_WALL_2026_US = 1_795_000_000_000_000


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._forward_us = 5_000_000  # not zero: nothing may depend on when the machine was started
        self._wall_us = _WALL_2026_US

    def monotonic_us(self) -> int:
        """Microseconds that only grow."""
        return self._forward_us

    def wall_us(self) -> int:
        """Microseconds since 1970 in UTC, as the machine believes them."""
        return self._wall_us

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0
        self._forward_us += round(seconds * 1e6)
        self._wall_us += round(seconds * 1e6)

    def jump(self, seconds: float) -> None:
        """Set the clock on the wall, as a person or a time server does."""
        self._wall_us += round(seconds * 1e6)
