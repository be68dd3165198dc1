"""The one thread that writes a catalog in SQLite, and commits together what waits together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from scrubjay.store.database import Body
from scrubjay.store.events import Event, last_number, read_events
from scrubjay.store.room import can_spare, has_room, keep_room
from scrubjay.store.sqlite_library import RawConnection, explain, is_trouble, raw_connection

_BATCH_MAX = 256  # writes in one commit; above this a commit costs little beside what it holds
_LOOK_AGAIN_AFTER = 1024  # commits, when the disk had no room to keep


@dataclass(slots=True)
class Job:
    """A write and what became of it."""

    body: Body[object]
    future: asyncio.Future[object]
    result: object = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Tell whoever waits, on the event loop."""
        if self.future.done():  # cancelled: nobody waits any more
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(as_raised(self.error))


def as_raised(error: BaseException) -> BaseException:
    """The error itself, or another for the one that no future takes."""
    return RuntimeError("a body ran out of an iterator") if isinstance(error, StopIteration) else error


Settle = Callable[[list[Job], list[Event]], None]
"""Told, on the writer's thread, of writes that are done or have failed, and of the events of their commit."""


class Writer:
    """Runs from the beginning until it is closed."""

    def __init__(self, path: Path, connection: Connection, settle: Settle) -> None:
        self._path = path
        self._connection = connection
        self._settle = settle
        self._told = last_number(connection)
        connection.rollback()
        self._commits_to_room = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="catalog-writer", daemon=True)
        self._thread.start()

    def accept(self, job: Job) -> None:
        """Do a write as soon as those before it are done."""
        self._jobs.put(job)

    def close(self) -> None:
        """Finish what was accepted, then let the connection go."""
        self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        closing = False
        while not closing:
            waiting = [self._jobs.get()]
            with suppress(queue.Empty):
                while waiting[-1] is not None and len(waiting) < _BATCH_MAX:
                    waiting.append(self._jobs.get_nowait())
            closing = waiting[-1] is None
            if jobs := [job for job in waiting if job is not None]:
                events = self._write(jobs)
                self._settle(jobs, events or [])
                if events is not None:
                    self._look_for_room()

    def _write(self, jobs: list[Job]) -> list[Event] | None:
        """Do all in one transaction; returns its events, or None if nothing could be written."""
        try:
            with self._connection.begin():
                for job in jobs:
                    self._run_body(job)
                events = self._new_events()
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it, and the thread goes on
            self._start_over()
            for job in jobs:
                job.result, job.error = None, explain(self._path, error)
                job.error.__cause__ = error
            return None
        if events:
            self._told = events[-1].number
        return events

    def _run_body(self, job: Job) -> None:
        """Do one write; what it raises undoes that write alone, unless nothing can be written at all."""
        # Not begin_nested: SQLAlchemy takes 20 times as long for it.
        self._raw.execute("SAVEPOINT body")
        try:
            job.result = job.body(self._connection)
        except BaseException as error:
            # On a full disk SQLite may have undone the whole transaction.
            if is_trouble(error) or not self._raw.in_transaction:
                raise
            job.error = error
            self._raw.execute("ROLLBACK TO body")
        self._raw.execute("RELEASE body")

    def _new_events(self) -> list[Event]:
        # Read back, not collected on the way: what a body undid itself is not among them.
        missing = last_number(self._connection) - self._told
        return read_events(self._connection, after=self._told, limit=missing) if missing else []

    def _start_over(self) -> None:
        """Be outside a transaction, with another connection if need be: it is made by the next write."""
        with suppress(DBAPIError):
            self._connection.rollback()
            if not self._raw.in_transaction:
                return
        self._connection.invalidate()
        self._connection.rollback()

    def _look_for_room(self) -> None:
        if self._commits_to_room > 0:
            self._commits_to_room -= 1
            return
        raw = self._raw
        try:
            if not has_room(raw) and can_spare(self._path):
                keep_room(raw)
        except raw.Error:  # the disk is full; nobody's write was refused yet
            self._commits_to_room = _LOOK_AGAIN_AFTER

    @property
    def _raw(self) -> RawConnection:
        return raw_connection(self._connection)
