"""A real terminal for tests: a program on a pty, read until something appears."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from scrubjay.keeper.agent import set_size
from tests.support.conditions import DEADLINE_S


class Terminal:
    """A program started on a pty of its own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, cols: int = 90, rows: int = 30) -> None:
        self.seen = b""
        self._mark = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            set_size(0, cols, rows)
            # A terminal has its size itself; who runs the tests may have told another.
            own = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
            os.execvpe(argv[0], list(argv), own)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def type(self, data: bytes) -> None:
        """Press keys."""
        os.write(self.fd, data)

    def resize(self, cols: int, rows: int) -> None:
        """Change the window's size."""
        set_size(self.fd, cols, rows)

    def read_until(self, wanted: bytes) -> bytes:
        """Wait for ``wanted`` after what was read until before; what was shown up to it."""
        start, self._mark = self._mark, self._end_of(wanted)
        return self.seen[start : self._mark]

    def read_until_all(self, *wanted: bytes) -> None:
        """Wait for everything that is wanted, in whatever order it appears after what was read until before."""
        self._mark = max([self._end_of(each) for each in wanted])

    def wait(self) -> int:
        """Wait for the program's end; its exit status."""
        until = time.monotonic() + DEADLINE_S
        while self._read(max(0.0, until - time.monotonic())):
            pass
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        raise AssertionError(f"the program goes on; seen: {self.seen[-2000:]!r}")

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.fd)
        self.fd = -1

    def close(self) -> None:
        """End the program if it still runs."""
        if self.fd >= 0:
            self.hang_up()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def _end_of(self, wanted: bytes) -> int:
        """Where ``wanted`` ends, as soon as it was shown."""
        until, searched = time.monotonic() + DEADLINE_S, self._mark
        while (at := self.seen.find(wanted, searched)) < 0:
            searched = max(self._mark, len(self.seen) - len(wanted) + 1)
            left = until - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{wanted!r} did not appear; seen: {self.seen[self._mark :]!r}")
        return at + len(wanted)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)
