"""Sessions, who holds each, and which one a connection is in."""

# ruff: noqa: A002 - a session has an id

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, insert, or_, select, update

from scrubjay.fleet.parties import Party
from scrubjay.fleet.sessions import Holder, How, Reason, Session, State, pod_of_holder
from scrubjay.ids import SessionId, last_id, new_session_id
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds_of
from scrubjay.tape.record import Json

KEEP_ATTACHED_US = 30 * 24 * 3600 * 1_000_000  # as long as a client may name its protocol session
_ASKED_MAX = 100  # characters of an id that somebody asked for, and that is none

_TABLE, _SESSION, _LEASE, _ATTACHED = schema.session, schema.session.c, schema.lease.c, schema.attachment.c
_LEASES = Facts(schema.lease, "session")
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(_SESSION.id, _SESSION.owner, _LEASE.state, _LEASE.epoch, _SESSION.last_seq, _SESSION.created_us),
    *(_LEASE.since_us, _LEASE.holder, _LEASE.held_by, _LEASE.why, _SESSION.name, _SESSION.agent),
    *(_SESSION.used_us, _SESSION.origin),
)
_JOINED = TimedQuery(
    lambda moment: (
        select(*_COLUMNS)
        .join_from(_TABLE, schema.lease, holds_of(schema.lease, _SESSION.id, moment))
        .order_by(_SESSION.used_us.desc(), _LEASE.since_event.desc())
        .where(or_(bindparam("whose", type_=_SESSION.owner.type).is_(None), _SESSION.owner == bindparam("whose")))
        .limit(bindparam("most"))
    )
)
_NOW = select(*_COLUMNS).join_from(_TABLE, schema.lease, (_LEASE.session == _SESSION.id) & _LEASE.until_event.is_(None))
_ONE = _NOW.where(_SESSION.id == bindparam("of"))
_BEGINNING = _NOW.where(_SESSION.id.between(bindparam("of"), bindparam("last"))).limit(2)
_HELD = _NOW.where(_LEASE.state == "open")
_TAKEN = select(_SESSION.id).where(_SESSION.owner == bindparam("whose"), _SESSION.handed_over)
_ADD = insert(_TABLE)
_OWN = update(_TABLE).where(_SESSION.id == bindparam("of")).values(owner=bindparam("whose"), handed_over=True)
_CALL = (
    update(_TABLE).where(_SESSION.id == bindparam("of")).values(name=bindparam("called"), agent=bindparam("by_agent"))
)
_USE = update(_TABLE).where(_SESSION.id == bindparam("of")).values(used_us=bindparam("now_us"))
_FIND_ATTACHED = select(
    *(_ATTACHED.session, _ATTACHED.parameter, _ATTACHED.requested, _ATTACHED.reason, _ATTACHED.warning)
).where(_ATTACHED.holder == bindparam("who"))
_DETACH = delete(schema.attachment).where(_ATTACHED.holder == bindparam("who"))
_FORGET_OLD = delete(schema.attachment).where(_ATTACHED.wall_us <= bindparam("until_us"))
_ATTACH = insert(schema.attachment)


def open_session(
    connection: Connection,
    *,
    owner: Party | None = None,
    holder: Holder | None,
    held_by: str,
    id: SessionId | None = None,
    name: str | None = None,
    agent: str | None = None,
    origin: Json | None = None,
    wall_us: int,
) -> Session:
    """Begin a session; without a ``holder`` nobody has it yet, without an ``owner`` it is its own: that of a pod.

    The event is ``session.opened``.
    """
    session = id if id is not None else new_session_id()
    owner = owner if owner is not None else Party(session)
    origin = {} if origin is None else origin
    data: Json = {"session": session, "owner": owner, "by": held_by, "name": name, "agent": agent, **origin}
    event = append_event(connection, "session.opened", wall_us=wall_us, pod=pod_of_holder(holder), data=_told(data))
    row: Json = {"id": session, "owner": owner, "name": name, "agent": agent, "origin": origin}
    counts: Json = {"last_seq": 0, "covered_to_seq": 0, "handed_over": False}
    connection.execute(_ADD, {**row, **counts, "created_us": event.wall_us, "used_us": event.wall_us})
    state, epoch = ("suspended", 0) if holder is None else ("open", 1)
    lease: Json = {"session": session, "state": state, "epoch": epoch, "holder": holder, "held_by": held_by}
    _LEASES.open(connection, event, {**lease, "why": "opened"})
    return get_session(connection, session)


def find_session(connection: Connection, id: str) -> Session | None:
    """The session of that id; None if there is none."""
    row = connection.execute(_ONE, {"of": id}).first()
    return None if row is None else _read(row)


def get_session(connection: Connection, id: SessionId) -> Session:
    """The session of an id that is known."""
    return _read(connection.execute(_ONE, {"of": id}).one())


def find_sessions(connection: Connection, raw: str) -> list[Session]:
    """Those whose id is that or begins so; two if there are more."""
    return [_read(row) for row in connection.execute(_BEGINNING, {"of": raw, "last": last_id(raw)})]


def list_sessions(
    connection: Connection, *, owner: Party | None = None, at_us: int | None = None, limit: int = 100
) -> list[Session]:
    """Sessions of one party, or all, last used first, as they are or were at an instant."""
    rows = [_read(row) for row in _JOINED.run(connection, at_us, whose=owner, most=limit)]
    return rows if at_us is None else [session for session in rows if session.created_us <= at_us]


def sessions_taken_by(connection: Connection, owner: Party) -> list[SessionId]:
    """The ids of a party's sessions that were another's once."""
    return [SessionId(id_) for id_ in connection.execute(_TAKEN, {"whose": owner}).scalars()]


def held_sessions(connection: Connection) -> list[Session]:
    """Those that somebody has."""
    return [_read(row) for row in connection.execute(_HELD)]


def grant(
    connection: Connection,
    session: Session,
    holder: Holder,
    *,
    held_by: str,
    how: How,
    owner: Party | None = None,
    wall_us: int,
) -> Session:
    """Let somebody have a session, whoever had it. The epoch is raised. The event is ``session.<how>``."""
    data: Json = {"session": session.id, "by": held_by, "holder": holder, "epoch": session.epoch + 1}
    if session.state == "open" and session.holder != holder:
        data["from"] = session.held_by
    if owner is not None and owner != session.owner:
        connection.execute(_OWN, {"of": session.id, "whose": owner})
        data["owner"] = owner
    _become(connection, session, f"session.{how}", data, "open", session.epoch + 1, holder, held_by, how, wall_us)
    return get_session(connection, session.id)


def renew(connection: Connection, session: Session, *, wall_us: int) -> Session:
    """Let whoever had a session last have it again, as nobody had it since. The event is ``session.renewed``."""
    assert session.holder is not None
    data: Json = {"session": session.id, "by": session.held_by, "epoch": session.epoch}
    name = session.held_by or ""
    _become(
        connection, session, "session.renewed", data, "open", session.epoch, session.holder, name, "resumed", wall_us
    )
    return get_session(connection, session.id)


def suspend(connection: Connection, session: Session, *, why: str, for_good: bool = False, wall_us: int) -> Session:
    """Let nobody have a session; ``for_good`` if whoever had it must ask before they write again.

    The event is ``session.suspended``.
    """
    data: Json = {"session": session.id, "by": session.held_by, "why": why, "epoch": session.epoch}
    holder, held_by = (None, None) if for_good else (session.holder, session.held_by)
    _become(connection, session, "session.suspended", data, "suspended", session.epoch, holder, held_by, why, wall_us)
    return get_session(connection, session.id)


def finish(connection: Connection, session: Session, *, by: str, why: str | None, wall_us: int) -> Session:
    """Say that a session has come to its end. The event is ``session.finished``."""
    data: Json = {"session": session.id, "by": by, "why": why, "epoch": session.epoch}
    _become(connection, session, "session.finished", data, "finished", session.epoch, session.holder, by, why, wall_us)
    return get_session(connection, session.id)


def put_back(connection: Connection, before: Session, *, why: str, wall_us: int) -> None:
    """Let a session be as it was before a grant that came to nothing; only its epoch stays raised.

    Nothing is done if somebody else has got it since. The event is ``session.put_back``.
    """
    current = get_session(connection, before.id)
    if current.epoch != before.epoch + 1 or current.state != "open":
        return
    data: Json = {"session": before.id, "by": current.held_by, "why": why, "epoch": current.epoch}
    holder, held_by = before.holder, before.held_by
    _become(
        connection, current, "session.put_back", data, before.state, current.epoch, holder, held_by, before.why, wall_us
    )


def note_refusal(
    connection: Connection,
    requested: str,
    reason: Reason,
    *,
    by: str,
    principal: str,
    instead: SessionId | None,
    wall_us: int,
) -> None:
    """Keep that somebody was refused a session. The event is ``session.refused``."""
    data: Json = {"requested": requested[:_ASKED_MAX], "reason": reason, "by": by, "principal": principal}
    append_event(connection, "session.refused", wall_us=wall_us, data=_told({**data, "session": instead}))


def describe_session(connection: Connection, session: Session, *, name: str | None, agent: str | None) -> None:
    """Call a session as its newest pod is called."""
    if (name, agent) != (session.name, session.agent):
        connection.execute(_CALL, {"of": session.id, "called": name, "by_agent": agent or session.agent})


def use_session(connection: Connection, session: SessionId, *, wall_us: int) -> None:
    """Note that something was done in a session."""
    connection.execute(_USE, {"of": session, "now_us": wall_us})


@dataclass(frozen=True, slots=True)
class Attachment:
    """The session that a connection is in, and how it came to be in it."""

    session: SessionId
    parameter: str | None = None  #: what the connection is made with, and what this has come of
    requested: str | None = None  #: what it asked for and was refused
    reason: Reason | None = None
    warning: str | None = None  #: what it was told


def attach(connection: Connection, holder: Holder, to: Attachment, *, wall_us: int) -> None:
    """Let a connection be in a session."""
    connection.execute(_FORGET_OLD, {"until_us": wall_us - KEEP_ATTACHED_US})
    detach(connection, holder)
    row: Json = {"session": to.session, "parameter": to.parameter, "requested": to.requested, "reason": to.reason}
    connection.execute(_ATTACH, {**row, "holder": holder, "warning": to.warning, "wall_us": wall_us})


def detach(connection: Connection, holder: Holder) -> None:
    """Let a connection be in no session."""
    connection.execute(_DETACH, {"who": holder})


def attached(connection: Connection, holder: Holder) -> Attachment | None:
    """Which session a connection is in; None if it is in none."""
    row = connection.execute(_FIND_ATTACHED, {"who": holder}).first()
    return None if row is None else Attachment(*row)


def _become(
    connection: Connection,
    session: Session,
    kind: str,
    data: Json,
    state: State,
    epoch: int,
    holder: Holder | None,
    held_by: str | None,
    why: str | None,
    wall_us: int,
) -> None:
    event = append_event(connection, kind, wall_us=wall_us, pod=pod_of_holder(holder), data=_told(data))
    _LEASES.close(connection, event, session.id)
    lease: Json = {"session": session.id, "state": state, "epoch": epoch, "holder": holder, "held_by": held_by}
    _LEASES.open(connection, event, {**lease, "why": why})
    if state == "open":
        use_session(connection, session.id, wall_us=event.wall_us)


def _told(data: Json) -> Json:
    return {name: value for name, value in data.items() if value is not None}


def _read(row: Row[*tuple[Any, ...]]) -> Session:
    return Session(*row)
