"""The sessions of MCP clients that began with a handshake: rows, so that they outlive the server that made them.

Each belongs to who opened it. To everybody else it does not exist.
"""

# ruff: noqa: A002 - a session has an id

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from scrubjay.ids import WireSessionId
from scrubjay.store import schema
from scrubjay.tape.record import Json

KEEP_US = 30 * 24 * 3600 * 1_000_000  # since it was last seen
SEEN_EVERY_US = 60_000_000  # a write for each request would cost more than most requests
OWN_MAX = 1000  # of one principal: there are clients that open one for each call

_TABLE = schema.wire_session
_OWN = (_TABLE.c.principal == bindparam("whose"), _TABLE.c.id == bindparam("of"))
_ADD = insert(_TABLE)
_FIND = select(_TABLE.c.id, _TABLE.c.protocol, _TABLE.c.seen_us).where(
    *_OWN, _TABLE.c.seen_us > bindparam("after_us", type_=_TABLE.c.seen_us.type)
)
_SEE = update(_TABLE).where(*_OWN).values(seen_us=bindparam("now_us"))
_REMOVE = delete(_TABLE).where(*_OWN)
_FORGET_OLD = delete(_TABLE).where(_TABLE.c.seen_us <= bindparam("until_us"))
_FORGET_SURPLUS = delete(_TABLE).where(
    _TABLE.c.id.in_(
        select(_TABLE.c.id)
        .where(_TABLE.c.principal == bindparam("whose"))
        .order_by(_TABLE.c.seen_us.desc(), _TABLE.c.id)
        .offset(OWN_MAX - 1)
    )
)


@dataclass(frozen=True, slots=True)
class WireSession:
    """A session that is still good."""

    id: WireSessionId
    protocol: str  #: the version that was agreed on
    seen_us: int  #: within a minute


def add_wire_session(
    connection: Connection, *, id: WireSessionId, principal: str, client: Json, protocol: str, wall_us: int
) -> None:
    """Keep a new session, and forget those that nobody has used for long."""
    connection.execute(_FORGET_OLD, {"until_us": wall_us - KEEP_US})
    connection.execute(_FORGET_SURPLUS, {"whose": principal})
    row = {"id": id, "principal": principal, "client": client, "protocol": protocol}
    connection.execute(_ADD, {**row, "created_us": wall_us, "seen_us": wall_us})


def find_wire_session(connection: Connection, id: WireSessionId, *, principal: str, wall_us: int) -> WireSession | None:
    """Somebody's own session; None if there is none of that id, it is another's, or it was not used for 30 days."""
    row = connection.execute(_FIND, {"of": id, "whose": principal, "after_us": wall_us - KEEP_US}).first()
    return None if row is None else WireSession(*row)


def is_unseen(session: WireSession, *, wall_us: int) -> bool:
    """Whether it is a minute since a session was last noted to be in use."""
    return session.seen_us <= wall_us - SEEN_EVERY_US


def see_wire_session(connection: Connection, id: WireSessionId, *, principal: str, wall_us: int) -> None:
    """Note that a session is in use; ``is_unseen`` says when this is worth a write."""
    connection.execute(_SEE, {"of": id, "whose": principal, "now_us": wall_us})


def remove_wire_session(connection: Connection, id: WireSessionId, *, principal: str) -> bool:
    """End somebody's own session; False if there is none."""
    return connection.execute(_REMOVE, {"of": id, "whose": principal}).rowcount > 0
