"""Playing and pausing: where on the line of time we are. Pure."""

from __future__ import annotations

from scrubjay.replay.instants import SECOND_US

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class Transport:
    """A position that moves by itself while it plays.

    ``now`` is always seconds of one clock that only goes forward.
    """

    def __init__(self, *, time: int = 0, speed: float = 1.0) -> None:
        self.playing = False
        self.speed = speed
        self._time = time
        self._since_s = 0.0

    def position(self, now: float) -> int:
        """Microseconds on the line of time; past the end if nobody stops it."""
        if not self.playing:
            return self._time
        return self._time + round((now - self._since_s) * SECOND_US * self.speed)

    def go(self, time: int, now: float) -> None:
        """Be at ``time``, and go on from there if it plays."""
        self._time, self._since_s = max(0, time), now

    def play(self, now: float) -> None:
        """Move."""
        self.go(self.position(now), now)
        self.playing = True

    def pause(self, now: float) -> None:
        """Stay."""
        self.go(self.position(now), now)
        self.playing = False

    def faster(self, now: float) -> None:
        """The next speed up, if there is one."""
        self._change_speed(min((speed for speed in SPEEDS if speed > self.speed), default=self.speed), now)

    def slower(self, now: float) -> None:
        """The next speed down, if there is one."""
        self._change_speed(max((speed for speed in SPEEDS if speed < self.speed), default=self.speed), now)

    def _change_speed(self, speed: float, now: float) -> None:
        self.go(self.position(now), now)
        self.speed = speed
