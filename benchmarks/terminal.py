"""A terminal with a program on it, driven as a person would."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Mapping

from benchmarks.streams import COLS, ROWS

_GIVE_UP_S = 10.0
_FORGET_S = 0.2  # of silence after which nothing more is on its way


class NoEcho(Exception):
    """What was typed did not come back."""


class Terminal:
    """A pseudo-terminal of 120x40 that runs one command."""

    def __init__(self, argv: list[str], environ: Mapping[str, str]) -> None:
        self._pid, self._fd = os.forkpty()
        if self._pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
                os.execvpe(argv[0], argv, dict(environ))
            finally:
                os._exit(127)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def settle(self) -> None:
        """Throw away what is shown until nothing more comes."""
        while self._poll.poll(_FORGET_S * 1000):
            os.read(self._fd, 65536)

    def echo_s(self, key: bytes) -> float:
        """Type one key and return how long it took to be shown; NoEcho if it is not."""
        while self._poll.poll(0):
            os.read(self._fd, 65536)
        began = time.perf_counter()
        os.write(self._fd, key)
        while self._poll.poll(_GIVE_UP_S * 1000):
            if key in os.read(self._fd, 65536):
                return time.perf_counter() - began
        raise NoEcho(f"{key!r} was not shown in {_GIVE_UP_S:g} s")

    def end_input(self) -> None:
        """End the line and the input, and return when the command has ended."""
        os.write(self._fd, b"\n\x04")
        deadline = time.monotonic() + _GIVE_UP_S
        try:
            while time.monotonic() < deadline:
                if self._poll.poll(100) and not os.read(self._fd, 65536):
                    break
        except OSError:
            pid, self._pid = self._pid, 0
            os.waitpid(pid, 0)  # EIO: nobody has the terminal open any more
        os.close(self._fd)
