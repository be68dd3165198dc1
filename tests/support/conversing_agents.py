"""A machine with an agent that keeps conversations, repositories to work in, and pods to resume."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.runner.resume import Resumed, resume
from scrubjay.runner.start import start
from scrubjay.settings import Settings
from scrubjay.tape.format import Kind
from scrubjay.wire.messages import Resume, Start
from tests.support.checkouts import Checkouts
from tests.support.conditions import eventually
from tests.support.paths import PROGRAMS
from tests.support.pods import end_pods

_TALKER = PROGRAMS / "conversing_agent.py"
MANIFEST = """\
title = "Talker"
install = "make talker"

[start]
command = ["talker"]
prompt = ["--say", "{prompt}"]
conversation = ["--talk", "{conversation}"]
other_commands = ["login"]

[conversation]
known = "chosen"
given_by = ["--talk", "--go-on"]
files = ["${TALK_HOME:-~/.talk}/{conversation}.jsonl"]
live = "${TALK_HOME:-~/.talk}/live/*.json"

[resume]
arguments = ["--go-on", "{conversation}"]
"""


def install_talker(bin_: Path, agents: Path) -> None:
    """Put the program and its manifest there."""
    bin_.mkdir(parents=True, exist_ok=True)
    agents.mkdir(parents=True, exist_ok=True)
    program = bin_ / "talker"
    program.write_text(f"#!{sys.executable} -IS\n{_TALKER.read_text()}")
    program.chmod(0o755)
    (agents / "talker.toml").write_text(MANIFEST)


class Talkers:
    """One machine."""

    def __init__(self, checkouts: Checkouts) -> None:
        self.checkouts = checkouts
        folder = checkouts.folder
        self.program = folder / "bin" / "talker"
        install_talker(folder / "bin", folder / "agents")
        self.talks = folder / ".talk"
        self.environ = checkouts.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        self.home = Home(checkouts.home)
        self.settings = Settings(data=checkouts.home, agents=folder / "agents")
        self.worktrees = checkouts.worktrees

    def close(self) -> None:
        """End all pods."""
        end_pods(self.home.path)

    def start(self, *argv: str, agent: str | None = "talker", **more: object) -> Pod:
        """A pod with a talker, or with a command."""
        request = Start(argv=argv, agent=agent, cols=80, rows=24, **more)  # pyright: ignore[reportArgumentType]
        return start(request, home=self.home, worktrees=self.worktrees, settings=self.settings, environ=self.environ)

    def resume(self, pod: Pod, **more: object) -> Resumed:
        """Go on with it."""
        request = Resume(pod=pod.id, **more)  # pyright: ignore[reportArgumentType]
        return resume(request, home=self.home, worktrees=self.worktrees, settings=self.settings, environ=self.environ)

    def resume_pod(self, pod: Pod, **more: object) -> Pod:
        """The pod that goes on with it."""
        resumed = self.resume(pod, **more).pod
        assert resumed is not None
        return resumed

    def findings(self, pod: Pod, **more: object) -> dict[str, str]:
        """What is found, by kind; what stops begins with an exclamation mark."""
        found = self.resume(pod, check=True, **more).findings
        return {finding.kind: "!" * finding.stops + str(finding) for finding in found}

    def say(self, pod: Pod, line: str) -> None:
        """Type a line and see it answered."""
        with pod.connect() as keeper:
            keeper.ask({"do": "write", "author": "test"}, line.encode() + b"\r")
        self.wait_until_shown(pod, f": {line}")

    def wait_until_shown(self, pod: Pod, text: str) -> None:
        """Wait for a text that it shows."""
        eventually(lambda: text in self.shown(pod), f"{pod.name} shows {text!r}")

    def shown(self, pod: Pod) -> str:
        """Everything it has shown."""
        parts = [record.payload for record in pod.tape().records() if record.kind == Kind.OUTPUT]
        return b"".join(parts).decode(errors="replace")

    def agent_pid(self, pod: Pod) -> int:
        """The process of its agent."""
        live = pod.observe().live
        assert live is not None
        pid = live["agent_pid"]
        assert isinstance(pid, int)
        return pid

    def kill(self, pod: Pod) -> None:
        """Kill its agent and wait for its end."""
        os.kill(self.agent_pid(pod), signal.SIGKILL)
        self.wait_for_end(pod)

    def wait_for_end(self, pod: Pod) -> None:
        """Wait until it is over."""
        eventually(lambda: not pod.alive, f"{pod.name} ends")

    def talked(self, *words: str, said: tuple[str, ...] = ("PLUM-4711",), **more: object) -> Pod:
        """A pod whose talker has heard something and was killed."""
        pod = self.start(*words, agent="talker", **more)
        for line in said:
            self.say(pod, line)
        self.kill(pod)
        return pod

    def state(self) -> dict[str, object]:
        """Everything that a resume that fails must leave as it was."""
        repositories = [path for path in self.checkouts.folder.iterdir() if (path / ".git").is_dir()]
        return {
            "pods": sorted(path.name for path in (self.home.path / "pods").iterdir()),
            "staging": sorted(path.name for path in (self.home.path / "staging").iterdir()),
            "facts": self.home.pods(),
            "worktrees": [self.checkouts.git("worktree", "list", "--porcelain", cwd=path) for path in repositories],
            "branches": [self.checkouts.branches(path) for path in repositories],
            "talks": {path.name: path.read_bytes() for path in self.talks.glob("*.jsonl")},
            "talkers": self.talkers(),
        }

    def talkers(self) -> list[int]:
        """The processes of talkers of this machine that are alive."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if os.fsencode(self.program) in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return sorted(found)


def wait_a_second() -> None:
    """Let the clock of git's log, which counts in seconds, go on."""
    until = int(time.time()) + 1
    while time.time() < until:
        time.sleep(0.02)
