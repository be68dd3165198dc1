"""How a catalog comes to the shape that ``schema`` describes: one history for all engines, forward only.

A revision is a file in ``versions``, written by hand with plain types, so that it stays what it was when the schema
goes on. Its name begins with its number, which is also its id; ``HEAD`` is the last.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, select, table
from sqlalchemy import column as sql_column

from scrubjay.errors import CatalogTooNew

HEAD = "0006"

_VERSION = table("alembic_version", sql_column("version_num"))


def migrate(connection: Connection, path: str) -> bool:
    """Bring a catalog to the last revision, in the connection's transaction; False if it was there already.

    Nothing else may use it meanwhile. CatalogTooNew if it has a revision this code does not know.
    """
    current = _revision(connection)
    if current == HEAD:
        return False

    from alembic import command  # 200 ms that opening an up-to-date catalog need not wait for
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise CatalogTooNew(path, current)
    command.upgrade(config, HEAD)
    return True


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(select(_VERSION.c.version_num)).scalar_one_or_none()
