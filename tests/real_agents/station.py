"""A machine for one agent: a home and a project of its own, and Scrubjay running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scrubjay.cli.client import Client
from tests.real_agents.agents.agent import Agent, Place
from tests.real_agents.pod import AgentPod
from tests.real_agents.stub.server import Stub
from tests.support.command_line import run_command
from tests.support.conditions import DEADLINE_S

_SCRUBJAY = Path(sys.executable).parent / "scrubjay"


class Station:
    """``scrubjay up`` in a home where the agent asks the stub."""

    def __init__(self, agent: Agent, stub: Stub, folder: Path) -> None:
        self.agent, self.stub = agent, stub
        self.home, self.project = folder / "home", folder / "project"
        for made in (self.home, self.home / "tmp", self.project):
            made.mkdir(parents=True)
        self.environ = self._environment(folder) | agent.settle(Place(self.home, self.project, stub.url))
        self.client = Client(None, None, folder / "data" / "server.sock")
        self._log = folder / "up.log"
        self._make_repository()

    def __enter__(self) -> Self:
        self._up, self.url = self._start(port=0)
        return self

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill ``scrubjay up`` in the middle of whatever it does, and start it again at the same address."""
        port = int(self.url.rpartition(":")[2])
        self._up.kill()
        self._forget_up()
        meanwhile()
        self._up, self.url = self._start(port=port)

    def _start(self, *, port: int) -> tuple[subprocess.Popen[bytes], str]:
        with self._log.open("ab") as log:
            up = subprocess.Popen(
                [_SCRUBJAY, "up", "--port", str(port), "--json"], env=self.environ, stdout=subprocess.PIPE, stderr=log
            )
        assert up.stdout is not None
        told = b""
        while not told.endswith(b"}\n") and (line := up.stdout.readline()):
            told += line
        assert told, f"scrubjay up ended with {up.wait(DEADLINE_S)}: {self._log.read_text()[-2000:]}"
        return up, json.loads(told)["url"]

    def _forget_up(self) -> None:
        self._up.wait(DEADLINE_S)
        assert self._up.stdout is not None
        self._up.stdout.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for pod in self.pods():
                if pod["state"] in ("running", "ending"):
                    self("stop", str(pod["id"]), "--grace", "0")
        finally:
            self._up.send_signal(signal.SIGINT)
            self._forget_up()

    def __call__(self, *words: str, expect: int | None = 0) -> str:
        """Run a command of Scrubjay; return what it prints, or why it failed if it may fail."""
        done = run_command(words, environ=self.environ, cwd=self.project)
        assert expect is None or done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
        return (done.stdout or done.stderr).decode()

    def pods(self) -> list[dict[str, Any]]:
        """What ps says of each pod."""
        return json.loads(self("ps", "--all", "--json"))

    def run(self, *words: str, prompt: str | None = None) -> AgentPod:
        """Start the agent by its name, with a first prompt if there is one."""
        first = ("--prompt", prompt) if prompt is not None else ()
        size = ("--cols", "110", "--rows", "36")
        made = json.loads(self("run", "-d", "--json", "--agent", self.agent.name, *first, *size, *words))
        return AgentPod(self, made["id"])

    def _environment(self, folder: Path) -> dict[str, str]:
        """Nothing of whoever runs the tests: their agents may be set up, and logged in."""
        path = [str(self.agent.folder / self.agent.bin), str(_SCRUBJAY.parent), os.environ["PATH"]]
        return {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "TMPDIR": str(self.home / "tmp"),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "NO_PROXY": "127.0.0.1,localhost",
            "SCRUBJAY_DATA": str(folder / "data"),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "test",
            "GIT_CONFIG_KEY_1": "user.email",
            "GIT_CONFIG_VALUE_1": "test@localhost",
        }

    def _make_repository(self) -> None:
        (self.project / "README.md").write_text("# A project\n")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run(["git", *words], cwd=self.project, env=self.environ, check=True)
