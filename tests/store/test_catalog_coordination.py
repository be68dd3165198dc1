"""Whatever agents do to each other: every past instant reads as it was, and the events alone tell all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import ALIVE, Binding
from scrubjay.fleet.bindings import TRANSITIONS as BINDING_STEPS
from scrubjay.fleet.handoffs import TRANSITIONS as HANDOFF_STEPS
from scrubjay.fleet.handoffs import Handoff
from scrubjay.fleet.messages import TRANSITIONS as DELIVERY_STEPS
from scrubjay.fleet.messages import Channel
from scrubjay.fleet.parties import Party
from scrubjay.fleet.process import OVER
from scrubjay.fleet.standing import Standing
from scrubjay.fleet.waits import TRANSITIONS as WAIT_STEPS
from scrubjay.fleet.waits import Wait
from scrubjay.store import schema
from scrubjay.store.bindings import accept_binding, expire_bindings, list_bindings, reject_binding, unbind
from scrubjay.store.channels import join_channel, leave_channel, list_channels, memberships, own_inbox
from scrubjay.store.deadlocks import Deadlock, end_deadlock, found_deadlock, list_deadlocks
from scrubjay.store.events import Event, read_events
from scrubjay.store.handoffs import accept_handoff, decline_handoff, list_handoffs, withdraw_handoff
from scrubjay.store.messages import acknowledge, deliver
from scrubjay.store.parties import end_of
from scrubjay.store.pods import get_pod
from scrubjay.store.retiring import retire_channel
from scrubjay.store.waits import end_wait, list_waits
from tests.store.crew import READ, WRITE, Crew
from tests.support.tiers import sized

_NAMES = ("ann", "bob", "cat")
_SCOPES: tuple[frozenset[Scope], ...] = (READ, WRITE, READ | WRITE)
_KEYS = (None, "api.json", "db.json")
_FOR_GOOD_US = 25 * 3600 * 1_000_000  # everything that is pending expires


@dataclass(frozen=True, slots=True)
class _Do:
    """Something that one party does, to another or with one of several things."""

    what: str
    who: int
    whom: int
    which: int
    step_us: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """Everything that there is at an instant."""

    bindings: list[Binding]
    ended_too: list[Binding]
    waits: list[Wait]
    channels: list[Channel]
    members: dict[str, list[Party]]
    handoffs: list[Handoff]
    deadlocks: list[Deadlock]


def _look(connection: Connection, at_us: int | None = None) -> _Seen:
    return _Seen(
        list_bindings(connection, at_us=at_us),
        list_bindings(connection, at_us=at_us, ended=True),
        list_waits(connection, at_us=at_us),
        list_channels(connection, at_us=at_us),
        memberships(connection, at_us=at_us),
        list_handoffs(connection, at_us=at_us),
        list_deadlocks(connection, at_us=at_us),
    )


class _Fleet(Crew):
    """A few agents, to whom anything is done."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.parties = [self.hire(name) for name in _NAMES]
        self.resumed = set[Party]()
        self.channel("build", *self.parties)
        self.done: dict[str, Callable[[_Do, Party, Party], object]] = {
            "nothing": lambda _, __, ___: None,
            "bind": lambda did, who, whom: self.bind(who, whom, _SCOPES[did.which % 3]),
            "accept": self._accept,
            "reject": self._reject,
            "unbind": self._unbind,
            "expire": self._expire,
            "open": lambda did, who, whom: self.channel("build" if did.which % 2 else "other", who, whom),
            "join": self._join,
            "leave": self._leave,
            "archive": self._archive,
            "ask": self._ask,
            "tell": self._tell,
            "deliver": self._deliver,
            "acknowledge": self._acknowledge,
            "wait": self._wait,
            "cut": self._cut,
            "offer": self._offer,
            "take": self._take,
            "decline": self._decline,
            "work": lambda _, who, __: self.work(who),
            "rest": lambda _, who, __: self.rest(who),
            "doubt": lambda _, who, __: self.status(who, "idle", confidence=0.5),
            "prompt": self._prompt,
            "exit": lambda _, who, __: self.exit(who),
            "again": self._resume,
            "delete": lambda _, who, __: self.delete(who),
            "deadlock": self._deadlock,
            "open up": self._open_up,
        }

    def do(self, did: _Do) -> bool:
        """Do it; False if that cannot be done now."""
        who, whom = self.parties[did.who], self.parties[did.whom]
        self.now_us = max(1, self.now_us + did.step_us)
        gone = end_of(self.connection, who) is not None
        if gone and did.what != "again" and not (did.what == "delete" and self.pods_of(who)):
            return False
        try:
            self.done[did.what](did, who, whom)
        except ScrubjayError:
            return False
        return True

    def tick(self) -> int:
        return self.now_us  # many things happen at the same instant here

    def _binding(self, which: int) -> Binding:
        return _nth(list_bindings(self.connection, ended=True), which)

    def _accept(self, did: _Do, who: Party, whom: Party) -> None:
        scopes = None if did.who else _SCOPES[did.whom]
        accept_binding(self.connection, self._binding(did.which), by="test", scopes=scopes, wall_us=self.now_us)

    def _reject(self, did: _Do, who: Party, whom: Party) -> None:
        reject_binding(self.connection, self._binding(did.which), by="test", answer="no", wall_us=self.now_us)

    def _unbind(self, did: _Do, who: Party, whom: Party) -> None:
        unbind(self.connection, self._binding(did.which), by="test", wall_us=self.now_us)

    def _expire(self, did: _Do, who: Party, whom: Party) -> None:
        self.now_us += _FOR_GOOD_US if did.which == 0 else 0
        expire_bindings(self.connection, wall_us=self.now_us)

    def _channel(self, which: int, *, inboxes: bool = False) -> Channel:
        found = [channel for channel in list_channels(self.connection) if inboxes or channel.kind != "inbox"]
        return _nth(found, which)

    def _join(self, did: _Do, who: Party, whom: Party) -> None:
        join_channel(self.connection, self._channel(did.which), who, wall_us=self.now_us)

    def _leave(self, did: _Do, who: Party, whom: Party) -> None:
        leave_channel(self.connection, self._channel(did.which), who, wall_us=self.now_us)

    def _archive(self, did: _Do, who: Party, whom: Party) -> None:
        retire_channel(self.connection, self._channel(did.which), by=who, wall_us=self.now_us)

    def _ask(self, did: _Do, who: Party, whom: Party) -> None:
        channel = self._channel(did.which)
        self.say(channel, who, whom, asks=did.which % 2 == 0, waits=did.which % 3 == 0)

    def _tell(self, did: _Do, who: Party, whom: Party) -> None:
        channel = own_inbox(self.connection, whom, wall_us=self.now_us) if did.which % 2 else self._channel(did.which)
        self.say(channel, who, whom, reply_to=1 if did.which == 0 else None)

    def _deliver(self, did: _Do, who: Party, whom: Party) -> None:
        delivery = _nth(self.deliveries(who), did.which)
        deliver(self.connection, delivery, how="inbox", wall_us=self.now_us)
        assert not deliver(self.connection, delivery, how="inbox", wall_us=self.now_us)

    def _acknowledge(self, did: _Do, who: Party, whom: Party) -> None:
        delivery = _nth(self.deliveries(who), did.which)
        assert acknowledge(self.connection, delivery, wall_us=self.now_us)
        assert not acknowledge(self.connection, delivery, wall_us=self.now_us)
        assert not deliver(self.connection, delivery, how="inbox", wall_us=self.now_us)

    def _wait(self, did: _Do, who: Party, whom: Party) -> None:
        match did.which % 3:
            case 0:
                self.wait(who, "pod", on=whom)
            case 1:
                self.wait(who, "artifact", key="api.json", on=whom if did.which > 2 else None)
            case _:
                self.wait(who, "channel", key=self._channel(did.which).id)

    def _cut(self, did: _Do, who: Party, whom: Party) -> None:
        wait = _nth([wait for wait in list_waits(self.connection) if wait.source != "prompt"], did.which)
        end_wait(self.connection, wait, "cancelled", "ada cut it", wall_us=self.now_us)
        before = self.last
        assert end_wait(self.connection, wait, "met", "again", wall_us=self.now_us).outcome == "cancelled"
        assert self.last == before

    def _offer(self, did: _Do, who: Party, whom: Party) -> None:
        self.offer(who, to=whom if did.which % 2 else None, key=_KEYS[did.which % 3])

    def _handoff(self, which: int) -> Handoff:
        return _nth(list_handoffs(self.connection), which)

    def _take(self, did: _Do, who: Party, whom: Party) -> None:
        accept_handoff(self.connection, self._handoff(did.which), who, wall_us=self.now_us)

    def _decline(self, did: _Do, who: Party, whom: Party) -> None:
        handoff = self._handoff(did.which)
        if handoff.offered_by == who:
            withdraw_handoff(self.connection, handoff, wall_us=self.now_us)
        else:
            decline_handoff(self.connection, handoff, who, wall_us=self.now_us)

    def _prompt(self, did: _Do, who: Party, whom: Party) -> None:
        what = "person:permission" if did.which % 2 else "person:question"
        self.status(who, "waiting", waiting_for=what, evidence={"detail": str(did.which)})

    def _resume(self, did: _Do, who: Party, whom: Party) -> None:
        self.resumed.add(who)
        self.hire("again", again=who)

    def _deadlock(self, did: _Do, who: Party, whom: Party) -> None:
        waits = [wait for wait in list_waits(self.connection) if wait.on is not None][:2]
        wait = _nth(waits, 0)
        parties, ids = [each.waiter for each in waits], [each.id for each in waits]
        found_deadlock(
            self.connection, f"k{did.which % 2}", parties=parties, waits=ids, cut=wait.id, wall_us=self.now_us
        )

    def _open_up(self, did: _Do, who: Party, whom: Party) -> None:
        end_deadlock(self.connection, f"k{did.which % 2}", "one of its waits ended", wall_us=self.now_us)


_T = TypeVar("_T")


class _NothingThere(ScrubjayError):
    """There is none of what something should be done to."""


def _nth(things: list[_T], which: int) -> _T:
    if not things:
        raise _NothingThere("nothing")
    return things[which % len(things)]


@dataclass(slots=True)
class _Told:
    """The fleet as the events alone tell it, each of which is a step that may be."""

    bindings: dict[str, tuple[str, object, object]] = field(default_factory=dict[str, tuple[str, object, object]])
    waits: dict[str, str] = field(default_factory=dict[str, str])
    channels: set[str] = field(default_factory=set[str])
    members: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    messages: dict[str, int] = field(default_factory=dict[str, int])
    deliveries: dict[tuple[str, int, str], str] = field(default_factory=dict[tuple[str, int, str], str])
    handoffs: dict[str, str] = field(default_factory=dict[str, str])
    deadlocks: set[str] = field(default_factory=set[str])

    def take(self, event: Event) -> None:
        """Take the next event."""
        data = event.data
        match event.kind.split("."):
            case ["binding", past]:
                self._take_binding(_BINDING_ACTIONS[past], data)
            case ["wait", "began"]:
                assert str(data["wait"]) not in self.waits
                self.waits[str(data["wait"])] = "open"
            case ["wait", "ended"]:
                action = next(act for (_, act), state in WAIT_STEPS.items() if state == data["outcome"])
                self.waits[str(data["wait"])] = WAIT_STEPS[self.waits[str(data["wait"])], action]  # pyright: ignore[reportArgumentType]
            case ["channel", "created"]:
                assert data["channel"] not in self.channels
                self.channels.add(str(data["channel"]))
            case ["channel", "archived"]:
                self.channels.remove(str(data["channel"]))
                self.members = {member for member in self.members if member[0] != data["channel"]}
            case ["channel", "joined"]:
                assert (data["channel"], data["party"]) not in self.members
                self.members.add((str(data["channel"]), str(data["party"])))
            case ["channel", "left"]:
                self.members.remove((str(data["channel"]), str(data["party"])))
            case ["message", "posted"]:
                self._take_message(data)
            case ["message", past]:
                key = (str(data["channel"]), cast(int, data["seq"]), str(data["party"]))
                action = "deliver" if past == "delivered" else "acknowledge"
                assert DELIVERY_STEPS[self.deliveries[key], action] == past  # pyright: ignore[reportArgumentType]
                self.deliveries[key] = past
            case ["handoff", "offered"]:
                assert data["handoff"] not in self.handoffs
                self.handoffs[str(data["handoff"])] = str(data["state"])
            case ["handoff", past]:
                before, action = self.handoffs[str(data["handoff"])], _HANDOFF_ACTIONS[past]
                assert HANDOFF_STEPS[before, action] == data["state"]  # pyright: ignore[reportArgumentType]
                self.handoffs[str(data["handoff"])] = str(data["state"])
            case ["deadlock", "found"]:
                self.deadlocks.add(str(data["deadlock"]))
            case ["deadlock", "ended"]:
                self.deadlocks.remove(str(data["deadlock"]))
            case _:
                assert event.kind.startswith("pod."), event.kind

    def _take_binding(self, action: str, data: Mapping[str, object]) -> None:
        before = self.bindings.get(str(data["binding"]))
        state = before[0] if before is not None else None
        assert BINDING_STEPS[state, action] == data["state"]  # pyright: ignore[reportArgumentType]
        granted, pending = cast("list[str]", data["granted"]), cast("list[str]", data["pending"])
        if before is not None and action != "accept":
            assert set(granted) <= set(cast("list[str]", before[1]))
        self.bindings[str(data["binding"])] = (str(data["state"]), granted, pending)

    def _take_message(self, data: Mapping[str, object]) -> None:
        channel = str(data["channel"])
        assert channel in self.channels
        self.messages[channel] = self.messages.get(channel, 0) + 1
        assert data["seq"] == self.messages[channel]
        for party in cast("list[str]", data["mentions"]):
            self.deliveries[channel, self.messages[channel], party] = "queued"


_BINDING_ACTIONS = {
    "requested": "request",
    "accepted": "accept",
    "rejected": "reject",
    "unbound": "unbind",
    "expired": "expire",
}
_HANDOFF_ACTIONS = {"accepted": "accept", "declined": "decline", "withdrawn": "withdraw"}


_WHATS = [
    "nothing",  # which Hypothesis puts in the place of what does not matter
    *("bind", "bind", "bind", "accept", "accept", "reject", "unbind", "expire", "open", "join", "leave", "archive"),
    *("ask", "ask", "ask", "ask", "tell", "tell", "tell", "deliver", "deliver", "acknowledge", "acknowledge"),
    *("wait", "wait", "wait", "wait", "cut", "offer", "offer", "offer", "take", "take", "decline", "decline"),
    *("work", "work", "work", "rest", "rest", "rest", "rest", "doubt", "prompt", "prompt", "exit", "again", "delete"),
    *("deadlock", "open up"),
]
_dids = st.lists(
    st.builds(
        _Do,
        what=st.sampled_from(_WHATS),
        who=st.integers(0, len(_NAMES) - 1),
        whom=st.integers(0, len(_NAMES) - 1),
        which=st.integers(0, 5),
        step_us=st.sampled_from([0, 0, 1, 1, 2, -1, -7, 1000]),
    ),
    min_size=25,
    max_size=60,
)


@settings(max_examples=sized(15, 40, 3000), deadline=None)
@given(dids=_dids)
def test_every_instant_between_agents_reads_as_it_was(emptied: Connection, dids: list[_Do]) -> None:
    with emptied.begin() as transaction:
        fleet = _Fleet(emptied)
        seen = {fleet.now_us: _look(emptied)}
        for did in dids:
            before = fleet.last
            if not fleet.do(did):
                assert fleet.last == before, "what is refused changes nothing"
            if fleet.last > before:
                seen[read_events(emptied, after=fleet.last - 1)[0].wall_us] = _look(emptied)

        instants = sorted(seen)
        for then_us, at_us in pairwise(instants):
            assert _look(emptied, then_us) == _look(emptied, at_us - 1) == seen[then_us]
        assert _look(emptied) == _look(emptied, instants[-1]) == seen[instants[-1]]
        assert _look(emptied, instants[0] - 1) == _Seen([], [], [], [], {}, [], [])
        transaction.rollback()


@settings(max_examples=sized(15, 40, 3000), deadline=None)
@given(dids=_dids)
def test_the_events_tell_everything_once_and_in_steps_that_may_be(emptied: Connection, dids: list[_Do]) -> None:
    with emptied.begin() as transaction:
        fleet = _Fleet(emptied)
        told, standing, heard = _Told(), Standing(), 0
        for did in dids:
            fleet.do(did)
            for event in read_events(emptied, after=heard, limit=10_000):
                told.take(event)
                standing.observe(event.kind, event.data)
            heard = fleet.last
            _assert_told(emptied, told)
            _assert_stands(emptied, standing, fleet.parties)
            _assert_sound(fleet)
        transaction.rollback()


def _assert_told(connection: Connection, told: _Told) -> None:
    assert told.bindings == {
        binding.id: (binding.state, sorted(binding.granted), sorted(binding.pending))
        for binding in list_bindings(connection, ended=True)
    }
    rows = connection.execute(select(schema.wait.c.id, schema.wait.c.outcome)).all()
    assert told.waits == {row.id: row.outcome or "open" for row in rows}
    assert {wait for wait, state in told.waits.items() if state == "open"} == {
        wait.id for wait in list_waits(connection)
    }
    assert told.channels == {channel.id for channel in list_channels(connection)}
    members = memberships(connection)
    assert told.members == {(channel, party) for channel, parties in members.items() for party in parties}
    numbers = connection.execute(select(schema.message.c.channel, schema.message.c.seq)).all()
    for channel, count in told.messages.items():
        assert sorted(row.seq for row in numbers if row.channel == channel) == list(range(1, count + 1))
    found = schema.delivery.c
    deliveries = connection.execute(select(found.channel, found.seq, found.party, found.state)).all()
    assert told.deliveries == {(row.channel, row.seq, row.party): row.state for row in deliveries}
    assert told.handoffs == {handoff.id: handoff.state for handoff in list_handoffs(connection)}
    assert told.deadlocks == {deadlock.id for deadlock in list_deadlocks(connection)}


def _assert_stands(connection: Connection, observed: Standing, parties: list[Party]) -> None:
    learned = Standing()
    for binding in list_bindings(connection):
        learned.learn_binding(binding.initiator, binding.target, binding.state, binding.granted)
    for channel, members in memberships(connection).items():
        for member in members:
            learned.learn_member(channel, member)
    for party in parties:
        assert observed.acquaintances(party) == learned.acquaintances(party)
        for other in parties:
            assert observed.scopes(party, other) == learned.scopes(party, other)
            assert observed.knows(party, other) == learned.knows(party, other)
            assert observed.knows(party, other) == (other in observed.acquaintances(party))


def _assert_sound(fleet: _Fleet) -> None:
    """What holds whatever was done."""
    connection = fleet.connection
    alive = [(binding.initiator, binding.target) for binding in list_bindings(connection)]
    assert len(set(alive)) == len(alive)
    for binding in list_bindings(connection, ended=True):
        assert not binding.granted & binding.pending
        assert binding.state in ALIVE or not binding.granted | binding.pending
    waits = list_waits(connection)
    same = [(wait.waiter, wait.kind, wait.source, wait.key, wait.on) for wait in waits if wait.source != "prompt"]
    assert len(set(same)) == len(same)
    open_channels = {channel.id for channel in list_channels(connection)}
    for wait in waits:
        assert wait.on is None or end_of(connection, wait.on) is None, "nobody who is gone is waited for"
        # Not by end_of, which tells of the newest pod: an older one that has ended may be left to resume from.
        assert fleet.pods_of(wait.waiter), "nobody who will not come back waits"
        assert wait.kind != "channel" or wait.key in open_channels
        assert wait.waiter != wait.on
    for party in fleet.parties:
        known = [get_pod(connection, pod) for pod in fleet.pods_of(party)]
        asking = [facts.id for facts, status in filter(None, known) if status.waiting_for is not None]
        prompts = [str(wait.evidence["pod"]) for wait in waits if wait.waiter == party and wait.source == "prompt"]
        assert sorted(prompts) == sorted(asking)
        if party not in fleet.resumed and any(wait.waiter == party and wait.source == "inferred" for wait in waits):
            # Who has ended still waits: whoever resumes its session goes on with that.
            assert {status.activity for _, status in filter(None, known) if status.process not in OVER} <= {"idle"}
