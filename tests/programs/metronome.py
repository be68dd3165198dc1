"""Print numbered lines at a steady rate, so that a ledger can tell whether any was lost, doubled or moved.

Stand-alone: ``python -I -S metronome.py [--rate HZ] [--every-ms MS] [--long] [--count N] [--child]
[--log FILE] [--wait] [--stay]``. On SIGUSR2 it ends after a whole line.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import time

LONG_LINE_BYTES = 100
LONG_RATE_HZ = 200.0  # 20 kB/s
RATE_HZ = 1000.0
BURST_LINES = 2048  # in one write at most, however far behind
BEHIND_S = 1.0  # the most that is caught up after having been asleep


def line_of(number: int, *, is_long: bool) -> bytes:
    """One numbered line: 11 bytes, or 100 in long mode."""
    line = b"n=%08d" % number
    return (line + b" ").ljust(LONG_LINE_BYTES - 1, b".") + b"\n" if is_long else line + b"\n"


def write_all(data: bytes) -> None:
    """Write everything, asleep for as long as the terminal takes nothing."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def leave_child() -> None:
    """Start something that neither a hangup nor a signal to this process group reaches."""
    subprocess.Popen(
        ["sleep", "1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Log:
    """A file that holds the last number whose write has returned."""

    def __init__(self, path: str | None) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) if path is not None else -1

    def put(self, number: int) -> None:
        """Replace the number in one call, so that a reader never sees half of it."""
        if self._fd >= 0:
            os.pwrite(self._fd, b"%020d" % number, 0)


def beat(rate_hz: float, every_s: float, count: int | None, log: Log, *, is_long: bool) -> None:
    """Print until ``count`` lines are out or SIGUSR2 comes; what is due within ``every_s`` goes out in one write."""
    told_to_end: list[int] = []
    signal.signal(signal.SIGUSR2, lambda number, _: told_to_end.append(number))
    number, began = 0, time.monotonic()
    while (count is None or number < count) and not told_to_end:
        due = number + BURST_LINES
        if rate_hz > 0:
            late = time.monotonic() - began - number / rate_hz
            if late < 0:
                time.sleep(max(-late, every_s))
                continue
            began += max(0.0, late - BEHIND_S)
            due = min(due, number + 1 + int(min(late, BEHIND_S) * rate_hz))
        if count is not None:
            due = min(due, count)
        write_all(b"".join(line_of(n, is_long=is_long) for n in range(number, due)))
        number = due
        log.put(number - 1)


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, help="lines per second; 0 is as fast as possible")
    parser.add_argument("--every-ms", type=float, default=0.0, help="write no more often than this")
    parser.add_argument("--long", action="store_true", help="lines of 100 bytes, 20 kB/s")
    parser.add_argument("--count", type=int, help="end after so many lines")
    parser.add_argument("--child", action="store_true", help="leave a process in a session of its own")
    parser.add_argument("--log", help="keep the last number written here")
    parser.add_argument("--stay", action="store_true", help="run on after the last line")
    parser.add_argument("--wait", action="store_true", help="begin on SIGUSR1; the log is there when it may come")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    options = parser.parse_args()
    if options.child:
        leave_child()
    log = Log(options.log)
    if options.wait:
        log.put(-1)
        signal.sigwait([signal.SIGUSR1])
    rate_hz = options.rate if options.rate is not None else LONG_RATE_HZ if options.long else RATE_HZ
    beat(rate_hz, options.every_ms / 1000, options.count, log, is_long=options.long)
    if options.stay:
        signal.pause()


if __name__ == "__main__":
    main()
