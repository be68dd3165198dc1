"""Catalogs and pods to fill them with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from scrubjay.ids import PodId, PodName, SessionId
from scrubjay.store.events import Event
from scrubjay.store.pods import PodFacts
from scrubjay.store.sqlite import SqliteDatabase

START_US = 1_795_000_000_000_000


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog on disk and the events it has told."""

    path: Path
    database: SqliteDatabase
    told: list[Event]
    batches: list[list[int]] = field(default_factory=list[list[int]])  #: the numbers each call told


@asynccontextmanager
async def open_catalog(path: Path) -> AsyncGenerator[Catalog]:
    """Open a catalog for as long as the block takes."""
    told: list[Event] = []
    batches: list[list[int]] = []

    def tell(events: list[Event]) -> None:
        told.extend(events)
        batches.append([event.number for event in events])

    database = await SqliteDatabase.open(path, on_events=tell)
    try:
        yield Catalog(path, database, told, batches)
    finally:
        await database.close()


def pod_id(number: int) -> PodId:
    """An id that is the same in every run."""
    return PodId(f"{number:026d}".translate(str.maketrans("0123456789", "abcdefghij")))


def session_id(number: int) -> SessionId:
    """An id that is the same in every run."""
    return SessionId(pod_id(number).replace("a", "s"))


def pod_facts(
    number: int,
    *,
    name: str | None = None,
    branch: str | None = None,
    imported: bool = False,
    session: SessionId | None = None,
) -> PodFacts:
    """A pod with something in every field."""
    return PodFacts(
        id=pod_id(number),
        name=PodName(name or f"pod-{number}"),
        session=session or SessionId("s" * 26),
        runner="r" * 26,
        argv=("claude", "--model", "x"),
        cwd="/home/a/b",
        cols=120,
        rows=36,
        agent="claude",
        repository="/home/a/r.git",
        branch=branch,
        worktree=None,
        imported=imported,
        created_us=START_US + number,
    )


def check_integrity(connection: Connection) -> list[str]:
    """What is wrong with the file, one sentence each; empty if it is whole."""
    try:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    except DBAPIError as error:  # so much is wrong that it cannot be listed
        return [str(error.orig)]
    return [] if found == ["ok"] else found
