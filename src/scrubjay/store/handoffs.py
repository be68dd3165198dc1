"""What agents have offered each other, and who has taken it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select

from scrubjay.errors import BadInput, NoSuchHandoff
from scrubjay.fleet import handoffs as rules
from scrubjay.fleet.handoffs import Handoff
from scrubjay.fleet.parties import Party
from scrubjay.fleet.waits import Offered, Refused, Taken, Wait
from scrubjay.ids import last_id
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.happenings import happen, notify
from scrubjay.store.parties import name_of, pod_of
from scrubjay.tape.record import Json

_TABLE, _HANDOFF = schema.handoff, schema.handoff.c
_FACTS = Facts(_TABLE, "id")
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_HANDOFF.id, _HANDOFF.offered_by, _HANDOFF.note, _HANDOFF.recipient, _HANDOFF.key, _HANDOFF.files),
    *(_HANDOFF.revision, _HANDOFF.state, _HANDOFF.takers, _HANDOFF.offered_us, _HANDOFF.since_us, _HANDOFF.until_us),
    _HANDOFF.session,
)
_OPEN = _HANDOFF.until_event.is_(None)
_ALL = TimedQuery(
    lambda moment: select(*_COLUMNS).where(holds(_TABLE, moment)).order_by(_HANDOFF.offered_us, _HANDOFF.id)
)
_ONE = select(*_COLUMNS).where(_HANDOFF.id == bindparam("of"), _OPEN)
_BEGINNING = select(*_COLUMNS).where(_HANDOFF.id.between(bindparam("of"), bindparam("last")), _OPEN).limit(2)
_KEYED = (
    select(*_COLUMNS)
    .where(_HANDOFF.key == bindparam("of"), _OPEN, _HANDOFF.state.in_(["offered", "accepted"]))
    .order_by(_HANDOFF.offered_us.desc(), _HANDOFF.since_event.desc())
)


def offer_handoff(connection: Connection, handoff: Handoff, *, wall_us: int) -> tuple[Handoff, list[Wait]]:
    """Offer something; returns it as it is then, and the waits that end with it.

    Whoever waits for its key has asked for it, and takes it thereby. BadInput if it is for whoever offers it. The event
    is ``handoff.offered``.
    """
    if handoff.recipient == handoff.offered_by:
        raise BadInput("nobody hands over to itself", hint="name another pod")
    offered = _keep(connection, "handoff.offered", handoff, by=handoff.offered_by, wall_us=wall_us)
    if offered.recipient is not None:
        who = name_of(connection, offered.offered_by)
        named = f" {offered.key}" if offered.key is not None else ""
        text = f"{who} hands{named} over to you: {offered.note} Take it with accept_handoff(handoff={offered.id!r})."
        notify(connection, offered.recipient, text, about={"handoff": offered.id}, wall_us=wall_us)
    happened = Offered(offered.offered_by, offered.id, offered.key, offered.recipient)
    met = happen(connection, happened, wall_us=wall_us)
    for wait in met:
        if wait.kind == "artifact" and wait.outcome == "met":
            offered = _take(connection, offered, wait.waiter, wall_us=wall_us)
    return offered, met


def accept_handoff(connection: Connection, handoff: Handoff, taker: Party, *, wall_us: int) -> Handoff:
    """Take what is offered; as it is if that was done. The event is ``handoff.accepted``."""
    taken = _take(connection, handoff, taker, wall_us=wall_us)
    happen(connection, Taken(taker, handoff.id), wall_us=wall_us)
    happened = Offered(handoff.offered_by, handoff.id, handoff.key, taker)
    happen(connection, happened, wall_us=wall_us)
    return taken


def decline_handoff(connection: Connection, handoff: Handoff, by: Party, *, wall_us: int) -> Handoff:
    """Do not take what was offered to one recipient. The event is ``handoff.declined``."""
    declined = rules.decline(get_handoff(connection, handoff.id))
    kept = _keep(connection, "handoff.declined", declined, by=by, wall_us=wall_us)
    happen(connection, Refused(by, handoff.id, "it was declined"), wall_us=wall_us)
    return kept


def withdraw_handoff(connection: Connection, handoff: Handoff, *, wall_us: int) -> Handoff:
    """Offer it no longer. The event is ``handoff.withdrawn``."""
    withdrawn = rules.withdraw(get_handoff(connection, handoff.id))
    kept = _keep(connection, "handoff.withdrawn", withdrawn, by=handoff.offered_by, wall_us=wall_us)
    happen(connection, Refused(handoff.offered_by, handoff.id, "it was withdrawn"), wall_us=wall_us)
    return kept


def get_handoff(connection: Connection, handoff: str) -> Handoff:
    """A handoff by its id; NoSuchHandoff if there is none."""
    row = connection.execute(_ONE, {"of": handoff}).first()
    if row is None:
        raise NoSuchHandoff(handoff)
    return _read(row)


def find_handoffs(connection: Connection, raw: str) -> list[Handoff]:
    """Those whose id is that or begins so."""
    return [_read(row) for row in connection.execute(_BEGINNING, {"of": raw, "last": last_id(raw)})]


def artifact_for(connection: Connection, key: str, party: Party, *, of: Party | None = None) -> Handoff | None:
    """The newest handoff with a key that a party may take, of one other party if given."""
    for row in connection.execute(_KEYED, {"of": key}):
        handoff = _read(row)
        if handoff.is_for(party) and of in (None, handoff.offered_by):
            return handoff
    return None


def list_handoffs(connection: Connection, *, at_us: int | None = None) -> list[Handoff]:
    """All handoffs that there are, or were at an instant, oldest first."""
    return [replace(_read(row), until_us=None) for row in _ALL.run(connection, at_us)]


def _take(connection: Connection, handoff: Handoff, taker: Party, *, wall_us: int) -> Handoff:
    current = get_handoff(connection, handoff.id)
    taken = rules.accept(current, taker)
    return current if taken == current else _keep(connection, "handoff.accepted", taken, by=taker, wall_us=wall_us)


def _keep(connection: Connection, kind: str, handoff: Handoff, *, by: Party, wall_us: int) -> Handoff:
    data: Json = {
        "handoff": handoff.id,
        "offered_by": handoff.offered_by,
        "offered_by_name": name_of(connection, handoff.offered_by),
        "recipient": handoff.recipient,
        "key": handoff.key,
        "session": handoff.session,
        "by": by,
        "by_name": name_of(connection, by),
        "state": handoff.state,
    }
    told: Json = {name: value for name, value in data.items() if value is not None}
    event = append_event(connection, kind, wall_us=wall_us, pod=pod_of(connection, handoff.offered_by), data=told)
    offered_us = handoff.offered_us or event.wall_us
    _FACTS.close(connection, event, handoff.id)
    row: Json = {
        "id": handoff.id,
        "offered_by": handoff.offered_by,
        "recipient": handoff.recipient,
        "key": handoff.key,
        "note": handoff.note,
        "files": list(handoff.files),
        "revision": handoff.commit,
        "state": handoff.state,
        "takers": list(handoff.takers),
        "offered_us": offered_us,
        "session": handoff.session,
    }
    _FACTS.open(connection, event, row)
    return replace(handoff, offered_us=offered_us, since_us=event.wall_us)


def _read(row: Row[*tuple[Any, ...]]) -> Handoff:
    id_, offered_by, note, recipient, key, files, revision, state, takers, *times = row
    return Handoff(id_, offered_by, note, recipient, key, tuple(files), revision, state, tuple(takers), *times)
