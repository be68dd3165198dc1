"""R12, the catalog's part: on a full disk it goes on for a while, then refuses, and goes on by itself with room."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from scrubjay.errors import CatalogUnavailable
from scrubjay.store.events import append_event, last_number, read_events
from scrubjay.store.pods import add_pod, list_pods, remove_pod
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.status import Status
from scrubjay.store.tokens import add_browser, add_login, find_browser, use_login
from tests.store.catalogs import Catalog, check_integrity, open_catalog, pod_facts, pod_id
from tests.support.small_disk import SmallDisk, mount_small_disk
from tests.support.tiers import sized

pytestmark = [pytest.mark.anyio, pytest.mark.needs("mount")]

_LOGINS = sized(100, 500, 500)


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    """A disk a catalog fits on, with not much to spare."""
    with mount_small_disk(tmp_path / "disk", size="24m") as disk:
        yield disk


def _write_much(connection: Connection) -> int:
    return append_event(connection, "test.wrote", wall_us=1, data={"text": "x" * 100_000}).number


def _log_in(connection: Connection, number: int) -> None:
    digest = number.to_bytes(32)
    add_login(connection, digest=digest, role="operator", name="ann", expires_us=100, wall_us=1)
    assert use_login(connection, digest, wall_us=2) is not None
    add_browser(connection, id=str(number), digest=digest, role="operator", name="ann", expires_us=100, wall_us=2)


async def _use_up(catalog: Catalog) -> list[int]:
    """Write until there is no room at all; returns the numbers that were acknowledged."""
    numbers: list[int] = []
    while True:
        try:
            numbers.append(await catalog.database.write(_write_much))
        except CatalogUnavailable:
            return numbers


async def test_r12_with_a_full_disk_one_can_log_in_list_and_delete(disk: SmallDisk) -> None:
    async with open_catalog(disk.path / "catalog.sqlite") as catalog:
        await catalog.database.write(lambda connection: add_pod(connection, pod_facts(1), Status("running"), wall_us=1))
        disk.fill()

        for number in range(_LOGINS):
            await catalog.database.write(lambda connection, number=number: _log_in(connection, number))
        listed = await catalog.database.read(list_pods)
        removed = await catalog.database.write(lambda connection: remove_pod(connection, pod_id(1), wall_us=3))

        assert [facts.id for facts, _ in listed] == [pod_id(1)]
        assert removed
        assert await catalog.database.read(lambda connection: find_browser(connection, str(_LOGINS - 1))) is not None


async def test_r12_without_any_room_writes_are_refused_whole_and_go_on_by_themselves_later(disk: SmallDisk) -> None:
    async with open_catalog(disk.path / "catalog.sqlite") as catalog:
        disk.fill()
        acknowledged = await _use_up(catalog)
        refused = await asyncio.gather(
            *(catalog.database.write(_write_much) for _ in range(20)), return_exceptions=True
        )

        assert all(isinstance(error, CatalogUnavailable) for error in refused)
        error = refused[0]
        assert isinstance(error, CatalogUnavailable)
        assert "full" in str(error)
        assert error.hint == "free some space; the catalog goes on by itself"
        assert await catalog.database.read(last_number) == len(acknowledged)

        disk.free()
        later = [await catalog.database.write(_write_much) for _ in range(20)]

        events = await catalog.database.read(read_events)
        assert [event.number for event in events] == [*acknowledged, *later] == list(range(1, len(events) + 1))
        assert catalog.told == events
        assert await catalog.database.read(check_integrity) == []


async def test_r12_a_catalog_can_be_opened_and_read_on_a_full_disk(disk: SmallDisk) -> None:
    path = disk.path / "catalog.sqlite"
    async with open_catalog(path) as catalog:
        await catalog.database.write(_write_much)
    disk.fill(leave_bytes=200_000)

    async with open_catalog(path) as catalog:
        assert await catalog.database.read(last_number) == 1
        assert await catalog.database.read(check_integrity) == []


async def test_r12_a_catalog_that_cannot_be_made_says_why_and_can_be_made_later(disk: SmallDisk) -> None:
    disk.fill()

    with pytest.raises(CatalogUnavailable) as refused:
        await SqliteDatabase.open(disk.path / "catalog.sqlite")
    disk.free()

    assert refused.value.hint is not None
    async with open_catalog(disk.path / "catalog.sqlite") as catalog:
        assert await catalog.database.write(_write_much) == 1


async def test_room_that_was_used_is_taken_again(disk: SmallDisk) -> None:
    async with open_catalog(disk.path / "catalog.sqlite") as catalog:
        for _ in range(60):  # half as much again as is kept
            await catalog.database.write(_write_much)
        disk.fill()

        for number in range(_LOGINS):
            await catalog.database.write(lambda connection, number=number: _log_in(connection, number))
