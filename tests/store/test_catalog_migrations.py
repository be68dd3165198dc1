"""A catalog comes to the shape the code knows, by one history for all engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_mock_engine, inspect, text
from sqlalchemy.sql.ddl import ExecutableDDLElement

from scrubjay.errors import CatalogTooNew
from scrubjay.store import migrations
from scrubjay.store.events import append_event, last_number
from scrubjay.store.migrations import HEAD, migrate
from scrubjay.store.schema import metadata
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.sqlite_library import load_sqlite, writing_engine
from tests.store.catalogs import open_catalog
from tests.support.catalogs import memory_catalog


def _drift(connection: Connection) -> list[object]:
    def is_ours(_item: object, name: str | None, kind: str, *_: object) -> bool:
        # The full-text index keeps itself in tables of its own.
        return kind != "table" or not str(name).startswith("memory_text")

    options = {"compare_type": True, "compare_server_default": True, "include_object": is_ours}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def test_an_empty_catalog_gets_exactly_the_tables_of_the_schema() -> None:
    with memory_catalog() as connection:
        tables = {name for name in inspect(connection).get_table_names() if not name.startswith("memory_text")}

        assert tables == {*metadata.tables, "alembic_version"}
        assert _drift(connection) == []


def test_the_statements_of_tables_and_indexes_are_those_of_the_schema() -> None:
    # A comparison of what can be reflected misses constraints and the conditions of indexes.
    def shape(connection: Connection) -> dict[str, set[str]]:
        rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")).all()
        # In any order, for a column that was added later comes last; whatever the white space.
        parts = {name: re.split(r",\s+(?![^(]*\))", sql) for name, sql in rows if name != "alembic_version"}
        return {name: {"".join(part.split()) for part in sql} for name, sql in parts.items()}

    with memory_catalog() as migrated, writing_engine(Path(":memory:"), load_sqlite()).connect() as made:
        metadata.create_all(made)

        assert shape(migrated) == shape(made)


def test_the_schema_can_be_made_on_postgresql() -> None:
    statements: list[str] = []

    def keep(statement: ExecutableDDLElement, *_: object, **__: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("postgresql+psycopg://", keep)
    metadata.create_all(engine, checkfirst=False)

    made = "\n".join(statements)
    assert "evidence JSONB NOT NULL" in made
    assert "number BIGINT NOT NULL" in made
    assert "SERIAL" not in made
    assert "CREATE UNIQUE INDEX uq_status_open ON status (pod) WHERE until_event IS NULL" in made


def test_the_head_that_spares_asking_alembic_is_the_last_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))

    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_a_catalog_of_the_first_revision_is_brought_up_to_date_and_keeps_what_it_has() -> None:
    with writing_engine(Path(":memory:"), load_sqlite()).connect() as connection, connection.begin():
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        command.upgrade(config, "0001")
        append_event(connection, "test.happened", wall_us=1)

        assert migrate(connection, "catalog")

        assert last_number(connection) == 1
        assert _drift(connection) == []


def test_a_catalog_that_is_up_to_date_is_left_alone() -> None:
    with memory_catalog() as connection:
        append_event(connection, "test.happened", wall_us=1)

        assert not migrate(connection, "catalog")
        assert last_number(connection) == 1


@pytest.mark.anyio
async def test_a_catalog_of_a_newer_version_is_refused_with_the_remedy_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    async with open_catalog(path) as catalog:
        newer = text("UPDATE alembic_version SET version_num = '9999'")
        await catalog.database.write(lambda connection: connection.execute(newer) and None)

    with pytest.raises(CatalogTooNew, match=r"newer version of Scrubjay .*9999") as refused:
        await SqliteDatabase.open(path)

    assert refused.value.hint is not None
    assert "upgrade" in refused.value.hint
    with writing_engine(path, load_sqlite()).connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"


@pytest.mark.anyio
async def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def migrate_halfway(connection: Connection, path: str) -> bool:
        migrate(connection, path)
        raise OSError("the power went")

    path = tmp_path / "catalog.sqlite"
    monkeypatch.setattr("scrubjay.store.sqlite.migrate", migrate_halfway)
    with pytest.raises(Exception, match="the power went"):
        await SqliteDatabase.open(path)
    with writing_engine(path, load_sqlite()).connect() as connection:
        assert inspect(connection).get_table_names() == []

    monkeypatch.undo()
    async with open_catalog(path) as catalog:
        assert await catalog.database.read(last_number) == 0
