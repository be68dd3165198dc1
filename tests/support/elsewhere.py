"""A server on one machine, and a person on another."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.command_line import run_command
from tests.support.up_process import UpProcess


class Elsewhere:
    """What a person sees who has a token for a server of another machine."""

    def __init__(self, up: UpProcess, folder: Path) -> None:
        self.up, self.there, self.here = up, up.cli.data, folder / "here"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        self.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        self.token = self.local("token", "create", "--role", "operator", "--name", "ann").stdout.splitlines()[-1]

    def local(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """A command on the server's machine."""
        return self.run(["--data", str(self.there), *words], {}, expect)

    def remote(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """A command on the other machine."""
        server = ["--data", str(self.here), "--server", self.up.url]
        return self.run([*server, *words], {"SCRUBJAY_TOKEN": self.token}, expect)

    def remote_json(self, *words: str) -> Any:
        """What a command on the other machine answers to programs."""
        return json.loads(self.remote(*words, "--json").stdout)

    def run(self, words: list[str], more: dict[str, str], expect: int | None) -> subprocess.CompletedProcess[str]:
        """Any command, which must exit as expected, if anything is, and never with a traceback."""
        done = run_command(words, environ=self.environ | more, cwd=self.up.cli.work)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert expect in (None, done.returncode), (words, done.returncode, out, err)
        assert "Traceback" not in err
        return subprocess.CompletedProcess(words, done.returncode, out, err)
