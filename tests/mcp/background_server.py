"""A server in a thread of the tests, for those that wait for another process meanwhile.

It stops and starts again in the same folder. To another process that looks like a restart, without the seconds
that a new interpreter takes; what a ``kill -9`` does is tested with a process, by ``test_contract``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import uvloop
from sqlalchemy import Connection

from scrubjay.cli.client import Client
from scrubjay.fleet.access import Role
from tests.mcp.tool_server import ToolServer, open_tool_server
from tests.support.conditions import DEADLINE_S

_T = TypeVar("_T")


class BackgroundServer:
    """A ``ToolServer`` that tests talk to from their own thread."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its address, another one after each start."""
        return self.inside.url

    @property
    def port(self) -> int:
        """The port of its address."""
        return int(self.url.rpartition(":")[2])

    @property
    def client(self) -> Client:
        """Asks it over its unix socket."""
        return Client(None, None, self.data / "server.sock")

    def start(self) -> None:
        """Serve; returns when it answers."""
        self._opened: Future[tuple[ToolServer, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), name="server")
        self._thread.start()
        self.inside, self._loop, self._stopping = self._opened.result(DEADLINE_S)

    def stop(self) -> None:
        """Cease to serve; nothing of it listens any more when this returns."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(DEADLINE_S)
            assert not self._thread.is_alive()
            self._thread = None

    async def _serve(self) -> None:
        stopping = asyncio.Event()
        try:
            async with open_tool_server(self.data) as server:
                self._opened.set_result((server, asyncio.get_running_loop(), stopping))
                await stopping.wait()
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error)
            raise

    def do(self, work: Coroutine[object, object, _T]) -> _T:
        """What some work in its loop returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def new_token(self, role: Role, name: str) -> str:
        """Somebody new."""
        return self.do(self.inside.token(role, name))

    def read(self, question: Callable[[Connection], _T]) -> _T:
        """What its catalog says."""
        return self.do(self.inside.tower.database.read(question))

    def write(self, change: Callable[[Connection], _T]) -> _T:
        """Change its catalog."""
        return self.do(self.inside.tower.database.write(change))


@contextmanager
def open_background_server(data: Path) -> Generator[BackgroundServer]:
    """Run one, and end it on the way out."""
    server = BackgroundServer(data)
    server.start()
    try:
        yield server
    finally:
        server.stop()
