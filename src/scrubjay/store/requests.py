"""Answers to requests that may come a second time.

Look for the answer, do what is asked, remember the answer. Two requests with the same key must wait for one another
meanwhile, or both are carried out; that is up to whoever calls this.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, bindparam, delete, insert, select

from scrubjay.store import schema
from scrubjay.tape.record import Json

KEEP_US = 24 * 3600 * 1_000_000  # whoever asks again after a day does not repeat a request, but makes another

_TABLE = schema.request
_FIND = select(_TABLE.c.answer).where(
    *(_TABLE.c.principal == bindparam("whose"), _TABLE.c.key == bindparam("of")),
    _TABLE.c.wall_us > bindparam("after_us"),
)
_FORGET = delete(_TABLE).where(_TABLE.c.wall_us <= bindparam("until_us"))
_KEEP = insert(_TABLE)


def remembered(connection: Connection, principal: str, key: str, *, wall_us: int) -> Json | None:
    """The answer somebody's request was given within the last day, or None if it was not carried out since."""
    row = connection.execute(_FIND, {"whose": principal, "of": key, "after_us": wall_us - KEEP_US}).first()
    return None if row is None else cast(Json, row.answer)


def remember(connection: Connection, principal: str, key: str, answer: Json, *, wall_us: int) -> None:
    """Keep the answer to a request for a day, and forget those that are older."""
    connection.execute(_FORGET, {"until_us": wall_us - KEEP_US})
    connection.execute(_KEEP, {"principal": principal, "key": key, "answer": answer, "wall_us": wall_us})
