"""That something is about to be typed, kept before it is: whether it was is then on the tape, whatever died."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select

from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.requests import KEEP_US

_TABLE = schema.typed_request
_THIS = (_TABLE.c.principal == bindparam("whose"), _TABLE.c.key == bindparam("of"))
_FIND = select(_TABLE.c.pod, _TABLE.c.author, _TABLE.c.offset, _TABLE.c.epoch).where(
    *_THIS, _TABLE.c.wall_us > bindparam("after_us")
)
_REPLACE = delete(_TABLE).where(*_THIS)
_FORGET = delete(_TABLE).where(_TABLE.c.wall_us <= bindparam("until_us"))
_KEEP = insert(_TABLE)


@dataclass(frozen=True, slots=True)
class Intent:
    """Where the tape has something that was typed, if it was."""

    pod: PodId
    author: str
    offset: int  #: of the tape, from which on it can be
    epoch: int  #: of the turn at the keyboard, which no other has


def intended(connection: Connection, principal: str, key: str, *, wall_us: int) -> Intent | None:
    """What somebody was about to type by this key within the last day."""
    row = connection.execute(_FIND, {"whose": principal, "of": key, "after_us": wall_us - KEEP_US}).first()
    return None if row is None else Intent(PodId(row.pod), row.author, row.offset, row.epoch)


def intend(connection: Connection, principal: str, key: str, intent: Intent, *, wall_us: int) -> None:
    """Keep for a day that something is about to be typed, in place of an earlier try, and forget what is older."""
    connection.execute(_FORGET, {"until_us": wall_us - KEEP_US})
    connection.execute(_REPLACE, {"whose": principal, "of": key})
    row = {"pod": intent.pod, "author": intent.author, "offset": intent.offset, "epoch": intent.epoch}
    connection.execute(_KEEP, {"principal": principal, "key": key, "wall_us": wall_us, **row})
