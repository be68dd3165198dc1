"""R26: a SQLite that is safe, one connection that writes, and a file that stays whole whatever is done at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import Connection, text

from scrubjay.errors import CatalogInUse, CatalogUnavailable, UnsafeSqlite
from scrubjay.store.events import append_event, last_number, read_events
from scrubjay.store.requests import remembered
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.sqlite_library import load_sqlite, require_safe
from tests.programs.numbered_writer import write_number
from tests.store.catalogs import Catalog, check_integrity, open_catalog
from tests.support.conditions import DEADLINE_S
from tests.support.tiers import sized

pytestmark = pytest.mark.anyio

_THREADS = 8


async def test_r26_an_unsafe_sqlite_is_refused_before_it_touches_anything(tmp_path: Path) -> None:
    with pytest.raises(UnsafeSqlite, match=r"SQLite 3\.51\.2 can damage") as refused:
        await SqliteDatabase.open(tmp_path / "catalog.sqlite", module=_sqlite(3, 51, 2))

    assert refused.value.hint is not None
    assert "pysqlite3" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_r26_a_version_with_the_fault_is_refused() -> None:
    for version in ((3, 7, 0), (3, 40, 1), (3, 51, 2), (3, 52, 0)):
        with pytest.raises(UnsafeSqlite):
            require_safe(_sqlite(*version))


def test_r26_versions_without_it_and_the_one_that_is_installed_are_not() -> None:
    for version in ((3, 51, 3), (3, 52, 1), (3, 53, 0)):
        require_safe(_sqlite(*version))
    require_safe(load_sqlite())


def _sqlite(*version: int) -> ModuleType:
    """A library of that version, of which nothing but the version may be used."""
    return cast(ModuleType, SimpleNamespace(sqlite_version_info=version))


async def test_r26_a_second_catalog_on_the_same_file_is_refused(catalog: Catalog) -> None:
    with pytest.raises(CatalogInUse, match=r"in use by process \d+") as refused:
        await SqliteDatabase.open(catalog.path)

    assert refused.value.hint is not None
    assert await catalog.database.write(lambda connection: append_event(connection, "a.b", wall_us=1).number) == 1


async def test_r26_another_process_on_the_same_file_is_refused(catalog: Catalog) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from scrubjay.errors import CatalogInUse\n"
        "from scrubjay.store.sqlite import SqliteDatabase\n"
        "try:\n"
        "    asyncio.run(SqliteDatabase.open(pathlib.Path(sys.argv[1])))\n"
        "except CatalogInUse as error:\n"
        "    print(error.holder)\n"
    )

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, str(catalog.path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )

    assert done.stdout.strip() == str(_own_pid())


def _own_pid() -> int:
    return int(Path("/proc/self").resolve().name)


async def test_r26_exactly_one_connection_can_write_and_it_waits_for_the_disk(catalog: Catalog) -> None:
    together = threading.Barrier(4)

    def settings_of(connection: Connection) -> tuple[int, tuple[object, ...]]:
        if threading.current_thread().name.startswith("catalog-reader"):
            together.wait(DEADLINE_S)  # so that each read needs a connection of its own
        names = ("query_only", "synchronous", "journal_mode", "foreign_keys")
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]
        return id(connection.connection.driver_connection), tuple(values)

    writers = [await catalog.database.write(settings_of) for _ in range(3)]
    readers = await asyncio.gather(*(catalog.database.read(settings_of) for _ in range(4)))

    assert {settings for _, settings in writers} == {(0, 2, "wal", 1)}
    assert {settings for _, settings in readers} == {(1, 2, "wal", 1)}
    assert len({connection for connection, _ in writers}) == 1
    assert len({connection for connection, _ in readers} - {writers[0][0]}) == 4


async def test_r26_a_read_cannot_write(catalog: Catalog) -> None:
    with pytest.raises(CatalogUnavailable, match="readonly"):
        await catalog.database.read(lambda connection: append_event(connection, "a.b", wall_us=1))

    assert await catalog.database.read(last_number) == 0


async def test_r26_writes_wait_for_nothing_but_the_disk_when_all_are_done_by_one_thread(catalog: Catalog) -> None:
    threads = await asyncio.gather(
        *(catalog.database.write(lambda _: threading.current_thread().name) for _ in range(50))
    )

    assert set(threads) == {"catalog-writer"}


async def test_r26_a_storm_of_reads_writes_and_checkpoints_leaves_the_file_whole(tmp_path: Path) -> None:
    """Two of the threads make checkpoints over connections of their own, which nothing in Scrubjay does."""
    storm = _Storm(time.monotonic() + sized(0, 4, 600))
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        # A checkpoint after every commit, besides those of the other threads.
        await catalog.database.write(lambda connection: connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 1"))
        loop = asyncio.get_running_loop()
        threads = ThreadPoolExecutor(_THREADS)
        tasks = [loop.run_in_executor(threads, storm.checkpoint, catalog.path, seed) for seed in range(2)]
        tasks += [loop.run_in_executor(threads, storm.use, catalog, loop, seed) for seed in range(2, _THREADS)]
        await asyncio.gather(*tasks)

        assert await catalog.database.read(check_integrity) == []
        events = await catalog.database.read(lambda connection: read_events(connection, limit=10_000_000))
        assert [event.number for event in events] == list(range(1, len(storm.written) + 1))
        assert sorted(cast(int, event.data["number"]) for event in events) == sorted(storm.written)
        assert catalog.told == events


class _Storm:
    def __init__(self, until: float) -> None:
        self.written: list[int] = []
        self.checkpoints = 0
        self._until = until

    @property
    def over(self) -> bool:
        """Whether its time is up and, however slow the machine is, enough was done."""
        return time.monotonic() > self._until and len(self.written) > 200 and self.checkpoints > 50

    def use(self, catalog: Catalog, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        """Write, and read back what was written by anybody."""
        random = Random(seed)
        for number in range(seed, 1 << 40, _THREADS):
            if self.over:
                return
            asyncio.run_coroutine_threadsafe(
                catalog.database.write(lambda connection, number=number: write_number(connection, number)), loop
            ).result(DEADLINE_S)
            self.written.append(number)
            known = random.choice(self.written)
            found = asyncio.run_coroutine_threadsafe(
                catalog.database.read(
                    lambda connection, known=known: remembered(connection, "test", str(known), wall_us=known)
                ),
                loop,
            ).result(DEADLINE_S)
            assert found == {"number": known}

    def checkpoint(self, path: Path, seed: int) -> None:
        """Make checkpoints of every kind."""
        random = Random(seed)
        other = load_sqlite().connect(str(path), timeout=DEADLINE_S, isolation_level=None, check_same_thread=False)
        try:
            while not self.over:
                how = random.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
                other.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
                self.checkpoints += 1
        finally:
            other.close()


async def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    async with open_catalog(path) as catalog:
        for number in range(50):
            await catalog.database.write(lambda connection, number=number: write_number(connection, number))
        pages = text("SELECT rootpage FROM sqlite_master WHERE name = 'ix_event_pod_number'")
        page = await catalog.database.read(lambda connection: int(connection.execute(pages).scalar_one()))
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 4000)
        file.write(b"\xa5" * 90)

    async with open_catalog(path) as catalog:
        assert await catalog.database.read(check_integrity) != []
