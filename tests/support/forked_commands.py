"""Commands that go on, each in a process of its own, without the second that starting an interpreter takes.

``tests/programs/forking_scrubjay.py`` has everything loaded and forks; there is one of it for all tests of a process.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S
from tests.support.paths import PROGRAMS

_PADDING = "x" * 4096  # room for the words of any command
_POLL_S = 0.005


class _Forker:
    """The process that forks."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        words = [sys.executable, str(PROGRAMS / "forking_scrubjay.py"), str(theirs.fileno()), _PADDING]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env=environ
        )
        theirs.close()
        self._socket = ours
        self._lines = ours.makefile("rw")
        self._lock = threading.Lock()
        atexit.register(self._close)

    def ask(self, request: Json) -> Json:
        """Its answer."""
        with self._lock:
            self._lines.write(json.dumps(request) + "\n")
            self._lines.flush()
            return json.loads(self._lines.readline())

    def _close(self) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait()


@cache
def _forker() -> _Forker:
    return _Forker()


class ForkedCommand:
    """A running command, in a session of its own; its output goes to a log."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        log: Path,
        out: Path | None = None,
        cwd: Path | None = None,
        times: Mapping[str, float] | None = None,
    ) -> None:
        """``argv`` begins with the program; standard output goes to ``out`` if given.

        ``times`` are other values for constants of the product.
        """
        request: Json = {
            "argv": list(argv),
            "cwd": str(cwd or "."),
            "environ": dict(environ),
            "out": str(out or log),
            "log": str(log),
            "times": dict(times or {}),
        }
        self.pid = int(str(_forker().ask(request)["pid"]))

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        status = _forker().ask({"poll": self.pid})["status"]
        return status if isinstance(status, int) else None

    def wait(self, within_s: float = DEADLINE_S) -> int:
        """Wait for its end and return its exit status."""
        deadline = time.monotonic() + within_s
        while (status := self.poll()) is None:
            assert time.monotonic() < deadline, f"not within {within_s:g} s: process {self.pid} ends"
            time.sleep(_POLL_S)
        return status
