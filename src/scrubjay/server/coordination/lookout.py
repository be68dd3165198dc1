"""Looks out over who waits for whom: names circles as they close, what takes too long, and what was never answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import cast

import structlog
from sqlalchemy import Connection

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.circles import Cycle
from scrubjay.fleet.parties import Party
from scrubjay.fleet.wait_graph import WaitGraph
from scrubjay.fleet.waits import Kind, Source, Wait
from scrubjay.fleet.why import edge_of
from scrubjay.server.tower import Tower
from scrubjay.store.bindings import expire_bindings
from scrubjay.store.deadlocks import end_deadlock, found_deadlock, list_deadlocks
from scrubjay.store.events import Event, append_event
from scrubjay.store.notices import claim_notice
from scrubjay.store.parties import end_of, name_of, pod_of
from scrubjay.store.waits import get_wait, list_waits

LOOK_EVERY_S = 1.0  # for what takes too long, and for what a full disk has not taken
EXPIRE_EVERY_US = 30_000_000  # what is pending for a day may be so for a moment longer
_EVER_US = 1 << 60  # of a wait that takes too long, people are told once

log = structlog.get_logger()


class Lookout:
    """The graph of waits as the last event left it, and what is to be written down of it."""

    def __init__(self, tower: Tower, *, starving_after_us: int) -> None:
        self._tower, self.starving_after_us = tower, starving_after_us
        self.graph = WaitGraph()
        self._known: dict[frozenset[str], str] = {}  #: the circle that is told of, of all that the same parties are in
        self._found: dict[str, Cycle] = {}
        self._ended: dict[str, str] = {}
        self._starved: set[str] = set()
        self._expire_at_us = 0
        self._something = asyncio.Event()

    async def begin(self) -> None:
        """Take up what the catalog knows, and what became of it while nobody looked out."""
        waits, standing = await self._tower.database.read(
            lambda connection: (list_waits(connection), list_deadlocks(connection))
        )
        for wait in waits:
            self._note(self.graph.add(edge_of(wait)))
        for deadlock in standing:
            if deadlock.key not in self._known.values():
                self._ended[deadlock.key] = "one of its waits ended"
        self._something.set()
        self._tower.changes.listeners.append(self._observe)

    async def run(self) -> None:
        """Write down what is seen, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._something.wait()
            except TimeoutError:
                pass
            self._something.clear()
            try:
                await self._write_down()
            except ScrubjayError as error:
                log.warning("waits.not_looked_after", error=str(error))
                await asyncio.sleep(LOOK_EVERY_S)
                self._something.set()

    def cycles_of(self, party: Party) -> list[Cycle]:
        """The circles somebody is in."""
        return [cycle for cycle in self.graph.cycles if party in cycle.parties]

    # What happens.

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            data = event.data
            if event.kind == "wait.began":
                self._note(self.graph.add(edge_of(_wait_of(event))))
            elif event.kind == "wait.ended":
                self._remove(str(data["wait"]), f"{data['outcome']}: {data['detail']}")

    def _note(self, cycles: Iterable[Cycle]) -> None:
        for cycle in cycles:
            if self._known.setdefault(frozenset(cycle.parties), cycle.key) == cycle.key:
                self._found[cycle.key] = cycle
                self._something.set()

    def _remove(self, wait: str, how: str) -> None:
        self._starved.discard(wait)
        removed = self.graph.remove(wait)
        over = [parties for parties, key in self._known.items() if key in removed.ended]
        for parties in over:
            key = self._known.pop(parties)
            self._found.pop(key, None)
            self._ended[key] = how
            self._something.set()
        # The same parties may be in another, until now of no interest.
        self._note(self.graph.cycles if over else removed.appeared)

    # What is written down.

    async def _write_down(self) -> None:
        wall_us = self._tower.clock.wall_us()
        database = self._tower.database
        for key, how in list(self._ended.items()):
            await database.write(partial(end_deadlock, key=key, outcome=how, wall_us=wall_us))
            if self._ended.get(key) == how:
                del self._ended[key]
        for key, cycle in list(self._found.items()):
            await database.write(partial(_keep_cycle, cycle=cycle, wall_us=wall_us))
            if self._found.get(key) is cycle:
                del self._found[key]
        await self._note_starving(wall_us)
        if wall_us >= self._expire_at_us:
            await database.write(partial(expire_bindings, wall_us=wall_us))
            self._expire_at_us = wall_us + EXPIRE_EVERY_US

    async def _note_starving(self, wall_us: int) -> None:
        late = self.graph.starving(wall_us, after_us=self.starving_after_us)
        new = [edge.wait for edge in late if edge.wait not in self._starved]
        if new:
            await self._tower.database.write(partial(_keep_starving, waits=new, wall_us=wall_us))
            self._starved.update(new)


def _wait_of(event: Event) -> Wait:
    """A wait as the event of its beginning tells it."""
    data = event.data
    on = data.get("on")
    return Wait(
        str(data["wait"]),
        Party(str(data["waiter"])),
        cast("Kind", data["kind"]),
        cast("Source", data["source"]),
        key=cast("str | None", data.get("key")),
        on=Party(str(on)) if on is not None else None,
        deadline_us=cast("int | None", data.get("deadline_us")),
        since_us=event.wall_us,
    )


def _keep_cycle(connection: Connection, *, cycle: Cycle, wall_us: int) -> None:
    """Keep a circle, unless one of its waits has ended meanwhile."""
    waits = [edge.wait for edge in cycle.edges]
    found = [get_wait(connection, wait) for wait in waits]
    if all(wait is not None and wait.outcome is None for wait in found):
        parties = [Party(party) for party in cycle.parties]
        found_deadlock(connection, cycle.key, parties=parties, waits=waits, cut=cycle.cheapest.wait, wall_us=wall_us)


def _keep_starving(connection: Connection, *, waits: list[str], wall_us: int) -> None:
    for wait in waits:
        found = get_wait(connection, wait)
        if found is None or found.outcome is not None or end_of(connection, found.waiter) is not None:
            continue  # or nobody is there any more whom it holds up
        if claim_notice(connection, f"starved:{wait}", wall_us=wall_us, quiet_us=_EVER_US):
            _append_starving(connection, found, wall_us=wall_us)


def _append_starving(connection: Connection, wait: Wait, *, wall_us: int) -> None:
    append_event(
        connection,
        "wait.starved",
        wall_us=wall_us,
        pod=pod_of(connection, wait.waiter),
        data={
            "wait": wait.id,
            "waiter": wait.waiter,
            "waiter_name": name_of(connection, wait.waiter),
            "on": wait.on,
            "on_name": name_of(connection, wait.on) if wait.on is not None else None,
            "reason": wait.reason,
            "since_us": wait.since_us,
            "deadline_us": wait.deadline_us,
        },
    )
