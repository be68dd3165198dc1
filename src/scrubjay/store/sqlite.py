"""The catalog in a SQLite file.

One thread writes, over one connection, which also makes every checkpoint; a few others read. A lock beside the file
keeps other processes out. A commit is on the disk before anybody is told of it.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from scrubjay.errors import CatalogUnavailable
from scrubjay.store.database import Body, OnEvents
from scrubjay.store.events import Event
from scrubjay.store.lock import CatalogLock
from scrubjay.store.migrations import migrate
from scrubjay.store.room import can_spare, keep_room
from scrubjay.store.sqlite_library import (
    explain,
    is_trouble,
    load_sqlite,
    raw_connection,
    reading_engine,
    require_safe,
    writing_engine,
)
from scrubjay.store.writer import Job, Writer, as_raised

T = TypeVar("T")

_WAITING_MAX = 4096  # writes that wait; whoever comes then waits to be let in
_READERS = 4


@dataclass(frozen=True, slots=True)
class _File:
    """A catalog's file, open and in the newest shape."""

    path: Path
    lock: CatalogLock
    connection: Connection  #: the one that writes
    reading: Engine

    def close(self) -> None:
        self.reading.dispose()
        self.connection.close()
        self.lock.release()


class SqliteDatabase:
    """A catalog in one file, for one event loop."""

    def __init__(self, file: _File, on_events: OnEvents) -> None:
        self._file = file
        self._on_events = on_events
        self._loop = asyncio.get_running_loop()
        self._vacancies = asyncio.Semaphore(_WAITING_MAX)
        self._closing: asyncio.Future[None] | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="catalog-reader")
        self._writer = Writer(file.path, file.connection, self._settle_soon)

    @classmethod
    async def open(
        cls, path: Path, *, on_events: OnEvents = lambda _: None, module: ModuleType | None = None
    ) -> SqliteDatabase:
        """Open a catalog or make one, and bring it to the newest shape; ``on_events`` is called on this event loop.

        UnsafeSqlite, CatalogInUse, CatalogTooNew or CatalogUnavailable say why that cannot be done.
        """
        opening = asyncio.get_running_loop().run_in_executor(None, _open_file, path, module)
        try:
            return cls(await asyncio.shield(opening), on_events)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise

    async def write(self, body: Body[T]) -> T:
        """Run in a transaction; when this returns the change is durable and its events have been told."""
        await self._vacancies.acquire()
        if self._closing is not None:
            self._vacancies.release()
            raise self._closed()
        future: asyncio.Future[object] = self._loop.create_future()
        # On the writer's thread it is still part of the request it is done for.
        self._writer.accept(Job(partial(copy_context().run, body), future))
        return cast(T, await future)

    async def read(self, body: Body[T]) -> T:
        """Run on a snapshot that does not change meanwhile, and holds every write that has returned."""
        if self._closing is not None:
            raise self._closed()
        context = copy_context()
        return await self._loop.run_in_executor(self._readers, lambda: context.run(self._read, body))

    async def close(self) -> None:
        """Finish what was accepted, then let go."""
        if self._closing is None:
            self._closing = self._loop.run_in_executor(None, self._close)
        await asyncio.shield(self._closing)

    def _closed(self) -> CatalogUnavailable:
        return CatalogUnavailable(str(self._file.path), "it has been closed")

    def _read(self, body: Body[T]) -> T:
        try:
            with self._file.reading.connect() as connection:
                return body(connection)
        except StopIteration as error:
            raise as_raised(error) from error
        except DBAPIError as error:
            if is_trouble(error):
                raise explain(self._file.path, error) from error
            raise

    def _close(self) -> None:
        self._readers.shutdown()
        self._file.reading.dispose()
        self._writer.close()  # the last one, for whoever closes last makes a checkpoint
        self._file.lock.release()

    def _settle_soon(self, jobs: list[Job], events: list[Event]) -> None:
        with suppress(RuntimeError):  # the loop was closed before the catalog, and nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, jobs, events)

    def _settle(self, jobs: list[Job], events: list[Event]) -> None:
        try:
            if events:
                self._on_events(events)
        finally:  # what a listener raises is for the event loop to report: the writes are done
            for job in jobs:
                self._vacancies.release()
                job.settle()


def _open_file(path: Path, module: ModuleType | None) -> _File:
    library = load_sqlite() if module is None else module
    require_safe(library)
    with ExitStack() as undo:
        lock = CatalogLock(path)
        undo.callback(lock.release)
        try:
            with suppress(FileExistsError):  # SQLite itself would let everybody read it
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = undo.enter_context(writing_engine(path, library).connect())
            _migrate(connection, path)
            raw = raw_connection(connection)
            if can_spare(path):
                with suppress(raw.Error):  # a full disk is no reason not to start
                    keep_room(raw)
            reading = reading_engine(path, library, _READERS)
            undo.callback(reading.dispose)
            with reading.connect() as reader:
                reader.exec_driver_sql("SELECT 1")  # one stays open, so that the log is not deleted before the end
        except (DBAPIError, OSError) as error:
            raise explain(path, error) from error
        undo.pop_all()
        return _File(path, lock, connection, reading)


def _migrate(connection: Connection, path: Path) -> None:
    raw = raw_connection(connection)
    # A table that is made anew is dropped in between, and for a moment nothing would refer to it.
    raw.execute("PRAGMA foreign_keys = OFF")
    with connection.begin():
        if migrate(connection, str(path)) and raw.execute("PRAGMA foreign_key_check").fetchall():
            raise CatalogUnavailable(str(path), "what it holds does not fit together after its migration")
    raw.execute("PRAGMA foreign_keys = ON")


def _close_unwanted(opening: asyncio.Future[_File]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
