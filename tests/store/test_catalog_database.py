"""Transactions: durable when they return, each on its own, told in order."""

from __future__ import annotations

import asyncio
import stat
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from scrubjay.errors import CatalogInUse, CatalogUnavailable
from scrubjay.store.events import append_event, last_number, read_events
from scrubjay.store.requests import remember, remembered
from scrubjay.store.sqlite import SqliteDatabase
from tests.store.catalogs import Catalog, open_catalog
from tests.support.conditions import DEADLINE_S

pytestmark = pytest.mark.anyio


class _Mistake(Exception):
    pass


def _happen(connection: Connection) -> int:
    return append_event(connection, "test.happened", wall_us=1).number


def _fail(connection: Connection) -> None:
    append_event(connection, "test.failed", wall_us=1)
    raise _Mistake


async def test_a_write_returns_what_its_body_does_and_a_read_sees_it(catalog: Catalog) -> None:
    number = await catalog.database.write(_happen)

    assert number == 1
    assert await catalog.database.read(last_number) == 1


async def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        await catalog.database.write(lambda connection: remember(connection, "p", "k", {"a": [1]}, wall_us=1))

    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        assert await catalog.database.read(lambda connection: remembered(connection, "p", "k", wall_us=2)) == {"a": [1]}
        assert catalog.told == []


async def test_a_failed_body_undoes_its_own_changes_and_no_others(catalog: Catalog) -> None:
    jobs = [_fail if number % 3 == 1 else _happen for number in range(30)]

    results = await asyncio.gather(*(catalog.database.write(job) for job in jobs), return_exceptions=True)

    assert [isinstance(result, _Mistake) for result in results] == [job is _fail for job in jobs]
    events = await catalog.database.read(read_events)
    assert [event.number for event in events] == list(range(1, 21))
    assert {event.kind for event in events} == {"test.happened"}
    assert [event.number for event in events] == [result for result in results if isinstance(result, int)]


async def test_a_constraint_that_is_violated_is_the_bodys_own_fault(catalog: Catalog) -> None:
    def twice(connection: Connection) -> None:
        remember(connection, "p", "k", {}, wall_us=1)
        remember(connection, "p", "k", {}, wall_us=1)

    violated, happened = await asyncio.gather(
        catalog.database.write(twice), catalog.database.write(_happen), return_exceptions=True
    )

    assert isinstance(violated, IntegrityError)
    assert happened == 1
    assert await catalog.database.read(lambda connection: remembered(connection, "p", "k", wall_us=2)) is None


async def test_writes_that_wait_together_are_committed_together(catalog: Catalog) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        entered.set()
        assert leave.wait(DEADLINE_S)

    holding = asyncio.create_task(catalog.database.write(hold))
    await asyncio.to_thread(entered.wait, DEADLINE_S)
    writes = [asyncio.create_task(catalog.database.write(_happen)) for _ in range(100)]
    await asyncio.sleep(0)
    leave.set()
    await asyncio.gather(holding, *writes)

    assert catalog.batches == [list(range(1, 101))]


async def test_events_are_told_in_order_once_and_before_the_write_returns(catalog: Catalog) -> None:
    async def write_some() -> None:
        for _ in range(20):
            number = await catalog.database.write(_happen)
            assert catalog.told[-1].number >= number
            with pytest.raises(_Mistake):
                await catalog.database.write(_fail)

    await asyncio.gather(*(write_some() for _ in range(10)))

    assert [event.number for event in catalog.told] == list(range(1, 201))
    assert catalog.told == await catalog.database.read(read_events)


async def test_an_event_that_a_body_undid_itself_is_never_told(catalog: Catalog) -> None:
    def change_its_mind(connection: Connection) -> None:
        savepoint = connection.begin_nested()
        append_event(connection, "test.undone", wall_us=1)
        savepoint.rollback()
        append_event(connection, "test.done", wall_us=1)

    await catalog.database.write(change_its_mind)

    assert [(event.number, event.kind) for event in catalog.told] == [(1, "test.done")]


async def test_a_listener_that_fails_is_reported_and_the_write_returns(tmp_path: Path) -> None:
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context.get("exception")))
    mistake = _Mistake()

    def fail(_: object) -> None:
        raise mistake

    database = await SqliteDatabase.open(tmp_path / "catalog.sqlite", on_events=fail)
    numbers = [await database.write(_happen), await database.write(_happen)]
    await database.close()

    assert numbers == [1, 2]
    assert reports == [mistake, mistake]


async def test_a_write_nobody_waits_for_any_more_is_done_and_the_next_goes_on(catalog: Catalog) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(connection: Connection) -> int:
        entered.set()
        assert leave.wait(DEADLINE_S)
        return _happen(connection)

    running = asyncio.create_task(catalog.database.write(hold))
    await asyncio.to_thread(entered.wait, DEADLINE_S)
    waiting = asyncio.create_task(catalog.database.write(_happen))
    await asyncio.sleep(0)
    for task in (running, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    leave.set()

    assert await catalog.database.write(_happen) == 3
    assert [event.number for event in catalog.told] == [1, 2, 3]


async def test_closing_finishes_what_was_accepted_and_refuses_the_rest(tmp_path: Path) -> None:
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        writes = [asyncio.create_task(catalog.database.write(_happen)) for _ in range(300)]
        await asyncio.sleep(0)
        await asyncio.gather(catalog.database.close(), catalog.database.close())

        assert [await write for write in writes] == list(range(1, 301))
        with pytest.raises(CatalogUnavailable, match="closed"):
            await catalog.database.write(_happen)
        with pytest.raises(CatalogUnavailable, match="closed"):
            await catalog.database.read(last_number)
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        assert await catalog.database.read(last_number) == 300


async def test_more_writes_than_may_wait_are_all_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrubjay.store.sqlite._WAITING_MAX", 16)
    async with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        numbers = await asyncio.gather(*(catalog.database.write(_happen) for _ in range(200)))

    assert sorted(numbers) == list(range(1, 201))


async def test_a_read_sees_one_state_however_long_it_takes(catalog: Catalog) -> None:
    await catalog.database.write(_happen)
    entered, leave = threading.Event(), threading.Event()

    def look_twice(connection: Connection) -> tuple[int, int]:
        before = last_number(connection)
        entered.set()
        assert leave.wait(DEADLINE_S)
        return before, last_number(connection)

    looking = asyncio.create_task(catalog.database.read(look_twice))
    await asyncio.to_thread(entered.wait, DEADLINE_S)
    await catalog.database.write(_happen)
    leave.set()

    assert await looking == (1, 1)
    assert await catalog.database.read(last_number) == 2


async def test_a_body_that_runs_out_of_an_iterator_does_not_leave_anybody_waiting(catalog: Catalog) -> None:
    def run_out(connection: Connection) -> object:
        return next(iter(connection.execute(text("SELECT 1 WHERE 1 = 2"))))

    with pytest.raises(RuntimeError, match="iterator"):
        await asyncio.wait_for(catalog.database.write(run_out), DEADLINE_S)
    with pytest.raises(RuntimeError, match="iterator"):
        await asyncio.wait_for(catalog.database.read(run_out), DEADLINE_S)


async def test_a_body_that_ends_the_transaction_itself_fails_and_the_next_goes_on(catalog: Catalog) -> None:
    def commit(connection: Connection) -> None:
        _happen(connection)
        connection.commit()

    with pytest.raises(CatalogUnavailable):
        await catalog.database.write(commit)

    await catalog.database.write(_happen)
    assert [event.number for event in catalog.told] == list(range(1, len(catalog.told) + 1))


async def test_a_connection_that_breaks_is_replaced(catalog: Catalog) -> None:
    def break_it(connection: Connection) -> None:
        _happen(connection)
        connection.invalidate()

    with pytest.raises(CatalogUnavailable):
        await catalog.database.write(break_it)

    assert [await catalog.database.write(_happen) for _ in range(3)] == [1, 2, 3]
    assert [event.number for event in catalog.told] == [1, 2, 3]
    settings = await catalog.database.write(
        lambda connection: [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "foreign_keys")
        ]
    )
    assert settings == [2, 1]


async def test_a_statement_that_cannot_be_read_is_the_bodys_own_fault(catalog: Catalog) -> None:
    def misspell(connection: Connection) -> None:
        connection.execute(text("SELEKT 1"))

    with pytest.raises(DBAPIError, match="syntax error"):
        await catalog.database.write(misspell)
    with pytest.raises(DBAPIError, match="syntax error"):
        await catalog.database.read(misspell)


async def test_nobody_else_may_read_the_files(catalog: Catalog) -> None:
    await catalog.database.write(_happen)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in catalog.path.parent.iterdir()}

    assert {"catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "catalog.sqlite.lock"} == set(modes)
    assert set(modes.values()) == {0o600}


async def test_a_file_that_is_no_catalog_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"something else" * 1000)

    with pytest.raises(CatalogUnavailable, match="not a database") as refused:
        await SqliteDatabase.open(path)

    assert refused.value.hint is not None
    assert path.read_bytes() == b"something else" * 1000
    path.unlink()
    async with open_catalog(path) as catalog:  # and the lock was given back
        assert await catalog.database.write(_happen) == 1


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CatalogUnavailable, match=r"file/catalog\.sqlite: File exists"):
        await SqliteDatabase.open(tmp_path / "file" / "catalog.sqlite")


async def test_opening_that_was_cancelled_leaves_the_catalog_to_the_next(tmp_path: Path) -> None:
    opening = asyncio.create_task(SqliteDatabase.open(tmp_path / "catalog.sqlite"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    async def open_again() -> SqliteDatabase:
        while True:
            try:
                return await SqliteDatabase.open(tmp_path / "catalog.sqlite")
            except CatalogInUse:
                await asyncio.sleep(0.01)

    database = await asyncio.wait_for(open_again(), DEADLINE_S)
    assert await database.write(_happen) == 1
    await database.close()
