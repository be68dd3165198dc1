"""A server without its doors, and runners the test speaks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from scrubjay.clock import SystemClock
from scrubjay.fleet.process import Process
from scrubjay.ids import PodId, RunnerId, new_pod_id, new_runner_id
from scrubjay.server.changes import Changes
from scrubjay.server.peer import Peer
from scrubjay.server.tower import Tower
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.tapes import ReplicatedTapes
from scrubjay.wire.messages import PROTOCOL, Answer, Ask, FromServer, Hello, PodReport, Roster
from tests.support.catalogs import make_catalog
from tests.support.conditions import until

if TYPE_CHECKING:
    from scrubjay.clock import Clock

T = TypeVar("T")


def report_of(
    pod: PodId | None = None, *, name: str = "ada", process: Process = "running", complete: bool = False
) -> PodReport:
    """A pod as a runner would report it."""
    return PodReport(
        id=pod or new_pod_id(),
        name=name,
        session="s" * 26,
        argv=("agent",),
        cwd="/",
        cols=80,
        rows=24,
        created_us=1,
        process=process,
        since_us=1,
        complete=complete,
    )


class LinkedRunner:
    """A runner's connection; the test says what the runner does."""

    def __init__(self, tower: Tower, runner: RunnerId) -> None:
        self.said: list[FromServer] = []  #: by the server
        self.hung_up = False
        hello = Hello(protocol=PROTOCOL, version="0", runner=runner, name="box", host="box")
        self.peer = Peer(tower, hello, self.said.append, self._hang_up)
        self._tower = tower
        self._running = asyncio.create_task(self.peer.run())

    def _hang_up(self) -> None:
        self.hung_up = True

    async def introduce(self, *reports: PodReport) -> None:
        """Say which pods it has; returns when the catalog knows."""
        self.peer.hear(Roster(pods=reports))
        await until(lambda: self.peer.introduced, "its pods are in the catalog")

    async def asked(self) -> Ask:
        """The next thing the server asks for."""
        ask = await until(
            lambda: next((message for message in self.said if isinstance(message, Ask)), None), "something is asked"
        )
        self.said.remove(ask)
        return ask

    def answer(self, ask: Ask, **result: object) -> None:
        """Say that it is done."""
        self.peer.hear(Answer(re=ask.id, result=result))

    async def leave(self) -> None:
        """Lose the connection."""
        self._running.cancel()
        await asyncio.wait([self._running])
        self.peer.end()
        await self._tower.farewell(self.peer, "its connection ended")


class Control:
    """A tower and its runners."""

    def __init__(self, tower: Tower) -> None:
        self.tower = tower
        self._linked: list[LinkedRunner] = []

    def link(self, runner: RunnerId | None = None) -> LinkedRunner:
        """Connect a runner."""
        linked = LinkedRunner(self.tower, runner or new_runner_id())
        self._linked.append(linked)
        return linked

    async def close(self) -> None:
        """Let all leave."""
        for linked in self._linked:
            await linked.leave()
        await self.tower.close()


@asynccontextmanager
async def open_control(data: Path, clock: Clock | None = None) -> AsyncGenerator[Control]:
    """A server without its doors."""
    changes = Changes()
    make_catalog(data / "catalog.sqlite")
    database = await SqliteDatabase.open(data / "catalog.sqlite", on_events=changes.publish)
    with closing(ReplicatedTapes(data / "tapes")) as tapes:
        control = Control(Tower(database, tapes, changes, clock or SystemClock(), search_path=data / "search.sqlite"))
        try:
            await control.tower.begin()
            yield control
        finally:
            await control.close()
            await database.close()
