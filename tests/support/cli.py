"""The command line on a data directory of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.command_line import run_command
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.paths import PROGRAMS
from tests.support.pods import end_pods
from tests.support.terminal import Terminal


class Cli:
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

    def patient(self, *times: str) -> list[str]:
        """The command line with these of its constants as long as a test waits, for a machine may be busy."""
        changes = json.dumps(dict.fromkeys(times, DEADLINE_S))
        return [sys.executable, "-P", str(PROGRAMS / "timed_scrubjay.py"), changes]

    def __call__(self, *args: str, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command in this process and check its exit code."""
        return self._checked(run_command(args, environ=self.env, cwd=self.work, stdin=stdin), code)

    def process(self, *args: str, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command as a shell does, in a process of its own, and check its exit code."""
        done = subprocess.run(
            [*self.argv, *args],
            cwd=self.work,
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return self._checked(done, code)

    def _checked(self, done: subprocess.CompletedProcess[bytes], code: int) -> subprocess.CompletedProcess[bytes]:
        assert done.returncode == code, (done.args, done.returncode, done.stdout, done.stderr)
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

    def unlike(self, rows: Iterable[tuple[str | Sequence[str], int, str]]) -> list[str]:
        """The rows of words, exit code and what is said that another error answers than the row has."""
        wrong: list[str] = []
        for words, code, said in rows:
            args = shlex.split(words) if isinstance(words, str) else words
            try:
                assert said in (error := self.error(*args, code=code)), error
            except AssertionError as difference:
                wrong.append(f"{shlex.join(args)}: wanted {code}, {said!r}; {difference}")
        return wrong

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
        return eventually(condition, "the condition of the test holds")


@contextmanager
def open_cli(folder: Path) -> Generator[Cli]:
    """The command line in a folder of its own; pods that still run at the end are stopped."""
    work = folder / "work"
    work.mkdir()
    cli = Cli(folder / "data", work)
    try:
        yield cli
    finally:
        end_pods(cli.data)
