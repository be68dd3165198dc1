"""The numbered changes of the fleet.

Numbers are contiguous and in the order of commits. Instants never go back, whatever the clock on the wall does: each is
the later of the one before and the one given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, case, insert, select, update

from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.tape.record import Json

_GIVEN = bindparam("given_us", type_=schema.clock.c.wall_us.type)
_TICK = (
    update(schema.clock)
    .where(schema.clock.c.id == 1)
    .values(
        number=schema.clock.c.number + 1,
        wall_us=case((schema.clock.c.wall_us < _GIVEN, _GIVEN), else_=schema.clock.c.wall_us),
    )
    .returning(schema.clock.c.number, schema.clock.c.wall_us)
)
_INSERT = insert(schema.event)
_LAST = select(schema.clock.c.number).where(schema.clock.c.id == 1)


@dataclass(frozen=True, slots=True)
class Event:
    """One change of the fleet."""

    number: int
    wall_us: int
    kind: str  #: dotted, in the past tense: ``pod.started``
    pod: PodId | None
    data: Json


def append_event(
    connection: Connection, kind: str, *, wall_us: int, pod: PodId | None = None, data: Json | None = None
) -> Event:
    """Add the next event; only inside a write. Facts that change with it take its instant and number."""
    number, instant_us = connection.execute(_TICK, {"given_us": wall_us}).one()
    event = Event(number, instant_us, kind, pod, {} if data is None else data)
    connection.execute(_INSERT, {"number": number, "wall_us": instant_us, "kind": kind, "pod": pod, "data": event.data})
    return event


@cache
def _reading(*, of_pod: bool, until: bool) -> Select[*tuple[Any, ...]]:
    columns = schema.event.c
    query = select(columns.number, columns.wall_us, columns.kind, columns.pod, columns.data)
    query = query.where(columns.number > bindparam("after")).order_by(columns.number).limit(bindparam("most"))
    if of_pod:
        query = query.where(columns.pod == bindparam("of_pod"))
    if until:
        query = query.where(columns.wall_us <= bindparam("until_us"))
    return query


def read_events(
    connection: Connection,
    *,
    after: int = 0,
    limit: int = 1000,
    pod: PodId | None = None,
    until_us: int | None = None,
) -> list[Event]:
    """Events with a number above ``after`` in order, those at ``until_us`` included."""
    query = _reading(of_pod=pod is not None, until=until_us is not None)
    parameters: dict[str, object] = {"after": after, "most": limit}
    if pod is not None:
        parameters["of_pod"] = pod
    if until_us is not None:
        parameters["until_us"] = until_us
    return [Event(*row) for row in map(tuple, connection.execute(query, parameters))]


def last_number(connection: Connection) -> int:
    """The number of the latest event, 0 before the first."""
    return connection.execute(_LAST).scalar_one()
