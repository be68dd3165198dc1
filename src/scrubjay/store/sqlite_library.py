"""The SQLite library: which one is safe, how connections are set up, and what its errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from sqlalchemy import URL, Connection, Engine, NullPool, Pool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from scrubjay.errors import CatalogUnavailable, UnsafeSqlite

SAFE_SINCE = (3, 51, 3)  # https://sqlite.org/wal.html#walresetbug: every version from 3.7.0 to 3.51.2 has it
_WITHDRAWN = (3, 52, 0)  # by SQLite's own authors

_BUSY_MS = 5000  # only somebody with a command line could be in the way

# What is wrong with the machine or the file, by primary result code; anything else is the fault of who asked.
_TROUBLES: dict[int, str | None] = {
    5: "end whoever else has it open",  # BUSY
    7: None,  # NOMEM
    8: "make it writable",  # READONLY
    10: "look at the disk; the catalog goes on by itself once it can be written",  # IOERR
    11: "restore it from a backup; tapes are kept elsewhere and are not affected",  # CORRUPT
    13: "free some space; the catalog goes on by itself",  # FULL
    14: "make its directory writable",  # CANTOPEN
    15: None,  # PROTOCOL
    26: "move it away; tapes are kept elsewhere and are not affected",  # NOTADB
}


class RawConnection(Protocol):
    """A connection of the library itself."""

    isolation_level: str | None

    @property
    def Error(self) -> type[Exception]:  # noqa: N802 - as PEP 249 has it
        """What all its errors are."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and not ended."""
        ...

    def execute(self, sql: str, parameters: Sequence[object] = ..., /) -> Any:
        """Run one statement."""
        ...


def load_sqlite() -> ModuleType:
    """The library the catalog is used with: not Python's own, which is as old as the machine."""
    return import_module("pysqlite3")


def require_safe(module: ModuleType) -> None:
    """UnsafeSqlite if a library has the WAL-reset bug, which loses and mixes up what was committed."""
    version = cast(tuple[int, ...], module.sqlite_version_info)
    if version < SAFE_SINCE or version == _WITHDRAWN:
        raise UnsafeSqlite(".".join(map(str, version)), ".".join(map(str, SAFE_SINCE)))


def writing_engine(path: Path, module: ModuleType) -> Engine:
    """Makes the connection that writes."""
    # An immediate transaction, because one that begins by reading could not always go on to write.
    return _engine(path, module, NullPool, begin="BEGIN IMMEDIATE", query_only=False)


def reading_engine(path: Path, module: ModuleType, size: int) -> Engine:
    """Keeps connections that cannot write."""
    return _engine(path, module, QueuePool, begin="BEGIN", query_only=True, pool_size=size, max_overflow=0)


def _engine(
    path: Path, module: ModuleType, pool: type[Pool], *, begin: str, query_only: bool, **options: object
) -> Engine:
    url = URL.create("sqlite", database=str(path))
    # Connections go from thread to thread, but one has them at a time.
    shared = {"check_same_thread": False}
    engine = create_engine(url, module=module, poolclass=pool, connect_args=shared, **options)

    def set_up(raw: RawConnection, _: object) -> None:
        raw.isolation_level = None  # or the library would begin and end transactions where it thinks fit
        raw.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if not query_only:
            raw.execute(
                "PRAGMA auto_vacuum = NONE"
            )  # before the first page is written: free pages are kept for bad times
            raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA foreign_keys = ON")
        raw.execute(f"PRAGMA query_only = {int(query_only)}")

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", set_up)
    event.listen(engine, "begin", start)
    return engine


def raw_connection(connection: Connection) -> RawConnection:
    """The library's own connection, on which every statement is a transaction of its own."""
    return cast(RawConnection, connection.connection.driver_connection)


def is_trouble(error: BaseException) -> bool:
    """Whether machine or file are at fault, not what was asked."""
    return _code(error) in _TROUBLES


def explain(path: Path, error: BaseException) -> CatalogUnavailable:
    """The error as a person may read it."""
    cause = _unwrap(error)
    why = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    return CatalogUnavailable(str(path), why, hint=_TROUBLES.get(_code(error)))


def _code(error: BaseException) -> int:
    # The lowest byte of an extended code is the primary one. 0 is what no error has.
    return int(getattr(_unwrap(error), "sqlite_errorcode", 0)) & 0xFF


def _unwrap(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
