"""Print lines that say when they were printed, so many bytes in a second, so that a viewer can tell its lag.

Stand-alone: ``python -I -S stamper.py BYTES_PER_S LOG``. The log holds how many bytes were written so far.
"""

from __future__ import annotations

import os
import sys
import time

LINE_BYTES = 100
EVERY_S = 0.01


def stamp() -> bytes:
    """A line with the time of the clock that all processes share, in nanoseconds."""
    return (b"t=%d " % time.monotonic_ns()).ljust(LINE_BYTES - 1, b".") + b"\n"


def main(bytes_per_s: int, log: str) -> None:
    """Print for ever, at that pace."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    began, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * bytes_per_s) // LINE_BYTES * LINE_BYTES
        while written < due:
            lines = min(due - written, int(bytes_per_s * EVERY_S)) // LINE_BYTES
            data = memoryview(stamp() * lines)
            while data:
                data = data[os.write(1, data) :]
            written += lines * LINE_BYTES
            os.pwrite(fd, b"%020d" % written, 0)
        time.sleep(EVERY_S / 2)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
