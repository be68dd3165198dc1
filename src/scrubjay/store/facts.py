"""What holds from one event to another.

Instants never go back as the numbers of events grow, so the state of the fleet at an instant is its state after the
last event up to then; everything is looked up by that number. Statements are made once: making one takes SQLAlchemy
longer than SQLite takes to run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    ScalarSelect,
    Select,
    Table,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from scrubjay.store import schema
from scrubjay.store.events import Event

Moment = Literal["now", "then"]
"""When a query asks: now, or at the instant it is given as ``at_us``."""


class Facts:
    """The facts of one table, each about a subject: the values of some columns."""

    def __init__(self, table: Table, *subject: str) -> None:
        self._opening = insert(table)
        self._closing = (
            update(table)
            .where(*(table.c[name] == bindparam(f"of_{name}") for name in subject), table.c.until_event.is_(None))
            .values(until_us=bindparam("now_us"), until_event=bindparam("now_event"))
        )
        self._subject = [f"of_{name}" for name in subject]

    def open(self, connection: Connection, event: Event, values: Mapping[str, object]) -> None:
        """Let a fact begin with an event."""
        connection.execute(self._opening, {**values, "since_us": event.wall_us, "since_event": event.number})

    def close(self, connection: Connection, event: Event, *subject: object) -> None:
        """Let the open fact of a subject end with an event, if there is one."""
        which = dict(zip(self._subject, subject, strict=True))
        connection.execute(self._closing, {**which, "now_us": event.wall_us, "now_event": event.number})


class TimedQuery:
    """A query that can be asked now and of any instant."""

    def __init__(self, make: Callable[[Moment], Select[*tuple[Any, ...]]]) -> None:
        self._now, self._then = make("now"), make("then")

    def run(self, connection: Connection, at_us: int | None, **parameters: object) -> CursorResult[*tuple[Any, ...]]:
        """Ask, now or of an instant."""
        if at_us is None:
            return connection.execute(self._now, parameters)
        return connection.execute(self._then, {**parameters, "at_us": at_us})


def holds(table: Table, moment: Moment) -> ColumnElement[bool]:
    """Whether a fact is open, or was at the instant, all events of that instant included."""
    still_open = table.c.until_event.is_(None)
    if moment == "now":
        return still_open
    last = last_event()
    return and_(table.c.since_event <= last, or_(still_open, table.c.until_event > last))


def holds_of(table: Table, subject: ColumnElement[str], moment: Moment) -> ColumnElement[bool]:
    """Whether a fact is the one of its subject (its first column), which is known to have one then.

    As a join's condition this takes the same time however many facts a subject has had: ``holds`` would look at all
    that began before the instant.
    """
    of = table.c[0] == subject
    if moment == "now":
        return and_(of, table.c.until_event.is_(None))
    older = table.alias()
    newest = select(func.max(older.c.since_event)).where(older.c[0] == subject, older.c.since_event <= last_event())
    return and_(of, table.c.since_event == newest.scalar_subquery())


def last_event() -> ScalarSelect[int]:
    """The number of the last event up to the instant ``at_us``."""
    events = schema.event.c
    until = events.wall_us <= bindparam("at_us", type_=events.wall_us.type)
    newest_first = (events.wall_us.desc(), events.number.desc())
    return select(events.number).where(until).order_by(*newest_first).limit(1).scalar_subquery()
