"""Agents in pods that do something to each other, one microsecond after the other."""

from __future__ import annotations

from sqlalchemy import Connection

from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import Binding
from scrubjay.fleet.handoffs import Handoff
from scrubjay.fleet.messages import Channel, Delivery, Message
from scrubjay.fleet.parties import Party, session_party
from scrubjay.fleet.process import Activity, Process
from scrubjay.fleet.waits import Kind, Wait
from scrubjay.ids import PodId, new_record_id
from scrubjay.store.bindings import request_binding
from scrubjay.store.channels import create_channel, join_channel
from scrubjay.store.events import last_number, read_events
from scrubjay.store.handoffs import offer_handoff
from scrubjay.store.happenings import follow_status, say
from scrubjay.store.messages import inbox_of
from scrubjay.store.pods import add_pod, get_pod, remove_pod
from scrubjay.store.retiring import retire_pod
from scrubjay.store.status import Status, set_status
from scrubjay.store.waits import begin_wait, get_wait, waits_of
from scrubjay.tape.record import Json
from tests.store.catalogs import pod_facts, session_id

READ: frozenset[Scope] = frozenset({"terminal:read"})
WRITE: frozenset[Scope] = frozenset({"terminal:write"})


class Crew:
    """Pods of sessions of their own, in one catalog, and a clock."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.now_us = 1_000
        self._pods: dict[Party, list[PodId]] = {}
        self._made = 0

    # Agents.

    def hire(self, name: str, *, again: Party | None = None) -> Party:
        """Start a pod with a session of its own, or another pod of a party's."""
        self._made += 1
        session = session_id(self._made)
        party = again or session_party(session)
        facts = pod_facts(self._made, name=name, session=session if again is None else type(session)(again))
        add_pod(self.connection, facts, Status("running"), wall_us=self.tick())
        self._pods.setdefault(party, []).append(facts.id)
        return party

    def pod(self, party: Party, index: int = -1) -> PodId:
        """A pod of a party, the last one if not said otherwise."""
        return self._pods[party][index]

    def pods_of(self, party: Party) -> list[PodId]:
        """The pods a party has, those that have ended included."""
        return self._pods[party]

    def status(
        self,
        party: Party,
        activity: Activity | None = None,
        *,
        process: Process = "running",
        waiting_for: str | None = None,
        evidence: Json | None = None,
        confidence: float = 0.9,
        index: int = -1,
        exit_status: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Take a status of a pod as the server does."""
        pod = self.pod(party, index)
        known = get_pod(self.connection, pod)
        assert known is not None
        after = Status(process, reason, exit_status, activity, waiting_for, evidence or {}, confidence)
        wall_us = self.tick()
        set_status(
            self.connection,
            pod,
            process=process,
            reason=reason,
            exit_status=exit_status,
            activity=activity,
            waiting_for=waiting_for,
            evidence=evidence,
            confidence=confidence,
            wall_us=wall_us,
        )
        follow_status(self.connection, pod, known[0].session, known[1], after, wall_us=wall_us)

    def work(self, party: Party) -> None:
        """An agent works."""
        self.status(party, "executing")

    def rest(self, party: Party) -> None:
        """An agent has stopped, at its prompt."""
        self.status(party, "idle")

    def exit(self, party: Party, *, index: int = -1) -> None:
        """An agent has exited with status 1."""
        self.status(party, process="exited", exit_status=1, index=index)

    def delete(self, party: Party, *, index: int = -1) -> None:
        """A pod is removed."""
        pod, wall_us = self._pods[party].pop(index), self.tick()
        assert remove_pod(self.connection, pod, wall_us=wall_us)
        retire_pod(self.connection, pod, wall_us=wall_us)

    # What they do to each other.

    def bind(self, one: Party, other: Party, scopes: frozenset[Scope] = READ, reason: str | None = None) -> Binding:
        """Ask for scopes."""
        return request_binding(
            self.connection, initiator=one, target=other, scopes=scopes, by="test", reason=reason, wall_us=self.tick()
        )

    def channel(self, name: str, *members: Party) -> Channel:
        """Make a channel with somebody in it."""
        made = create_channel(
            self.connection,
            new_record_id(),
            name,
            kind="open",
            purpose=None,
            by=Party("person:ada"),
            wall_us=self.tick(),
        )
        for party in members:
            join_channel(self.connection, made, party, wall_us=self.tick())
        return made

    def say(
        self,
        channel: Channel,
        who: Party,
        *to: Party,
        text: str = "so",
        asks: bool = False,
        reply_to: int | None = None,
        waits: bool = False,
    ) -> Message:
        """Say something."""
        return say(
            self.connection,
            channel,
            author=who,
            text=text,
            mentions=to,
            reply_to=reply_to,
            asks=asks,
            wait_for_answer=waits,
            wall_us=self.tick(),
        )

    def ask(self, channel: Channel, who: Party, *whom: Party) -> Message:
        """Ask somebody something."""
        return self.say(channel, who, *whom, text="which port?", asks=True)

    def wait(self, who: Party, kind: Kind, *, on: Party | None = None, key: str | None = None) -> Wait:
        """Wait, and say so."""
        wait = Wait(new_record_id(), who, kind, "declared", key=key, on=on, reason="need it")
        return begin_wait(self.connection, wait, wall_us=self.tick())

    def offer(self, who: Party, *, to: Party | None = None, key: str | None = None) -> tuple[Handoff, list[Wait]]:
        """Offer an output."""
        handoff = Handoff(new_record_id(), who, "here you are", recipient=to, key=key, files=("a.json",), commit="abc")
        return offer_handoff(self.connection, handoff, wall_us=self.tick())

    # What is seen of it.

    def waits(self, who: Party) -> list[tuple[str, str, str | None, Party | None]]:
        """What somebody waits for now: kind, source, key, on whom."""
        return [(wait.kind, wait.source, wait.key, wait.on) for wait in waits_of(self.connection, who)]

    def end(self, wait: Wait) -> tuple[str, str | None]:
        """What became of a wait, and why."""
        found = get_wait(self.connection, wait.id)
        assert found is not None
        return found.state, found.detail

    def only_wait(self, who: Party) -> Wait:
        """The one thing somebody waits for."""
        (wait,) = waits_of(self.connection, who)
        return wait

    def inbox(self, who: Party) -> list[str]:
        """The texts that are for somebody."""
        return [delivery.message.text for delivery in self.deliveries(who)]

    def deliveries(self, who: Party) -> list[Delivery]:
        """What is for somebody."""
        return inbox_of(self.connection, who, limit=1000)

    def events(self, after: int = 0) -> list[str]:
        """The kinds of events since a number."""
        return [event.kind for event in read_events(self.connection, after=after, limit=100_000)]

    @property
    def last(self) -> int:
        """The number of the last event."""
        return last_number(self.connection)

    def tick(self) -> int:
        """The next instant."""
        self.now_us += 1
        return self.now_us
