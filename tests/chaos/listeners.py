"""Pods with an agent that waits for prompts, somebody who keeps telling them things, and the count of what arrived."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from scrubjay.cli.client import Client, ServerRefused, ServerUnreachable
from scrubjay.pods.pod import Pod
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.paths import PROGRAMS
from tests.support.services import Service

_PROGRAM = PROGRAMS / "listener.py"
_NUMBER = re.compile(r"«number ([0-9]+)»")
_AHEAD = 3  # messages that wait for one listener; with more, a busy machine would be at it for minutes afterwards
_A_MESSAGE_S = 5.0  # at most, on a busy machine, for each that still waits
AGENT = "listener"


def know_listeners(fleet: Fleet) -> None:
    """Make them an agent that this fleet knows by name."""
    folder = fleet.logs / "agents"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-S", str(_PROGRAM)]
    (folder / f"{AGENT}.toml").write_text(f'title = "Listener"\n[start]\ncommand = {command}\n')
    fleet.settings["SCRUBJAY_AGENTS"] = str(folder)


@dataclass
class ListenerPod:
    """One party, whichever pod it is in, and what it has been told by number."""

    name: str
    log: Path
    member: Member  #: the first pod it was in
    pod: Pod  #: the one it is in
    told: int = 0  #: messages that were taken for it

    @property
    def begun(self) -> int:
        """How many messages have been begun to be typed into its pod."""
        inputs = [record.typed() for record in self.pod.tape().records() if record.kind == Kind.INPUT]
        return sum(typed.author == "scrubjay:message" and typed.data.startswith(b"[") for typed in inputs)

    @property
    def heard(self) -> list[int]:
        """The numbers it has heard, in order; AssertionError for anything else."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        found = [_NUMBER.findall(line) for line in lines]
        assert all(len(numbers) == 1 for numbers in found), [line for line in lines if len(_NUMBER.findall(line)) != 1]
        return [int(numbers[0]) for numbers in found]

    def assert_heard_all(self) -> None:
        """Every number that was taken for it, once and in order."""
        assert self.heard == list(range(self.told)), f"{self.name} heard {self.heard} of {self.told}"


def start_listeners(fleet: Fleet, names: Sequence[str], *options: str) -> list[ListenerPod]:
    """A pod for each name."""
    logs = {name: fleet.logs / f"{name}.heard" for name in names}
    programs = {name: (str(log), *options) for name, log in logs.items()}
    members = fleet.start_all(programs, options=("--agent", AGENT))
    return [ListenerPod(member.name, logs[member.name], member, member.pod) for member in members]


@dataclass
class Teller:
    """Tells listeners numbers, in a thread of its own, whatever happens to the server meanwhile."""

    client: Client
    listeners: list[ListenerPod]
    every_s: float
    tries: int = 0  #: requests, of which many may have gone unanswered
    _ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(self.every_s):
            for listener in self.listeners:
                if listener.told - len(listener.heard) < _AHEAD:
                    self._tell(listener)

    def _tell(self, listener: ListenerPod) -> None:
        """Say the next number, again and again with the same key until the server has answered."""
        while True:
            self.tries += 1
            try:
                self.client.post(
                    f"/api/v1/pods/{listener.member.pod.id}/messages",
                    {"text": f"number {listener.told}"},
                    key=f"{listener.name}-{listener.told}",
                )
            except (ServerUnreachable, ServerRefused):
                time.sleep(0.05)
                continue
            listener.told += 1
            return

    def stop(self) -> None:
        """Say nothing more."""
        self._ending.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def await_next(listeners: Sequence[ListenerPod]) -> None:
    """Wait until a message begins to be typed into one of their pods."""
    before = sum(listener.begun for listener in listeners)
    eventually(lambda: sum(each.begun for each in listeners) > before, "one is begun")


def await_all(service: Service, listeners: Sequence[ListenerPod]) -> None:
    """Wait until every message is known to have been typed, and see that each was heard once and in order."""

    def all_delivered() -> bool:
        try:
            return all(set(_states(service, listener)) == {"delivered"} for listener in listeners)
        except (ServerUnreachable, ServerRefused):
            return False

    told = sum(listener.told for listener in listeners)
    eventually(all_delivered, "all messages have come", within_s=DEADLINE_S + _A_MESSAGE_S * told)
    for listener in listeners:
        listener.assert_heard_all()


def _states(service: Service, listener: ListenerPod) -> list[str]:
    path = f"/api/v1/pods/{listener.member.pod.id}/inbox"
    inbox = cast(Json, service.client.get(path, all="true", limit=200))
    return [str(each["state"]) for each in cast("list[Json]", inbox["messages"])]
