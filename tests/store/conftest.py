"""What tests of the catalog share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from scrubjay.fleet.parties import Party
from tests.store.catalogs import Catalog, open_catalog
from tests.store.crew import Crew
from tests.support.catalogs import make_catalog, memory_catalog


@pytest.fixture
def anyio_backend() -> str:
    """Scrubjay has one colour."""
    return "asyncio"


@pytest.fixture
def connection() -> Generator[Connection]:
    """An empty catalog in memory, inside a write."""
    with memory_catalog() as connection, connection.begin():
        yield connection


@pytest.fixture
def crew(connection: Connection) -> Crew:
    """Agents in pods; nobody yet."""
    return Crew(connection)


@pytest.fixture
def ann(crew: Crew) -> Party:
    """Who waits, asks, offers."""
    return crew.hire("ann")


@pytest.fixture
def bob(crew: Crew) -> Party:
    """Whom she waits for, asks, offers something."""
    return crew.hire("bob")


@pytest.fixture(scope="module")
def emptied() -> Generator[Connection]:
    """A catalog in memory for the many examples of a property, each of which undoes what it did."""
    with memory_catalog() as connection:
        yield connection


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    """An empty catalog on disk."""
    make_catalog(tmp_path / "catalog.sqlite")
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        yield catalog
