"""A server without its doors that summarises sessions; the test says what becomes of them.

Run as a program it begins a summary that never ends, and says so, for a test that kills it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest import mock

from sqlalchemy import Connection

from scrubjay.clock import SystemClock
from scrubjay.fleet.memories import Turn
from scrubjay.fleet.sessions import Holder, Session
from scrubjay.fleet.summaries import Job, Summary
from scrubjay.ids import SessionId
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.sessions import summaries as room
from scrubjay.server.sessions.summaries import Summaries
from scrubjay.settings import Settings
from scrubjay.store import sessions
from scrubjay.store.events import read_events
from scrubjay.store.memories import Appending, append_memory
from scrubjay.store.summaries import list_summaries
from scrubjay.store.summary_jobs import ask_for_summary, cancel_pending, job_of
from tests.support.conditions import DEADLINE_S, until
from tests.support.linked_runner import Control, open_control

T = TypeVar("T")

_ANN = Holder("connection:ann:1")


class LateClock(SystemClock):
    """The machine's clock, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_us = 0

    def wall_us(self) -> int:
        """Microseconds since 1970 in UTC, and more."""
        return super().wall_us() + self.ahead_us


class Office:
    """Sessions, and who summarises them."""

    def __init__(self, control: Control, clock: LateClock) -> None:
        self._tower, self.clock = control.tower, clock
        self.reception = Reception(control.tower)

    def summaries(self, settings: Settings, environ: dict[str, str] | None = None) -> Summaries:
        """Somebody who makes summaries."""
        return Summaries(self.reception, settings, {"PATH": "/usr/bin:/bin"} if environ is None else environ)

    @asynccontextmanager
    async def working(self, settings: Settings) -> AsyncGenerator[asyncio.Task[None]]:
        """Let somebody make summaries while inside."""
        task = asyncio.create_task(self.summaries(settings).run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    # What becomes of sessions.

    async def open(self, *prompts: str) -> SessionId:
        """Begin a session with these turns."""
        session = (
            await self._write(lambda on: sessions.open_session(on, holder=_ANN, held_by="ann", wall_us=self.now_us))
        ).id
        await self.add(session, *prompts)
        return session

    async def add(self, session: SessionId, *prompts: str) -> None:
        """Append turns."""
        for prompt in prompts:
            how = Appending(session, 1, "agent")
            await self._write(partial(append_memory, turn=Turn(prompt=prompt), how=how, wall_us=self.now_us))

    async def leave(self, session: SessionId) -> None:
        """Let nobody have it."""
        await self._change(session, lambda on, found: sessions.suspend(on, found, why="left", wall_us=self.now_us))

    async def resume(self, session: SessionId) -> None:
        """Let somebody have it again."""

        def body(connection: Connection, found: Session) -> None:
            cancel_pending(connection, found, wall_us=self.now_us)
            sessions.grant(connection, found, _ANN, held_by="ann", how="resumed", wall_us=self.now_us)

        await self._change(session, body)

    async def ask(self, session: SessionId) -> Job | None:
        """Ask for a summary."""
        return await self._change(session, lambda on, found: ask_for_summary(on, found, by="ann", wall_us=self.now_us))

    # What is seen of it.

    async def job(self, session: SessionId) -> Job | None:
        """What is to be made."""
        return await self._tower.database.read(lambda on: job_of(on, session))

    async def job_that(self, session: SessionId, state: str) -> Job:
        """The job, once it is in a state."""
        found: list[Job] = []

        async def look() -> None:
            while not found:
                job = await self.job(session)
                if job is not None and job.state == state:
                    found.append(job)
                await asyncio.sleep(0.01)

        async with asyncio.timeout(DEADLINE_S):
            await look()
        return found[0]

    async def made(self, session: SessionId, count: int = 1) -> list[Summary]:
        """Its summaries, once there are so many."""
        async with asyncio.timeout(DEADLINE_S):
            while len(found := await self.kept(session)) < count:
                await asyncio.sleep(0.01)
        return found

    async def kept(self, session: SessionId) -> list[Summary]:
        """Its summaries."""
        return await self._tower.database.read(lambda on: list_summaries(on, session))

    async def told(self) -> list[str]:
        """The kinds of events about summaries."""
        events = await self._tower.database.read(lambda on: read_events(on, limit=10_000))
        return [event.kind for event in events if event.kind.startswith("summary.")]

    @property
    def now_us(self) -> int:
        """What the clock shows."""
        return self.clock.wall_us()

    async def _change(self, session: SessionId, body: Callable[[Connection, Session], T]) -> T:
        return await self._write(lambda connection: body(connection, sessions.get_session(connection, session)))

    async def _write(self, body: Callable[[Connection], T]) -> T:
        return await self._tower.database.write(body)


@asynccontextmanager
async def open_office(data: Path) -> AsyncGenerator[Office]:
    """Open while inside."""
    clock = LateClock()
    async with open_control(data, clock) as control:
        yield Office(control, clock)


async def _main(data: Path, script: str) -> None:
    settings = Settings(data=data, summary_command=(script,), summarise_after_s=0)
    with mock.patch.object(room, "LOOK_EVERY_S", 0.05):
        async with open_office(data) as office, office.working(settings):
            session = await office.open("one", "two")
            await office.leave(session)
            await office.job_that(session, "running")
            await until(lambda: (data / "begun").exists(), "the command runs")
            print(session, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
