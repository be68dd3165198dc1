"""Bindings between agents, now and at any instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, or_, select

from scrubjay.errors import NoSuchBinding
from scrubjay.fleet import bindings as rules
from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import ALIVE, Binding, in_order
from scrubjay.fleet.parties import Party
from scrubjay.fleet.waits import REASON_MAX, Answered, Wait
from scrubjay.ids import last_id, new_record_id
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.happenings import happen, notify
from scrubjay.store.parties import name_of, pod_of
from scrubjay.store.waits import begin_wait
from scrubjay.tape.record import Json

_TABLE, _BINDING = schema.binding, schema.binding.c
_FACTS = Facts(_TABLE, "id")
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_BINDING.id, _BINDING.initiator, _BINDING.target, _BINDING.state, _BINDING.granted, _BINDING.pending),
    *(_BINDING.decided_by, _BINDING.reason, _BINDING.answer, _BINDING.expires_us, _BINDING.since_us, _BINDING.until_us),
)
_OPEN = _BINDING.until_event.is_(None)
_ALIVE = _BINDING.state.in_(ALIVE)
_ALL = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(_TABLE, moment)).order_by(_BINDING.since_event))
_LIVING = TimedQuery(
    lambda moment: select(*_COLUMNS).where(holds(_TABLE, moment), _ALIVE).order_by(_BINDING.since_event)
)
_ONE = select(*_COLUMNS).where(_BINDING.id == bindparam("of"), _OPEN)
_BEGINNING = select(*_COLUMNS).where(_BINDING.id.between(bindparam("of"), bindparam("last")), _OPEN).limit(2)
_BETWEEN = select(*_COLUMNS).where(
    _BINDING.initiator == bindparam("one"), _BINDING.target == bindparam("other"), _ALIVE, _OPEN
)
_OF = select(*_COLUMNS).where(
    or_(_BINDING.initiator == bindparam("of"), _BINDING.target == bindparam("of")), _ALIVE, _OPEN
)
_OVERDUE = select(*_COLUMNS).where(_OPEN, _ALIVE, _BINDING.expires_us <= bindparam("now_us"))
_WORDS: Mapping[str, str] = {
    "terminal:read": "look at your terminal and its past",
    "terminal:write": "type into your terminal",
}


def request_binding(
    connection: Connection,
    *,
    initiator: Party,
    target: Party,
    scopes: frozenset[Scope],
    by: str,
    reason: str | None = None,
    wall_us: int,
) -> Binding:
    """Ask for scopes on somebody's terminal; as it is if they are granted or pending already.

    The initiator waits for what is pending, and the target is told of what is new. The event is ``binding.requested``.
    """
    current = binding_between(connection, initiator, target)
    wanted = rules.request(
        current,
        new_id=new_record_id(),
        initiator=initiator,
        target=target,
        scopes=scopes,
        by=by,
        reason=reason,
        wall_us=wall_us,
    )
    if wanted == current:
        if scopes & wanted.pending:  # its wait may have ended meanwhile
            begin_wait(connection, _awaiting(wanted), wall_us=wall_us)
        return wanted
    kept = _keep(connection, "binding.requested", wanted, wall_us=wall_us)
    begin_wait(connection, _awaiting(kept), wall_us=wall_us)
    asked = _list(kept.pending)
    may = " and ".join(_WORDS[scope] for scope in in_order(kept.pending))
    why = f" Why: {reason}" if reason else ""
    who = name_of(connection, initiator)
    text = f"{who} asks to {may} ({asked}).{why} Answer with answer_binding(binding={kept.id!r}, accept=true or false)."
    notify(connection, target, text, about={"binding": kept.id}, wall_us=wall_us)
    return kept


def accept_binding(
    connection: Connection, binding: Binding, *, by: str, scopes: frozenset[Scope] | None = None, wall_us: int
) -> Binding:
    """Grant what is pending, or some of it. The event is ``binding.accepted``."""
    accepted = rules.accept(get_binding(connection, binding.id), by=by, scopes=scopes)
    kept = _keep(connection, "binding.accepted", accepted, wall_us=wall_us)
    granted = _list(kept.granted)
    how = f"{by} granted {granted}"
    happen(connection, Answered(binding.id, granted=True, how=how), wall_us=wall_us)
    text = f"{name_of(connection, kept.target)}: {granted} is yours now."
    notify(connection, kept.initiator, text, about={"binding": kept.id}, wall_us=wall_us)
    return kept


def reject_binding(
    connection: Connection, binding: Binding, *, by: str, answer: str | None = None, wall_us: int
) -> Binding:
    """Refuse what is pending. The event is ``binding.rejected``."""
    current = get_binding(connection, binding.id)
    kept = _keep(connection, "binding.rejected", rules.reject(current, by=by, answer=answer), wall_us=wall_us)
    how = f"{by} refused" + (f": {answer}" if answer else "")
    happen(connection, Answered(binding.id, granted=False, how=how), wall_us=wall_us)
    text = f"{name_of(connection, kept.target)}: {_list(current.pending)} was refused" + (
        f": {answer}" if answer else "."
    )
    notify(connection, kept.initiator, text, about={"binding": kept.id}, wall_us=wall_us)
    return kept


def unbind(connection: Connection, binding: Binding, *, by: str, answer: str | None = None, wall_us: int) -> Binding:
    """End a binding; the initiator is told, unless it did so itself. The event is ``binding.unbound``."""
    current = get_binding(connection, binding.id)
    kept = _keep(connection, "binding.unbound", rules.unbind(current, by=by, answer=answer), wall_us=wall_us)
    happen(connection, Answered(binding.id, granted=False, how=f"{by} ended the binding"), wall_us=wall_us)
    if by != name_of(connection, kept.initiator):
        text = f"{name_of(connection, kept.target)}: {by} ended the binding" + (f": {answer}" if answer else ".")
        notify(connection, kept.initiator, text, about={"binding": kept.id}, wall_us=wall_us)
    return kept


def expire_bindings(connection: Connection, *, wall_us: int) -> list[Binding]:
    """Let what nobody has answered in time be pending no more; returns those bindings as they are now.

    The initiators are told. The event is ``binding.expired`` for each.
    """
    expired: list[Binding] = []
    for binding in [_read(row) for row in connection.execute(_OVERDUE, {"now_us": wall_us})]:
        kept = _keep(connection, "binding.expired", rules.expire(binding), wall_us=wall_us)
        happen(connection, Answered(kept.id, granted=False, how="nobody answered in time"), wall_us=wall_us)
        text = f"{name_of(connection, kept.target)}: nobody answered in time whether {_list(binding.pending)} is yours."
        notify(connection, kept.initiator, text, about={"binding": kept.id}, wall_us=wall_us)
        expired.append(kept)
    return expired


def get_binding(connection: Connection, binding: str) -> Binding:
    """A binding by its id; NoSuchBinding if there is none."""
    row = connection.execute(_ONE, {"of": binding}).first()
    if row is None:
        raise NoSuchBinding(binding)
    return _read(row)


def find_bindings(connection: Connection, raw: str) -> list[Binding]:
    """Those whose id is that or begins so."""
    rows = connection.execute(_BEGINNING, {"of": raw, "last": last_id(raw)})
    return [_read(row) for row in rows]


def binding_between(connection: Connection, initiator: Party, target: Party) -> Binding | None:
    """The binding of one party to another that is alive."""
    row = connection.execute(_BETWEEN, {"one": initiator, "other": target}).first()
    return None if row is None else _read(row)


def bindings_of(connection: Connection, party: Party) -> list[Binding]:
    """The bindings of a party that are alive, whichever side it is."""
    return [_read(row) for row in connection.execute(_OF, {"of": party})]


def list_bindings(connection: Connection, *, at_us: int | None = None, ended: bool = False) -> list[Binding]:
    """All bindings that are, or at an instant were, alive; with ``ended`` the others too."""
    return [replace(_read(row), until_us=None) for row in (_ALL if ended else _LIVING).run(connection, at_us)]


def _awaiting(binding: Binding) -> Wait:
    reason = f"{_list(binding.pending)} asked for" + (f": {binding.reason}" if binding.reason else "")
    return Wait(
        new_record_id(),
        binding.initiator,
        "binding",
        "binding",
        key=binding.id,
        on=binding.target,
        reason=reason[:REASON_MAX],
        evidence={"binding": binding.id},
    )


def _keep(connection: Connection, kind: str, binding: Binding, *, wall_us: int) -> Binding:
    granted, pending = in_order(binding.granted), in_order(binding.pending)
    data: Json = {
        "binding": binding.id,
        "initiator": binding.initiator,
        "initiator_name": name_of(connection, binding.initiator),
        "target": binding.target,
        "target_name": name_of(connection, binding.target),
        "state": binding.state,
        "granted": granted,
        "pending": pending,
        "by": binding.decided_by,
        "reason": binding.reason,
        "answer": binding.answer,
    }
    told: Json = {name: value for name, value in data.items() if value is not None}
    event = append_event(connection, kind, wall_us=wall_us, pod=pod_of(connection, binding.target), data=told)
    _FACTS.close(connection, event, binding.id)
    row: Json = {
        "id": binding.id,
        "initiator": binding.initiator,
        "target": binding.target,
        "state": binding.state,
        "granted": granted,
        "pending": pending,
        "reason": binding.reason,
        "answer": binding.answer,
        "decided_by": binding.decided_by,
        "expires_us": binding.expires_us,
    }
    _FACTS.open(connection, event, row)
    return get_binding(connection, binding.id)


def _list(scopes: frozenset[Scope]) -> str:
    return " and ".join(in_order(scopes))


def _read(row: Row[*tuple[Any, ...]]) -> Binding:
    id_, initiator, target, state, granted, pending, *rest = row
    return Binding(id_, initiator, target, state, frozenset(granted), frozenset(pending), *rest)
