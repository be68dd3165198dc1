"""Parties that waited for one another in a circle, and how that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select, update

from scrubjay.fleet.parties import Party
from scrubjay.ids import PodId, new_record_id
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.parties import name_of, pod_of
from scrubjay.store.waits import get_wait
from scrubjay.tape.record import Json

_TABLE, _DEADLOCK = schema.deadlock, schema.deadlock.c
_FACTS = Facts(_TABLE, "id")
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_DEADLOCK.id, _DEADLOCK.key, _DEADLOCK.parties, _DEADLOCK.waits, _DEADLOCK.cut),
    *(_DEADLOCK.since_us, _DEADLOCK.until_us, _DEADLOCK.outcome),
)
_ALL = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(_TABLE, moment)).order_by(_DEADLOCK.since_event))
_EVER = select(*_COLUMNS).order_by(_DEADLOCK.since_event.desc()).limit(bindparam("most"))
_STANDING = select(*_COLUMNS).where(_DEADLOCK.key == bindparam("of"), _DEADLOCK.until_event.is_(None))
_END = update(_TABLE).where(_DEADLOCK.id == bindparam("of")).values(outcome=bindparam("how"))


@dataclass(frozen=True, slots=True)
class Deadlock:
    """A circle of waits: each party waits for the next, and the last for the first."""

    id: str
    key: str  #: the same for the same waits
    parties: tuple[Party, ...]
    waits: tuple[str, ...]  #: the ids, in the same order
    cut: str  #: the wait that it costs least to cancel
    since_us: int
    until_us: int | None = None
    outcome: str | None = None


def found_deadlock(
    connection: Connection, key: str, *, parties: Sequence[Party], waits: Sequence[str], cut: str, wall_us: int
) -> Deadlock:
    """Keep a circle that stands; as it is if that was done. The event is ``deadlock.found``."""
    row = connection.execute(_STANDING, {"of": key}).first()
    if row is not None:
        return _read(row)
    id_ = new_record_id()
    data: Json = {
        "deadlock": id_,
        "parties": list(parties),
        "names": [name_of(connection, party) for party in parties],
        "edges": [_edge(connection, wait) for wait in waits],
        "cut": cut,
    }
    event = append_event(connection, "deadlock.found", wall_us=wall_us, pod=_pod(connection, parties), data=data)
    kept: Json = {"id": id_, "key": key, "parties": list(parties), "waits": list(waits), "cut": cut}
    _FACTS.open(connection, event, kept)
    return Deadlock(id_, key, tuple(parties), tuple(waits), cut, event.wall_us)


def end_deadlock(connection: Connection, key: str, outcome: str, *, wall_us: int) -> Deadlock | None:
    """Keep how a circle was opened; None if none stands. The event is ``deadlock.ended``."""
    row = connection.execute(_STANDING, {"of": key}).first()
    if row is None:
        return None
    deadlock = _read(row)
    names = [name_of(connection, party) for party in deadlock.parties]
    data: Json = {"deadlock": deadlock.id, "parties": list(deadlock.parties), "names": names, "outcome": outcome}
    pod = _pod(connection, deadlock.parties)
    event = append_event(connection, "deadlock.ended", wall_us=wall_us, pod=pod, data=data)
    connection.execute(_END, {"of": deadlock.id, "how": outcome})
    _FACTS.close(connection, event, deadlock.id)
    return replace(deadlock, until_us=event.wall_us, outcome=outcome)


def list_deadlocks(connection: Connection, *, at_us: int | None = None) -> list[Deadlock]:
    """The circles that stand, or stood at an instant, oldest first; how they ended is not told of the past."""
    found = [_read(row) for row in _ALL.run(connection, at_us)]
    return [replace(deadlock, until_us=None, outcome=None) for deadlock in found]


def past_deadlocks(connection: Connection, *, limit: int) -> list[Deadlock]:
    """All circles there ever were, the latest first."""
    return [_read(row) for row in connection.execute(_EVER, {"most": limit})]


def _pod(connection: Connection, parties: Sequence[Party]) -> PodId | None:
    """The first pod of those in a circle, for whoever is told of what happens to pods."""
    return next((pod for party in parties if (pod := pod_of(connection, party)) is not None), None)


def _edge(connection: Connection, wait: str) -> Json:
    found = get_wait(connection, wait)
    assert found is not None
    assert found.on is not None
    return {
        "wait": found.id,
        "waiter": found.waiter,
        "waiter_name": name_of(connection, found.waiter),
        "on": found.on,
        "on_name": name_of(connection, found.on),
        "reason": found.reason,
        "source": found.source,
        "since_us": found.since_us,
    }


def _read(row: Row[*tuple[Any, ...]]) -> Deadlock:
    id_, key, parties, waits, cut, *rest = row
    return Deadlock(id_, key, tuple(parties), tuple(waits), cut, *rest)
