"""An agent at its prompt, run as a script in a pod: ``python -I -S asker.py screen|program LOG``.

Each SIGUSR1 makes it ask for a permission, or go back to its prompt. It shows a dialog, and in the second way says so
by OSC 7501 as well. LOG gets a line for each question: the monotonic clock in nanoseconds, just before it is shown.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import tty

CLEAR = b"\x1b[2J\x1b[H"
PROMPT = CLEAR + b"  All done.\r\n\r\n> \r\n\r\n  ? for help"
DIALOG = CLEAR + b"  Run this command?\r\n\r\n  \xe2\x9d\xaf 1. Yes\r\n    2. No\r\n\r\n  Enter confirms, Esc to cancel"


def main(how: str, log: str) -> None:
    """Ask and be done, in turns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    tty.setraw(0)
    while True:
        os.write(1, PROMPT + (b"\x1b]7501;state=idle\x1b\\" if how == "program" else b""))
        signal.sigwait({signal.SIGUSR1})
        with open(log, "a") as file:
            file.write(f"{time.monotonic_ns()}\n")
        os.write(1, DIALOG + (b"\x1b]7501;state=blocked:kind=permission\x1b\\" if how == "program" else b""))
        signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main(*sys.argv[1:])
