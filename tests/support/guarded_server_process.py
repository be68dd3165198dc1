"""A server in a process of its own, for tests that look at its memory, its log and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.conditions import DEADLINE_S
from tests.support.paths import ROOT


@dataclass(frozen=True, slots=True)
class GuardedServerProcess:
    """A running ``server.house``."""

    pid: int
    port: int
    pod: str
    token: str
    cookie: str
    logins: tuple[str, ...]
    data: Path
    log: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bearer(self) -> tuple[str, str]:
        """The header with its token."""
        return "Authorization", f"Bearer {self.token}"

    def resident_kib(self) -> int:
        """Its memory now."""
        return self._status("VmRSS")

    def forget_peak(self) -> None:
        """Begin to look for the most memory it ever had."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_kib(self) -> int:
        """The most memory it had since then."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@contextmanager
def open_guarded_server_process(data: Path) -> Generator[GuardedServerProcess]:
    """Start one, and end it on the way out; it must end well and have nothing to complain about."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        (data / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.guarded_server", str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        logins = tuple(told.pop("logins"))
        yield GuardedServerProcess(pid=process.pid, logins=logins, data=data, log=data / "log", **told)
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
