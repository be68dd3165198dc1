"""What every database of the catalog does, whichever engine is behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from scrubjay.store.events import Event

T = TypeVar("T")
Body = Callable[[Connection], T]
"""What is done in one transaction: plain SQLAlchemy Core that every engine understands.

It may run on any thread, in the context of whoever asked for it. It commits nothing itself, and leaves the connection
behind when it returns.
"""
OnEvents = Callable[[list[Event]], None]
"""Told of the events of each commit, in the order of their numbers, each exactly once and none left out."""


class Database(Protocol):
    """Transactions from asyncio."""

    async def write(self, body: Body[T]) -> T:
        """Run in a transaction; when this returns the change is durable and its events have been told.

        Writes come one after the other: a body sees all that were before it, and none happens in between. What it
        raises undoes its own changes and is raised here. A write that was accepted is done, even if nobody waits for
        it any more. CatalogUnavailable if it could not be made durable: then nothing of it is there, unless the machine
        fails at the same moment, which may leave all of it.
        """
        ...

    async def read(self, body: Body[T]) -> T:
        """Run on a snapshot that does not change meanwhile, and holds every write that has returned."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go."""
        ...
