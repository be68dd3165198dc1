"""Answers to requests that may come a second time.

Look for the answer, do what is asked and remember the answer in one write: then a request is carried out once, however
often it comes.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, bindparam, delete, insert, select

from scrubjay.store import schema
from scrubjay.tape.record import Json

KEEP_US = 24 * 3600 * 1_000_000  # whoever asks again after a day does not repeat a request, but makes another

_TABLE = schema.request
_FIND = select(_TABLE.c.answer).where(_TABLE.c.principal == bindparam("whose"), _TABLE.c.key == bindparam("of"))
_FORGET = delete(_TABLE).where(_TABLE.c.wall_us <= bindparam("until_us"))
_KEEP = insert(_TABLE)


def remembered(connection: Connection, principal: str, key: str) -> Json | None:
    """The answer somebody's request was given, or None if it was never carried out."""
    row = connection.execute(_FIND, {"whose": principal, "of": key}).first()
    return None if row is None else cast(Json, row.answer)


def remember(connection: Connection, principal: str, key: str, answer: Json, *, wall_us: int) -> None:
    """Keep the answer to a request for a day, and forget those that are older."""
    connection.execute(_FORGET, {"until_us": wall_us - KEEP_US})
    connection.execute(_KEEP, {"principal": principal, "key": key, "answer": answer, "wall_us": wall_us})
