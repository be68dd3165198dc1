"""Scripted agents in pods that speak MCP, told by a test what to call; and somebody who listens to the fleet."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self, cast

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import unix_connect

from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet
from tests.support.paths import PROGRAMS

_CALLER = PROGRAMS / "caller.py"


class CallerPod:
    """One agent; each order is a call, carried out one after the other."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.orders, self._results = folder / f"{name}.orders", folder / f"{name}.results"
        self.orders.touch()
        self._ordered = 0

    @property
    def argv(self) -> tuple[str, ...]:
        """What runs in its pod."""
        return sys.executable, "-I", "-S", str(_CALLER), str(self.orders), str(self._results)

    def order(self, tool: str, **arguments: object) -> int:
        """Have it call a tool; the number of the order."""
        with self.orders.open("a") as file:
            file.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        self._ordered += 1
        return self._ordered - 1

    @property
    def results(self) -> list[Json]:
        """What it was answered so far."""
        return [json.loads(line) for line in self._results.read_text().splitlines()] if self._results.exists() else []

    def result(self, number: int) -> Json:
        """What it was answered to an order."""
        eventually(lambda: len(self.results) > number, f"{self.name} has an answer")
        return self.results[number]

    def call(self, tool: str, **arguments: object) -> Json:
        """Have it call a tool, and take the answer; AssertionError if it is a refusal."""
        result = self.result(self.order(tool, **arguments))
        assert not result["failed"], (self.name, tool, result)
        return cast(Json, result["answer"])


def start_callers(fleet: Fleet, *names: str) -> list[CallerPod]:
    """Pods with such agents."""
    callers = [CallerPod(name, fleet.logs) for name in names]
    fleet.start_all({caller.name: caller.argv for caller in callers})
    return callers


class FleetWatcher:
    """Listens to the fleet's changes from now on, in a thread of its own."""

    def __init__(self, socket_path: Path) -> None:
        self.changes: list[Json] = []
        self._path = socket_path
        self._open = ExitStack()

    def __enter__(self) -> Self:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = f"/proc/self/fd/{folder}/{self._path.name}"
            connecting = unix_connect(path, "ws://localhost/api/v1/fleet", compression=None, open_timeout=DEADLINE_S)
            self._connection = self._open.enter_context(connecting)
        finally:
            os.close(folder)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        eventually(lambda: self.changes, "it is told of what comes")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._thread.join(10)

    def of_kind(self, kind: str) -> list[Json]:
        """The changes of a kind that have come."""
        return [change for change in self.changes if change.get("kind") == kind]

    def _listen(self) -> None:
        with suppress(ConnectionClosed):
            for message in self._connection:
                self.changes.append(json.loads(message))
