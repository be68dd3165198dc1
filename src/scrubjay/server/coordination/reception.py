"""Where every request between agents is taken: who asks, whom they mean, and done once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from sqlalchemy import Connection

from scrubjay.errors import NoSuchPod, ScopeMissing
from scrubjay.fleet.access import Principal, Scope
from scrubjay.fleet.bindings import SCOPES
from scrubjay.fleet.parties import Party, agent_party, party_of, session_party
from scrubjay.fleet.process import OVER
from scrubjay.fleet.standing import Standing
from scrubjay.ids import PodId, SessionId
from scrubjay.server.coordination.actors import Actor, Directory, Resident, View
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.store.bindings import list_bindings
from scrubjay.store.channels import memberships
from scrubjay.store.events import Event
from scrubjay.store.parties import end_of, name_of
from scrubjay.store.pods import PodFacts, list_pods
from scrubjay.store.requests import remember, remembered
from scrubjay.store.status import Status
from scrubjay.store.tokens import agent_names
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PodReport

Body = Callable[[Connection], Json]

_ALL_SCOPES: frozenset[Scope] = frozenset(SCOPES)
_READING: frozenset[Scope] = frozenset({"terminal:read"})


class Reception:
    """What all that is done between agents has in common."""

    def __init__(self, tower: Tower) -> None:
        self.tower = tower
        self.standing = Standing()
        self._agents: dict[Party, str] = {}  #: outside pods, revoked ones included: they are named where they were
        self._shut_out: set[Party] = set()

    async def begin(self) -> None:
        """Take up what the catalog knows; from then on ``observe`` keeps up with it."""
        await self.tower.database.read(self._learn)
        self.tower.changes.listeners.append(self._observe)

    def _learn(self, connection: Connection) -> None:
        for binding in list_bindings(connection):
            self.standing.learn_binding(binding.initiator, binding.target, binding.state, binding.granted)
        for channel, parties in memberships(connection).items():
            for party in parties:
                self.standing.learn_member(channel, party)
        self._agents = {agent_party(token): name for token, name in agent_names(connection).items()}
        self._shut_out = {party for party in self._agents if end_of(connection, party) is not None}

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            self.standing.observe(event.kind, event.data)
            if event.kind == "token.created" and event.data.get("role") == "agent":
                self._agents[agent_party(str(event.data["token"]))] = str(event.data["name"])
            elif event.kind == "token.revoked":
                self._shut_out.add(agent_party(str(event.data["token"])))

    # Who is who.

    def actor(self, principal: Principal) -> Actor:
        """Who somebody is when they coordinate; NoSuchPod for the agent of a pod that is not there."""
        if principal.role != "pod":
            return Actor(principal, party_of(principal, None), principal.name)
        known = self.tower.pods.get(principal.pod) if principal.pod is not None else None
        if known is None:
            raise NoSuchPod(principal.pod or principal.name)
        party = party_of(principal, SessionId(known.report.session))
        return Actor(principal, party, known.report.name, principal.pod)

    def directory(self) -> Directory:
        """Who is who now."""
        reports = (known.report for known in self.tower.pods.values())
        return Directory(map(_resident, reports), self._agents)

    async def directory_at(self, at_us: int | None) -> Directory:
        """Who was who at an instant."""
        if at_us is None:
            return self.directory()
        pods = await self.tower.database.read(partial(list_pods, at_us=at_us))
        return Directory((_resident_then(*pod) for pod in pods), self._agents)

    def directory_of(self, residents: Iterable[Resident]) -> Directory:
        """Who was who while these pods were there."""
        return Directory(residents, self._agents)

    def view(self, actor: Actor, directory: Directory | None = None) -> View:
        """What somebody may see of who is who."""
        known = None if actor.is_person else self.standing.acquaintances(actor.party)
        return View(directory or self.directory(), known)

    def remember(self, connection: Connection, view: View, parties: Iterable[Party]) -> View:
        """The same view, which also has the names of those parties whose pods are not there any more."""
        return view.remembering(
            {party: name_of(connection, party) for party in parties if view.directory.pod(party) is None}
        )

    def find(self, actor: Actor, raw: str) -> KnownPod:
        """The pod somebody means; NoSuchPod for one they do not know, as for one that does not exist."""
        if actor.is_person:
            return self.tower.find(raw)
        known = self.standing.acquaintances(actor.party)
        return self.tower.find(raw, lambda pod: session_party(pod.report.session) in known)

    def party(self, actor: Actor, raw: str) -> Party:
        """The party of the pod somebody means, or the agent outside pods of that name."""
        view = self.view(actor)
        living = self._agents.keys() - self._shut_out
        named = [party for party in living if self._agents[party] == raw and view.knows(party)]
        if len(named) == 1:
            return named[0]
        return session_party(self.find(actor, raw).report.session)

    def scopes(self, actor: Actor, known: KnownPod) -> frozenset[Scope]:
        """What somebody may do to a pod's terminal: people all their role allows, agents what they were granted."""
        if actor.is_person:
            return _ALL_SCOPES if actor.principal.role == "operator" else _READING
        party = session_party(known.report.session)
        granted = self.standing.scopes(actor.party, party)
        return granted | _READING if party == actor.party else granted

    def require(self, actor: Actor, known: KnownPod, scope: Scope) -> None:
        """ScopeMissing if somebody may not do that to a pod's terminal."""
        if scope not in self.scopes(actor, known):
            raise ScopeMissing(known.report.name, scope)

    # Changing something, once.

    async def change(self, actor: Actor, what: str, key: str | None, body: Body) -> Json:
        """Do something in a transaction; with a key, the same request of the same party is done once within a day."""
        actor.require_changing()
        whose = actor.principal.id if actor.is_person else actor.party  # two people may be called the same
        return await self.tower.database.write(partial(self._once, whose=whose, what=what, key=key, body=body))

    def _once(self, connection: Connection, *, whose: str, what: str, key: str | None, body: Body) -> Json:
        if key is None:
            return body(connection)
        named, wall_us = f"{what} {key}", self.tower.clock.wall_us()
        known = remembered(connection, whose, named, wall_us=wall_us)
        if known is not None:
            return known
        answer = body(connection)
        remember(connection, whose, named, answer, wall_us=wall_us)
        return answer

    @property
    def wall_us(self) -> int:
        """What the clock shows."""
        return self.tower.clock.wall_us()


def _resident(report: PodReport) -> Resident:
    over = report.process in OVER
    return Resident(PodId(report.id), report.name, session_party(report.session), report.created_us, over)


def _resident_then(facts: PodFacts, status: Status) -> Resident:
    over = status.process in OVER
    return Resident(facts.id, facts.name, session_party(facts.session), facts.created_us, over)
