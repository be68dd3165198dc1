"""Servers and runners as processes of their own, started, killed and started again; and viewers that look at them.

Each has its data directory in its command line, so a fleet finds at its end what should not be there any more.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, unix_connect

from scrubjay.cli.client import Client, ServerRefused, ServerUnreachable
from scrubjay.cli.machinery import CATALOG
from scrubjay.tape.record import Json
from scrubjay.wire.viewer import KEYFRAME, decode_screen
from tests.support.catalogs import make_catalog
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import SCRUBJAY
from tests.support.forked_commands import ForkedCommand
from tests.support.processes import kill


class Service:
    """``up``, ``server`` or ``runner join``: a command that runs until it is ended."""

    def __init__(
        self,
        data: Path,
        words: Sequence[str],
        log: Path,
        environ: dict[str, str],
        *,
        times: Mapping[str, float] | None = None,
    ) -> None:
        """``times`` are other values for constants of the product, by module and name."""
        self.data = data
        self._words, self._log, self._environ, self._times = words, log, environ, times or {}
        self._process: ForkedCommand | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has said."""
        return self._log.read_text()

    @property
    def client(self) -> Client:
        """Asks it over its unix socket."""
        return Client(None, None, self.data / "server.sock")

    def begin(self) -> None:
        """Start it and do not wait."""
        self._log.touch()
        if self._words[0] in ("up", "server"):
            make_catalog(self.data / CATALOG)
        argv = [str(SCRUBJAY), "--data", str(self.data), *self._words]
        self._process = ForkedCommand(argv, environ=self._environ, log=self._log, times=self._times)

    def start(self) -> None:
        """Start it and return when it answers."""
        self.begin()
        self.await_answer()

    def await_answer(self) -> None:
        """Return when it answers."""
        eventually(self._answers, f"{self._words} answers: {self.log}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: {self.log}"
        return self.client.answers()

    def kill(self) -> None:
        """Kill it with -9 and wait until it is gone."""
        kill(self.pid)
        self._reap()

    def stop(self) -> int:
        """End it in order; its exit status."""
        kill(self.pid, signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self._process is not None
        status = self._process.wait()
        self._process = None
        return status

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None:
            kill(self.pid, signal.SIGCONT)
            self.kill()

    # What it says.

    def pods(self) -> dict[str, Json]:
        """All pods by name; none while it does not answer."""
        try:
            rows = cast(list[Json], self.client.get("/api/v1/pods"))
        except (ServerUnreachable, ServerRefused):
            return {}
        return {str(row["name"]): row for row in rows}

    def processes(self) -> dict[str, str]:
        """How each pod is, by name; of those whose machine is connected."""
        return {
            name: str(cast(Json, row["status"])["process"]) for name, row in self.pods().items() if row["reachable"]
        }

    def events(self, after: int = 0) -> list[Json]:
        """The fleet's changes."""
        answer = cast(Json, self.client.get("/api/v1/events", after=after))
        return cast(list[Json], answer["events"])


class Viewer:
    """Looks at a live pod in a thread of its own, and comes back whenever it is cut off."""

    def __init__(self, socket_path: Path, pod: str, *, query: str = "") -> None:
        self.keyframes: list[float] = []  #: when each came
        self.output = bytearray()  #: since the last keyframe
        self.offset = 0  #: of the tape, after what was shown last
        self.seen_at = 0.0  #: when something came last
        self.messages: list[Json] = []
        self.connections = 0
        self.closed_with: int | None = None
        self._address = f"ws://localhost/api/v1/pods/{pod}/live{query}"
        self._path = socket_path
        self._connection: ClientConnection | None = None
        self._leaving = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._leaving:
            with suppress(OSError, WebSocketException, TimeoutError, EOFError):
                self._look()
            time.sleep(0.05)

    def _look(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = f"/proc/self/fd/{folder}/{self._path.name}"
            connection = unix_connect(path, self._address, compression=None, max_size=None, open_timeout=DEADLINE_S)
        finally:
            os.close(folder)
        with connection:
            self._connection = connection
            self.connections += 1
            try:
                for message in connection:
                    self._take(message)
            except ConnectionClosed:
                pass
            finally:
                self.closed_with = connection.close_code

    def _take(self, message: str | bytes) -> None:
        self.seen_at = time.monotonic()
        if isinstance(message, str):
            self.messages.append(json.loads(message))
            return
        kind, offset, _, _, data = decode_screen(message)
        if kind == KEYFRAME:
            self.keyframes.append(self.seen_at)
            self.output.clear()
        self.output += data
        self.offset = offset

    def send(self, message: Json | bytes) -> None:
        """Say something."""
        assert self._connection is not None
        self._connection.send(message if isinstance(message, bytes) else json.dumps(message))

    def of_type(self, name: str) -> list[Json]:
        """What it was told of one type."""
        return [message for message in self.messages if message["type"] == name]

    def close(self) -> None:
        """Leave."""
        self._leaving = True
        if self._connection is not None:
            self._connection.close()
        self._thread.join(DEADLINE_S)
