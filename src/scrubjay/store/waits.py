"""Who waits for what, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, or_, select, update

from scrubjay.errors import BadInput
from scrubjay.fleet.parties import Party, kind_of
from scrubjay.fleet.waits import (
    Answered,
    Archived,
    Attended,
    Ended,
    Finished,
    Happening,
    Offered,
    Outcome,
    Refused,
    Spoke,
    Stopped,
    Taken,
    Wait,
    WentOn,
    ending_of,
)
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.parties import end_of, name_of, pod_of
from scrubjay.tape.record import Json

_TABLE, _WAIT = schema.wait, schema.wait.c
_WAITS = Facts(_TABLE, "id")
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_WAIT.id, _WAIT.waiter, _WAIT.kind, _WAIT.source, _WAIT.key, _WAIT.on_party, _WAIT.reason, _WAIT.deadline_us),
    *(_WAIT.evidence, _WAIT.since_us, _WAIT.until_us, _WAIT.outcome, _WAIT.detail),
)
_OPEN = _WAIT.until_event.is_(None)
_ALL = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(_TABLE, moment)).order_by(_WAIT.since_event))
_ONE = select(*_COLUMNS).where(_WAIT.id == bindparam("of"))
_OPENED = select(*_COLUMNS).where(_OPEN).order_by(_WAIT.since_event)
_OF = _OPENED.where(_WAIT.waiter == bindparam("of"))
_RECENT = (
    select(*_COLUMNS)
    .where(_WAIT.until_us >= bindparam("after_us"))
    .order_by(_WAIT.until_event.desc())
    .limit(bindparam("most"))
)
_RESOLVE = update(_TABLE).where(_WAIT.id == bindparam("of")).values(outcome=bindparam("how"), detail=bindparam("why"))
_ON = _WAIT.on_party == bindparam("of")
_ABOUT_EITHER = _OPENED.where(or_(_WAIT.waiter == bindparam("of"), _ON))
_ABOUT_TARGET = _OPENED.where(_ON)
_HEARD = and_(_WAIT.kind == "channel", _WAIT.key == bindparam("channel_key"))
_ABOUT_SPEAKER = _OPENED.where(or_(_ON, _HEARD))
_ABOUT_PERSON_SPEAKING = _OPENED.where(or_(_ON, _HEARD, _WAIT.kind == "person"))
_ABOUT_CHANNEL = _OPENED.where(
    or_(
        and_(_WAIT.kind == "channel", _WAIT.key == bindparam("of")),
        and_(_WAIT.source.in_(["message", "inferred"]), _WAIT.key.startswith(bindparam("of"))),
    )
)
_ABOUT_OFFER = _OPENED.where(or_(_ON, and_(_WAIT.kind == "artifact", _WAIT.key == bindparam("artifact"))))
# What else has a key is not looked for by it alone.
_ABOUT_KEY = _OPENED.where(_WAIT.kind.in_(["pod", "binding"]), _WAIT.key == bindparam("of"))


def begin_wait(connection: Connection, wait: Wait, *, wall_us: int) -> Wait:
    """Let somebody wait; the one that is open already, if they wait for the same. The event is ``wait.began``.

    A wait for somebody whose last pod has ended has failed at once. BadInput if somebody would wait for itself.
    """
    if wait.waiter == wait.on:
        raise BadInput("nobody waits for itself", hint="name another pod")
    for other in waits_of(connection, wait.waiter):
        if _same(other, wait):
            return other
    data: Json = {
        "wait": wait.id,
        "waiter": wait.waiter,
        "waiter_name": name_of(connection, wait.waiter),
        "kind": wait.kind,
        "source": wait.source,
        "key": wait.key,
        "on": wait.on,
        "on_name": name_of(connection, wait.on) if wait.on is not None else None,
        "reason": wait.reason,
        "deadline_us": wait.deadline_us,
        "evidence": dict(wait.evidence) or None,
    }
    told: Json = {name: value for name, value in data.items() if value is not None}
    event = append_event(connection, "wait.began", wall_us=wall_us, pod=pod_of(connection, wait.waiter), data=told)
    _WAITS.open(
        connection,
        event,
        {
            "id": wait.id,
            "waiter": wait.waiter,
            "kind": wait.kind,
            "source": wait.source,
            "key": wait.key,
            "on_party": wait.on,
            "reason": wait.reason,
            "deadline_us": wait.deadline_us,
            "evidence": dict(wait.evidence),
        },
    )
    began = replace(wait, since_us=event.wall_us)
    end = end_of(connection, wait.on) if wait.on is not None else None
    ending = ending_of(began, Ended(wait.on, end)) if wait.on is not None and end is not None else None
    return began if ending is None else end_wait(connection, began, *ending, wall_us=wall_us)


def end_wait(connection: Connection, wait: Wait, outcome: Outcome, detail: str, *, wall_us: int) -> Wait:
    """Let an open wait be over; as it is if it was already. The event is ``wait.ended``."""
    current = get_wait(connection, wait.id)
    if current is None or current.outcome is not None:
        return current or wait
    data: Json = {"wait": wait.id, "waiter": wait.waiter, "on": wait.on, "outcome": outcome, "detail": detail}
    event = append_event(connection, "wait.ended", wall_us=wall_us, pod=pod_of(connection, wait.waiter), data=data)
    connection.execute(_RESOLVE, {"of": wait.id, "how": outcome, "why": detail})
    _WAITS.close(connection, event, wait.id)
    return replace(current, outcome=outcome, detail=detail, until_us=event.wall_us)


def waits_about(connection: Connection, happening: Happening) -> list[Wait]:
    """The open waits that a happening may end, oldest first."""
    match happening:
        case Stopped(party) | Ended(party):
            found = connection.execute(_ABOUT_EITHER, {"of": party})
        case WentOn(party) | Attended(party, _):
            found = connection.execute(_OF, {"of": party})
        case Finished(party):
            found = connection.execute(_ABOUT_TARGET, {"of": party})
        case Spoke(party, channel):
            about = _ABOUT_PERSON_SPEAKING if kind_of(party) == "person" else _ABOUT_SPEAKER
            found = connection.execute(about, {"of": party, "channel_key": channel})
        case Archived(channel):
            found = connection.execute(_ABOUT_CHANNEL, {"of": channel})
        case Offered(party, _, key):
            found = connection.execute(_ABOUT_OFFER, {"of": party, "artifact": key})
        case Taken(_, handoff) | Refused(_, handoff):
            found = connection.execute(_ABOUT_KEY, {"of": handoff})
        case Answered(binding):
            found = connection.execute(_ABOUT_KEY, {"of": binding})
    return [_read(row) for row in found]


def get_wait(connection: Connection, wait: str) -> Wait | None:
    """One wait, whatever became of it."""
    row = connection.execute(_ONE, {"of": wait}).first()
    return None if row is None else _read(row)


def waits_of(connection: Connection, waiter: Party) -> list[Wait]:
    """What somebody waits for now, oldest first."""
    return [_read(row) for row in connection.execute(_OF, {"of": waiter})]


def list_waits(connection: Connection, *, at_us: int | None = None) -> list[Wait]:
    """All waits that are open, or were at an instant, oldest first; what became of them is not told of the past."""
    found = [_read(row) for row in _ALL.run(connection, at_us)]
    return [replace(wait, outcome=None, detail=None, until_us=None) for wait in found]


def recent_waits(connection: Connection, *, after_us: int, limit: int) -> list[Wait]:
    """Waits that have ended since an instant, the latest first."""
    return [_read(row) for row in connection.execute(_RECENT, {"after_us": after_us, "most": limit})]


def _same(one: Wait, other: Wait) -> bool:
    same = (one.kind, one.source, one.key, one.on) == (other.kind, other.source, other.key, other.on)
    # Two pods of one session each have a terminal to ask in.
    return same and (one.source != "prompt" or one.evidence.get("pod") == other.evidence.get("pod"))


def _read(row: Row[*tuple[Any, ...]]) -> Wait:
    return Wait(*row)
