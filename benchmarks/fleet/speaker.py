"""A program that draws at a given pace, run as a script in a pod: ``python -I -S speaker.py STREAM ...``.

It begins silent. The first SIGUSR1 lets it speak, the second makes it silent again; it ends when it is told to. Every
update begins with a stamp: the monotonic clock in nanoseconds, which all processes of a machine share, and a number
without gaps. The last words are the count of all updates.
"""

from __future__ import annotations

import os
import signal
import sys
import time

FRAME_END, LINE_END = b"\x1b[?2026l", b"\n"
STAMP = b"\x1b[1;1H@%020d#%010d@"
LAST_WORDS = b"\x1b[1;1H@end#%010d@"


class Speaker:
    """Draws the frames of a stream, or writes its lines, again and again."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames
        self._next = 0
        self.count = 0

    def say(self, size_bytes: int) -> int:
        """Draw one update of about that size; returns its size."""
        parts = [STAMP % (time.monotonic_ns(), self.count)]
        size = len(parts[0])
        while size < size_bytes:
            frame = self._frames[self._next]
            self._next = (self._next + 1) % len(self._frames)
            parts.append(frame)
            size += len(frame)
        self.count += 1
        show(b"".join(parts))
        return size


def show(data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(1, data) :]


def heard(within_s: float | None) -> bool:
    """Whether SIGUSR1 comes in time."""
    if within_s is None:
        signal.sigwait({signal.SIGUSR1})
        return True
    return signal.sigtimedwait({signal.SIGUSR1}, max(0.0, within_s)) is not None


def speak(speaker: Speaker, per_s: int, updates_per_s: float) -> None:
    """Keep the pace until told to be silent; who was held up makes up for it."""
    interval_s = 1 / updates_per_s
    due, said, began = time.monotonic(), 0, time.monotonic()
    while not heard(due - time.monotonic()):
        owed = int((due + interval_s - began) * per_s) - said
        if owed > 0:
            said += speaker.say(owed)
        due += interval_s


def burst(speaker: Speaker, size_bytes: int, ticks_per_s: float) -> None:
    """Draw a small update per tick, and a large one whenever told to, for ever."""
    while True:
        speaker.say(size_bytes if heard(1 / ticks_per_s) else 0)


def main(argv: list[str]) -> None:
    """``STREAM pace BYTES_PER_S UPDATES_PER_S`` or ``STREAM fill BYTES BURST_BYTES TICKS_PER_S``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with open(argv[1], "rb") as file:
        data = file.read()
    end = FRAME_END if FRAME_END in data else LINE_END
    speaker = Speaker([frame + end for frame in data.split(end)[:-1]])
    if argv[2] == "fill":
        left = int(argv[3])
        while left > 0:
            left -= speaker.say(min(left, 1 << 16))
        burst(speaker, int(argv[4]), float(argv[5]))
    show(b"ready\r\n")
    while True:
        heard(None)
        speak(speaker, int(argv[3]), float(argv[4]))
        show(LAST_WORDS % speaker.count)


if __name__ == "__main__":
    main(sys.argv)
