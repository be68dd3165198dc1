"""The numbered changes of the fleet, for any number of listeners, each from the number it has."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from scrubjay.store.database import Database
from scrubjay.store.events import Event, last_number, read_events

RECENT = 4096  # events kept in memory; who is further behind reads them from the catalog
_PAGE = 500


class Changes:
    """Everything that has happened, and who waits for more."""

    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._waiting: set[asyncio.Future[None]] = set()
        self._database: Database | None = None
        self.number = 0  #: of the last change
        self.listeners: list[Callable[[list[Event]], None]] = []
        """Told of each commit before whoever made it hears that it is done, so they never wait."""

    async def begin(self, database: Database) -> None:
        """Go on from what is in the catalog."""
        self._database = database
        self.number = max(self.number, await database.read(last_number))

    def publish(self, events: list[Event]) -> None:
        """Events of one commit, in order."""
        self._recent.extend(events)
        self.number = events[-1].number
        for listener in self.listeners:
            listener(events)
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def after(self, number: int) -> list[Event]:
        """Changes with higher numbers, in order and none left out; waits until there is one."""
        while number >= self.number:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)  # who leaves is not woken, for ever perhaps
        if self._recent and self._recent[0].number <= number + 1:
            first = number + 1 - self._recent[0].number
            return [self._recent[index] for index in range(first, min(len(self._recent), first + _PAGE))]
        assert self._database is not None
        return await self._database.read(partial(read_events, after=number, limit=_PAGE))
