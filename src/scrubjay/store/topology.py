"""The whole fleet at one instant, in a fixed number of queries.

What is shown by the thousand is read as plain as it can be: by way of ``list_pods`` and others it takes five times as
long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from sqlalchemy import JSON, ColumnElement, Connection, Select, Text, func, select, type_coerce

from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import ALIVE, State, in_order
from scrubjay.fleet.messages import ChannelKind
from scrubjay.fleet.parties import Party
from scrubjay.fleet.process import OVER, Activity, Process
from scrubjay.fleet.waits import Kind, Source, is_late, target_of
from scrubjay.ids import PodId, RunnerId
from scrubjay.store import schema
from scrubjay.store.columns import AnyText, decode_json, decode_json_rows
from scrubjay.store.deadlocks import Deadlock, list_deadlocks
from scrubjay.store.facts import Moment, TimedQuery, holds, holds_of, last_event
from scrubjay.store.messages import Flow, message_flow
from scrubjay.store.runners import Runner, list_runners

_POD, _FACT, _STATUS, _MESSAGE = schema.pod.c, schema.pod_fact.c, schema.status.c, schema.message.c
_BINDING, _WAIT, _CHANNEL, _MEMBER = schema.binding.c, schema.wait.c, schema.channel.c, schema.channel_member.c
_CLOCK = select(schema.clock.c.number, schema.clock.c.wall_us).where(schema.clock.c.id == 1)
_NUMBER = select(func.coalesce(last_event(), 0))


class PodSight(NamedTuple):
    """A pod as one sees it from afar; a tuple, because a thousand of them are made at once."""

    id: PodId
    name: str
    party: Party  #: whom it acts for: its session
    runner: RunnerId
    agent: str | None
    branch: str | None
    created_us: int
    process: Process
    reason: str | None
    exit_status: int | None
    activity: Activity | None
    waiting_for: str | None
    problem: str | None  #: that its agent has stopped with
    since_us: int  #: of the status

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.process in OVER


class BindingSight(NamedTuple):
    """A binding that is alive."""

    id: str
    initiator: Party
    target: Party
    state: State
    granted: list[Scope]
    pending: list[Scope]
    reason: str | None
    since_us: int


class WaitSight(NamedTuple):
    """A wait that is open."""

    id: str
    waiter: Party
    kind: Kind
    source: Source
    key: str | None
    on: Party | None
    reason: str | None
    deadline_us: int | None
    since_us: int
    evidence: Mapping[str, object]
    until_us: None = None
    outcome: None = None

    def is_starving(self, wall_us: int, *, after_us: int) -> bool:
        """Whether it takes longer than it may."""
        return is_late(self.since_us, self.deadline_us, wall_us, after_us=after_us)

    @property
    def target(self) -> str:
        """Who or what it is for."""
        return target_of(self.on, self.kind, self.key)


class ChannelSight(NamedTuple):
    """A channel, and how much was said in it."""

    id: str
    name: str
    kind: ChannelKind
    purpose: str | None
    since_us: int
    messages: int
    last_us: int | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything there is, or was at an instant."""

    number: int  #: of the last change it includes
    at_us: int
    pods: list[PodSight]  #: oldest first
    runners: list[Runner]
    bindings: list[BindingSight]
    waits: list[WaitSight]  #: oldest first
    deadlocks: list[Deadlock]
    channels: list[ChannelSight]  #: without inboxes
    members: dict[str, list[Party]]  #: of these
    flows: list[Flow]  #: what was said lately


def read_fleet(connection: Connection, *, at_us: int | None, wall_us: int, flow_us: int) -> Fleet:
    """The fleet at an instant, or now, at ``wall_us``; with what was said in the last ``flow_us`` up to then."""
    if at_us is None:
        number, instant_us = connection.execute(_CLOCK).one()
        shown_us = max(wall_us, instant_us)  # a clock that was set back does not take back what has happened
    else:
        number, shown_us = connection.execute(_NUMBER, {"at_us": at_us}).scalar_one(), at_us
    return Fleet(
        number=number,
        at_us=shown_us,
        pods=[PodSight._make(row) for row in _PODS.run(connection, at_us).all()],
        runners=list_runners(connection, at_us=at_us),
        bindings=_bindings(connection, at_us),
        waits=_waits(connection, at_us),
        deadlocks=list_deadlocks(connection, at_us=at_us),
        channels=[ChannelSight._make(row) for row in _CHANNELS.run(connection, at_us).all()],
        members=_members(connection, at_us),
        flows=message_flow(connection, after_us=shown_us - flow_us, at_us=shown_us),
    )


def _bindings(connection: Connection, at_us: int | None) -> list[BindingSight]:
    return [
        BindingSight(id_, one, other, state, _scopes(granted), _scopes(pending), reason, since_us)
        for id_, one, other, state, granted, pending, reason, since_us in _BINDINGS.run(connection, at_us).all()
    ]


@cache  # there are four of them
def _scopes(text: str) -> list[Scope]:
    return in_order(frozenset(cast("list[Scope]", decode_json(text))))


def _waits(connection: Connection, at_us: int | None) -> list[WaitSight]:
    rows = _WAITS.run(connection, at_us).all()
    evidence = cast("list[dict[str, object]]", decode_json_rows(row[-1] for row in rows))
    return [WaitSight._make((*row[:-1], seen, None, None)) for row, seen in zip(rows, evidence, strict=True)]


def _members(connection: Connection, at_us: int | None) -> dict[str, list[Party]]:
    found: dict[str, list[Party]] = {}
    for channel, party in _MEMBERS.run(connection, at_us).all():
        found.setdefault(channel, []).append(Party(party))
    return found


def _plain(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column of any text that has nothing in it that was escaped: ids, and names that are parsed."""
    return type_coerce(column, Text)


def _pods(moment: Moment) -> Select[*tuple[Any, ...]]:
    problem = type_coerce(type_coerce(_STATUS.evidence, JSON)["problem"].as_string(), AnyText)
    joined = schema.pod.join(schema.pod_fact, holds_of(schema.pod_fact, _POD.id, moment))
    joined = joined.join(schema.status, holds_of(schema.status, _POD.id, moment))
    seen = select(
        *(_POD.id, _plain(_FACT.name), _POD.session, _plain(_POD.runner), _POD.agent, _FACT.branch, _POD.created_us),
        *(_STATUS.process, _STATUS.reason, _STATUS.exit_status, _STATUS.activity, _STATUS.waiting_for, problem),
        _STATUS.since_us,
    )
    return seen.select_from(joined).where(holds(schema.pod, moment)).order_by(_POD.created_us, _POD.id)


def _living(moment: Moment) -> Select[*tuple[Any, ...]]:
    seen = select(
        *(_BINDING.id, _BINDING.initiator, _BINDING.target, _BINDING.state),
        *(_BINDING.granted.cast(Text), _BINDING.pending.cast(Text), _BINDING.reason, _BINDING.since_us),
    )
    alive = _BINDING.state.in_(ALIVE)
    return seen.where(holds(schema.binding, moment), alive).order_by(_BINDING.since_event)


def _open_waits(moment: Moment) -> Select[*tuple[Any, ...]]:
    seen = select(
        *(_WAIT.id, _WAIT.waiter, _WAIT.kind, _WAIT.source, _WAIT.key, _WAIT.on_party, _WAIT.reason, _WAIT.deadline_us),
        *(_WAIT.since_us, _WAIT.evidence.cast(Text)),
    )
    return seen.where(holds(schema.wait, moment)).order_by(_WAIT.since_event)


def _named_channels(moment: Moment) -> Select[*tuple[Any, ...]]:
    last = select(_MESSAGE.seq).where(_MESSAGE.channel == _CHANNEL.id).order_by(_MESSAGE.event.desc()).limit(1)
    if moment == "then":
        last = last.where(_MESSAGE.event <= last_event())
    last_us = last.with_only_columns(_MESSAGE.wall_us)
    seen = select(
        *(_plain(_CHANNEL.id), _plain(_CHANNEL.name), _CHANNEL.kind, _CHANNEL.purpose, _CHANNEL.since_us),
        *(func.coalesce(last.scalar_subquery(), 0), last_us.scalar_subquery()),
    )
    return seen.where(holds(schema.channel, moment), _CHANNEL.kind != "inbox").order_by(_CHANNEL.name)


def _named_members(moment: Moment) -> Select[*tuple[Any, ...]]:
    there = schema.channel_member.join(schema.channel, _CHANNEL.id == _MEMBER.channel)
    seen = select(_plain(_MEMBER.channel), _MEMBER.party).select_from(there)
    return seen.where(holds(schema.channel_member, moment), _CHANNEL.kind != "inbox").order_by(_MEMBER.since_event)


_PODS, _BINDINGS, _WAITS = TimedQuery(_pods), TimedQuery(_living), TimedQuery(_open_waits)
_CHANNELS, _MEMBERS = TimedQuery(_named_channels), TimedQuery(_named_members)
