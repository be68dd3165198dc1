"""Opening, resuming, leaving and finishing sessions.

All that is decided about a session is decided in the transaction that writes it down. Who asks, and over which
connection, is in the context of the request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from scrubjay.errors import (
    AmbiguousSession,
    BadInput,
    LeaseHeld,
    NoSuchPod,
    NoSuchSession,
    NotInSession,
    ScrubjayError,
    SessionExpired,
)
from scrubjay.fleet.access import Principal
from scrubjay.fleet.parties import Party
from scrubjay.fleet.sessions import (
    Claim,
    Holder,
    Reason,
    Session,
    how_granted,
    is_session_id,
    judge,
    pod_holder,
    pod_of_holder,
    require_holding,
    warn,
)
from scrubjay.ids import PodId, RunnerId, SessionId
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.request_context import RequestContext, current_context
from scrubjay.server.sessions.heartbeats import Heartbeats
from scrubjay.settings import Settings
from scrubjay.store import sessions as store
from scrubjay.store.sessions import Attachment
from scrubjay.store.summary_jobs import cancel_pending

LOOK_EVERY_S = 2.0
_DAY_US = 24 * 3600 * 1_000_000
_ASKED_MAX = 100  # characters of an id that somebody asked for, and that is none

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Entered:
    """The session somebody is in, and what they must be told about how they came to be in it."""

    session: Session
    resumed: bool = True
    reason: Reason | None = None
    requested: str | None = None
    warning: str | None = None
    begun: bool = False  #: just now, because they were in none


class Sessions:
    """The sessions of one server."""

    def __init__(self, reception: Reception, settings: Settings) -> None:
        self._reception = reception
        self.heartbeats = Heartbeats(reception.tower.clock, lease_us=settings.lease_s * 1_000_000)
        self._expire_us = settings.resume_within_days * _DAY_US
        self._starting: dict[PodId, int] = {}  # pods that are yet to come, and until when they are waited for

    async def run(self) -> None:
        """Let those who were not heard of for too long hold nothing, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for runner in self._reception.tower.peers:
                self.heartbeats.hear(_machine(runner))
            try:
                await self._look()
            except ScrubjayError as error:
                log.warning("leases.not_looked_after", error=str(error))

    async def _look(self) -> None:
        tower = self._reception.tower
        held = await tower.database.read(store.held_sessions)
        lapsed = [session for session in held if self.has_lapsed(session)]
        if lapsed:
            await tower.database.write(partial(self._suspend_lapsed, lapsed=lapsed))

    def _suspend_lapsed(self, connection: Connection, lapsed: list[Session]) -> None:
        for before in lapsed:
            session = store.get_session(connection, before.id)
            if session.state == "open" and session.epoch == before.epoch and self.has_lapsed(session):
                why = "its machine is away" if pod_of_holder(session.holder) is not None else "it was not heard of"
                store.suspend(connection, session, why=why, wall_us=self._reception.wall_us)

    # What is known of holders.

    def has_lapsed(self, session: Session) -> bool:
        """Whether whoever holds a session is gone, or was not heard of for too long."""
        holder = session.holder
        if holder is None:
            return True
        pod = pod_of_holder(holder)
        return self.heartbeats.lapsed(holder) if pod is None else self._is_gone(pod)

    def expect(self, pod: PodId, *, within_s: float) -> None:
        """A pod is being started that a session is granted to: it is there until it is not any more."""
        now_us = self._reception.tower.clock.monotonic_us()
        self._starting = {other: until_us for other, until_us in self._starting.items() if until_us > now_us}
        self._starting[pod] = now_us + round(within_s * 1e6)

    def give_up(self, pod: PodId) -> None:
        """A pod that was expected does not come, or is there."""
        self._starting.pop(pod, None)

    def _is_gone(self, pod: PodId) -> bool:
        known = self._reception.tower.pods.get(pod)
        if known is None:
            return self._starting.get(pod, 0) <= self._reception.tower.clock.monotonic_us()
        if known.over:
            return True
        away = known.runner not in self._reception.tower.peers
        return away and self.heartbeats.lapsed(_machine(known.runner))

    def free_in_s(self, session: Session) -> int | None:
        """In how many seconds a session is free if nothing is heard of its holder; None while its pod lives."""
        if session.holder is None or pod_of_holder(session.holder) is not None:
            return None
        return max(0, -(-self.heartbeats.left_us(session.holder) // 1_000_000))

    def expires_us(self, session: Session) -> int | None:
        """When a session that nobody holds cannot be resumed any more without saying so."""
        last_us = max(session.used_us, session.since_us)
        return last_us + self._expire_us if session.state == "suspended" else None

    def claim(self, session: Session, holder: Holder, *, takeover: bool = False, reopen: bool = False) -> Claim:
        """What somebody wants, with what is known of the one who has it."""
        expires_us = self.expires_us(session)
        expired = expires_us is not None and expires_us <= self._reception.wall_us
        return Claim(holder, takeover=takeover, reopen=reopen, lapsed=self.has_lapsed(session), expired=expired)

    def why_not(self, session: Session) -> Reason | None:
        """Why a session could not be resumed by whoever asks at this moment."""
        return judge(session, self.claim(session, current_context().holder))

    def owns(self, actor: Actor, session: Session) -> bool:
        """Whether a session is somebody's own; people look after all of them."""
        return actor.is_person or session.owner == actor.party

    # Finding one.

    def find(self, connection: Connection, actor: Actor, raw: str) -> Session:
        """A session of somebody's own; NoSuchSession for another's, as for one that does not exist.

        People may give the beginning of an id, or a pod.
        """
        found = store.find_session(connection, raw)
        if found is None and actor.is_person and raw:
            found = self._meant(connection, raw)
        if found is None or not self.owns(actor, found):
            raise NoSuchSession(raw)
        return found

    def _meant(self, connection: Connection, raw: str) -> Session | None:
        """The session of the pod of that name, the only one that begins so, or that of a pod that does."""
        pods = self._reception.tower.pods.values()
        beginning = store.find_sessions(connection, raw)
        named = any(raw in (known.report.name, known.report.id) for known in pods)
        if not named and beginning:
            if len(beginning) > 1:
                raise AmbiguousSession(raw)
            return beginning[0]
        try:
            return store.find_session(connection, self._reception.tower.find(raw).report.session)
        except NoSuchPod:
            return None

    def enter(self, connection: Connection, actor: Actor, handle: str | None, *, begin: bool = True) -> Entered:
        """The session that a request is about, by the first of: an argument, ``_meta``, the connection's own
        parameter, what the connection is in, the pod's own; else a new one. In a transaction that writes.

        NotInSession if none is to begin. NoSuchSession if an argument or ``_meta`` names another's. A connection's
        parameter that is refused leads to a new session and a warning, once: it is the same with each later request.
        """
        context = current_context()
        if handle is not None or context.handle is not None:
            return Entered(self.find(connection, actor, str(handle if handle is not None else context.handle)))
        attached = store.attached(connection, context.holder)
        asked = context.session
        if asked is not None and (attached is None or asked != attached.parameter):
            return self.resume_in(connection, actor, asked, takeover=context.takeover)
        if attached is not None:
            session = store.get_session(connection, attached.session)
            if self.owns(actor, session):
                told = attached.requested, attached.warning
                return Entered(session, attached.warning is None, attached.reason, *told)
            return self.resume_in(connection, actor, session.id)  # it was handed over, and is somebody else's
        own = store.find_session(connection, actor.party) if actor.pod is not None else None
        if own is not None:
            return Entered(own) if self.owns(actor, own) else self.resume_in(connection, actor, own.id)
        if not begin:
            raise NotInSession
        return Entered(self.open_in(connection, actor), begun=True)

    def require_named(self, actor: Actor, session: str | None) -> None:
        """BadInput if a person does not say which session: they are in none."""
        if session is None and actor.is_person:
            raise BadInput("say which session", hint="'scrubjay sessions' lists them")

    def hold(self, connection: Connection, actor: Actor, entered: Entered) -> Entered:
        """The same, held by whoever asks: one that nobody has is resumed. Fenced, SessionFinished, SessionExpired."""
        return replace(entered, session=self._hold(connection, actor, entered.session))

    def _hold(self, connection: Connection, actor: Actor, session: Session) -> Session:
        context, wall_us = current_context(), self._reception.wall_us
        holder = context.holder
        if session.holder == holder or session.state == "finished":
            require_holding(session, holder, context.epoch)
            if session.state == "open":
                return session
            cancel_pending(connection, session, wall_us=wall_us)
            return store.renew(connection, session, wall_us=wall_us)
        attached = store.attached(connection, holder)
        lost = attached is not None and attached.session == session.id  # to somebody in between
        if context.epoch is None and not lost:
            claim = self.claim(session, holder)
            reason = judge(session, claim)
            if reason is None:
                return self._grant(connection, actor, session, claim)
            if reason == "expired":
                raise SessionExpired(session.id)
        require_holding(session, holder, context.epoch)
        return session

    # Resuming.

    def open_in(self, connection: Connection, actor: Actor, *, instead_of: str | None = None) -> Session:
        """Begin a session for whoever asks, in a transaction that writes."""
        holder, wall_us = current_context().holder, self._reception.wall_us
        self._leave_former(connection, None)
        session = store.open_session(
            connection,
            owner=actor.party,
            holder=holder,
            held_by=actor.name,
            agent=None if actor.is_person else actor.name,
            origin={} if instead_of is None else {"instead_of": instead_of},
            wall_us=wall_us,
        )
        self._attach(connection, Attachment(session.id))
        return session

    def _attach(self, connection: Connection, to: Attachment) -> None:
        """Let this connection be in a session, whatever it is made with."""
        context, wall_us = current_context(), self._reception.wall_us
        store.attach(connection, context.holder, replace(to, parameter=context.session), wall_us=wall_us)

    def resume_in(
        self, connection: Connection, actor: Actor, raw: str, *, takeover: bool = False, reopen: bool = False
    ) -> Entered:
        """Let whoever asks have a session, or say why not and begin another, in a transaction that writes.

        One that does not exist and another's are the same.
        """
        context = current_context()
        if not is_session_id(raw):
            return self._refuse(connection, actor, raw, "malformed")
        session = store.find_session(connection, raw)
        if session is None or not self.owns(actor, session):
            return self._refuse(connection, actor, raw, "not_found")
        claim = self.claim(session, context.holder, takeover=takeover, reopen=reopen)
        reason = judge(session, claim)
        if reason is not None:
            return self._refuse(connection, actor, raw, reason, session)
        pod = pod_of_holder(session.holder)
        if session.state == "open" and pod is not None and session.holder == context.holder:
            return self._entered(connection, session)  # a pod has its own as long as it lives
        return self._entered(connection, self._grant(connection, actor, session, claim))

    async def come_back(self, principal: Principal, raw: str) -> None:
        """Resume a session for a connection that asks for it as it is made; it hears later what came of it."""
        try:
            actor = self._reception.actor(principal)
            actor.require_changing()
            await self._reception.tower.database.write(lambda connection: self.resume_in(connection, actor, raw))
        except ScrubjayError as error:  # a disk that is full, a pod that is gone: the connection itself is good
            log.warning("session.not_resumed", principal=principal.id, error=str(error))

    def _entered(self, connection: Connection, session: Session) -> Entered:
        self._leave_former(connection, session.id)
        self._attach(connection, Attachment(session.id))
        return Entered(session, requested=session.id)

    def _grant(self, connection: Connection, actor: Actor, session: Session, claim: Claim) -> Session:
        wall_us = self._reception.wall_us
        cancel_pending(connection, session, wall_us=wall_us)
        return store.grant(
            connection,
            session,
            claim.holder,
            held_by=actor.name,
            how=how_granted(session, claim),
            wall_us=wall_us,
        )

    def _refuse(
        self, connection: Connection, actor: Actor, raw: str, reason: Reason, session: Session | None = None
    ) -> Entered:
        context, wall_us = current_context(), self._reception.wall_us
        instead = self._unused(connection, context, actor) or self.open_in(
            connection, actor, instead_of=raw[:_ASKED_MAX]
        )
        held_by = session.held_by if session is not None else None
        for_s = self.free_in_s(session) if session is not None and reason == "held" else None
        warning = warn(reason, raw, instead.id, held_by=held_by, for_s=for_s)
        store.note_refusal(
            connection,
            raw,
            reason,
            by=actor.name,
            principal=actor.principal.id,
            instead=instead.id,
            wall_us=wall_us,
        )
        self._attach(connection, Attachment(instead.id, None, raw, reason, warning))
        return Entered(instead, resumed=False, reason=reason, requested=raw, warning=warning)

    def _unused(self, connection: Connection, context: RequestContext, actor: Actor) -> Session | None:
        """The empty session that a connection was given when it was refused another: one is enough."""
        attached = store.attached(connection, context.holder)
        if attached is None or attached.warning is None:
            return None
        session = store.get_session(connection, attached.session)
        unused = session.last_seq == 0 and session.state == "open" and session.holder == context.holder
        return session if unused and self.owns(actor, session) else None

    def hand_over_in(self, connection: Connection, actor: Actor, taker: Party, session: SessionId) -> Session:
        """Let whoever takes a session by plan own it and have it: themselves, or the pod that acts for them."""
        found, wall_us = store.get_session(connection, session), self._reception.wall_us
        holder, held_by = current_context().holder, actor.name
        if taker != actor.party:
            directory = self._reception.directory()
            pod = directory.pod(taker)
            holder = Holder(f"party:{taker}:") if pod is None else pod_holder(pod)
            held_by = directory.name(taker)
        cancel_pending(connection, found, wall_us=wall_us)
        granted = store.grant(
            connection, found, holder, held_by=held_by, how="handed_over", owner=taker, wall_us=wall_us
        )
        parameter = current_context().session if taker == actor.party else None
        store.attach(connection, holder, Attachment(session, parameter), wall_us=wall_us)
        return granted

    # Letting go.

    def _leave_former(self, connection: Connection, entered: SessionId | None) -> None:
        """A connection is in one session; a pod has its own besides."""
        holder = current_context().holder
        attached = store.attached(connection, holder)
        if attached is None or attached.session == entered or pod_of_holder(holder) is not None:
            return
        former = store.get_session(connection, attached.session)
        if former.state == "open" and former.holder == holder:
            store.suspend(connection, former, why="it was left for another", wall_us=self._reception.wall_us)

    async def leave(self, context: RequestContext) -> None:
        """A connection says that it ends: what it holds is free."""
        holder, wall_us = context.holder, self._reception.wall_us

        def body(connection: Connection) -> None:
            for session in store.held_sessions(connection):
                if session.holder == holder:
                    store.suspend(connection, session, why="it was left", wall_us=wall_us)
            store.detach(connection, holder)

        await self._reception.tower.database.write(body)

    def let_go_in(self, connection: Connection, actor: Actor, session: Session) -> Session:
        """Let nobody hold a session of one's own; LeaseHeld if somebody else does."""
        self.require_mine(actor, session)
        if session.state != "open":
            return session
        mine = session.holder == current_context().holder
        if pod_of_holder(session.holder) is not None and not mine and not self.has_lapsed(session):
            name = session.held_by or "its pod"
            raise LeaseHeld(session.id, name, hint=f"a pod has its session as long as it runs: scrubjay stop {name}")
        return store.suspend(
            connection, session, why=f"{actor.name} let it go", for_good=not mine, wall_us=self._reception.wall_us
        )

    def finish_in(self, connection: Connection, actor: Actor, session: Session, why: str | None) -> Session:
        """Say that a session of one's own has come to its end; LeaseHeld if somebody else has it."""
        self.require_mine(actor, session)
        if session.state == "finished":
            return session
        return store.finish(connection, session, by=actor.name, why=why, wall_us=self._reception.wall_us)

    def require_mine(self, actor: Actor, session: Session) -> None:
        """LeaseHeld if somebody else has a session."""
        mine = session.holder == current_context().holder or actor.is_person
        if session.state == "open" and not mine and not self.has_lapsed(session):
            raise held_error(session, self.free_in_s(session), self._reception.wall_us)


def held_error(session: Session, free_in_s: int | None, wall_us: int) -> LeaseHeld:
    """What somebody is told who wants a session that another has."""
    until_us = None if free_in_s is None else wall_us + free_in_s * 1_000_000
    return LeaseHeld(session.id, session.held_by or "somebody else", until_us)


def _machine(runner: RunnerId | str) -> str:
    return f"runner:{runner}"
