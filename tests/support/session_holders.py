"""A server without its doors, and connections of agents that hold sessions there, each as the edge would set it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection

from scrubjay.fleet.access import Principal
from scrubjay.fleet.memories import Memory, Turn
from scrubjay.ids import SessionId
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.credentials import Credentials
from scrubjay.server.request_context import RequestContext, in_context
from scrubjay.settings import Settings
from scrubjay.store.events import Event, read_events
from scrubjay.store.memories import list_memories
from scrubjay.tape.record import Json
from tests.support.fake_clock import FakeClock
from tests.support.linked_runner import open_control

_PAGE = 1000


class HolderConnection:
    """One connection of an agent outside pods."""

    def __init__(self, coordination: Coordination, principal: Principal, name: str) -> None:
        self.name = name
        self._coordination = coordination
        self._context = RequestContext(principal, "2026-07-28", client=name)
        self._actor = coordination.reception.actor(principal)

    async def resume(self, session: str | None = None, *, takeover: bool = False) -> Json:
        """Ask for a session."""
        with in_context(self._context), self._heard():
            return await self._coordination.resuming.resume(self._actor, session, takeover=takeover)

    async def add(self, text: str, *, key: str | None = None) -> Json:
        """Append to the session it is in."""
        with in_context(self._context), self._heard():
            return await self._coordination.memories.add(self._actor, Turn(prompt=text), key=key)

    async def let_go(self, session: str) -> None:
        """Let nobody have a session."""
        with in_context(self._context), self._heard():
            await self._coordination.resuming.finish(self._actor, session, only_leave=True)

    async def ask_for_summary(self, session: str) -> Json:
        """Have what is new in a session summed up."""
        with in_context(self._context), self._heard():
            return await self._coordination.summing_up.ask(self._actor, session)

    def _heard(self) -> AbstractContextManager[None]:
        return self._coordination.sessions.heartbeats.busy(self._context.holder)


class Holders:
    """Everybody who has to do with sessions of one agent."""

    def __init__(self, coordination: Coordination, principal: Principal, clock: FakeClock) -> None:
        self.coordination, self.clock = coordination, clock
        self._principal = principal

    def connect(self, name: str) -> HolderConnection:
        """Another connection of the same agent."""
        return HolderConnection(self.coordination, self._principal, name)

    async def memories(self, session: str) -> list[Memory]:
        """All that a session has."""

        def body(connection: Connection) -> list[Memory]:
            found: list[Memory] = []
            while page := list_memories(connection, SessionId(session), after=len(found), limit=_PAGE):
                found += page
            return found

        return await self.coordination.tower.database.read(body)

    async def events(self, *kinds: str) -> list[Event]:
        """The events of some kinds, in order."""

        def body(connection: Connection) -> list[Event]:
            found: list[Event] = []
            while page := read_events(connection, after=found[-1].number if found else 0, limit=_PAGE):
                found += page
            return found

        events = await self.coordination.tower.database.read(body)
        return [event for event in events if event.kind in kinds]


@asynccontextmanager
async def open_holders(data: Path, *, settings: Settings | None = None) -> AsyncGenerator[Holders]:
    """Open while inside, with a clock that the test moves."""
    clock = FakeClock()
    async with open_control(data, clock) as control:
        coordination = Coordination(control.tower, settings or Settings(data=data))
        made = await Credentials(control.tower.database, clock).create_token("agent", name="ann")
        await coordination.begin()
        yield Holders(coordination, Principal(f"token:{made.row.id}", "agent", "ann"), clock)
