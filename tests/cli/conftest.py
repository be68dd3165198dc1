"""The real command line on a data directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terminal import DEADLINE_S, Terminal


class Jay:
    """``scrubjay`` with a data directory."""

    def __init__(self, data: Path, work: Path) -> None:
        self.data, self.work = data, work
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "TERM": "xterm-256color",
            "SCRUBJAY_DATA": str(data),
            "LANG": "C.UTF-8",
        }
        self.argv = [sys.executable, "-P", "-m", "scrubjay"]

    def __call__(self, *args: str, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command and check its exit code."""
        done = subprocess.run(
            [*self.argv, *args], cwd=self.work, env=self.env, input=stdin, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, *args: str, code: int = 0) -> Any:
        """Run a command with --json and read its answer."""
        return json.loads(self(args[0], "--json", *args[1:], code=code).stdout)

    def error(self, *args: str, code: int) -> str:
        """Run a command that fails: one line of words on stderr, nothing on stdout."""
        done = self(*args, code=code)
        assert done.stdout == b""
        text = done.stderr.decode()
        assert text.endswith("\n")
        assert text.count("\n") == 1, text
        assert "Traceback" not in text
        return text

    def terminal(self, *args: str, cols: int = 90, rows: int = 30) -> Terminal:
        """Run a command in a terminal."""
        return Terminal([*self.argv, *args], self.env, cols=cols, rows=rows)

    def pods(self) -> dict[str, Any]:
        """All pods by name."""
        return {pod["name"]: pod for pod in self.json("ps", "--all")}

    def wait_until_ended(self, name: str) -> Any:
        """Wait for a pod's end; what ps says of it."""
        return self.wait_for(lambda: (pod := self.pods()[name])["state"] == "exited" and pod)

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds."""
        until = time.monotonic() + DEADLINE_S
        while not (value := condition()):
            assert time.monotonic() < until, "it did not happen in time"
            time.sleep(0.02)
        return value


@pytest.fixture
def jay(tmp_path: Path) -> Iterator[Jay]:
    work = tmp_path / "work"
    work.mkdir()
    runner = Jay(tmp_path / "data", work)
    yield runner
    for pod in runner.json("ps"):
        if pod["state"] in ("running", "ending"):
            runner("stop", pod["id"], "--grace", "0")
