"""Going on with a session in a new pod: one winner, and everything as before if it does not start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import structlog
from sqlalchemy import Connection

from scrubjay.errors import BadInput, CatalogUnavailable, NoSuchPod, ScrubjayError, SessionExpired, SessionFinished
from scrubjay.fleet.parties import session_party
from scrubjay.fleet.sessions import Reason, Session, how_granted, judge, pod_holder
from scrubjay.ids import PodId, new_pod_id
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.credentials import NewPass
from scrubjay.server.errors import RunnerRefused
from scrubjay.server.peer import CLONE_WITHIN_S, Peer
from scrubjay.server.sessions.sessions import Sessions, held_error
from scrubjay.server.tower import KnownPod, author_of
from scrubjay.store import sessions as store
from scrubjay.store.summary_jobs import cancel_pending
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PodReport, Resume

CLAIM_S = 120.0  # for whoever has claimed a session to start its pod
_CLAIMS_MAX = 1000

log = structlog.get_logger()


class Passes(Protocol):
    """Whoever lets the agent of a new pod come to the tools."""

    @property
    def mcp_url(self) -> str:
        """Where agents on the server's own machine find its tools."""
        ...

    async def offer_pass(self) -> NewPass | None:
        """The id and token of a pod that is about to be started; None if there can be none now."""
        ...

    async def withdraw_pass(self, pod: PodId) -> None:
        """End the pass of a pod that was not started."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """How somebody wants a session gone on with."""

    takeover: bool = False
    reopen: bool = False
    new_conversation: bool = False
    check: bool = False  #: only look
    prompt: str | None = None
    arguments: tuple[str, ...] | None = None
    runner: str | None = None
    name: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cols: int | None = None
    rows: int | None = None
    mcp: bool = True


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A session that is granted to a pod which is yet to be started."""

    pod: PodId
    token: str | None
    before: Session
    granted: Session


class PodResume:
    """Pods that come back."""

    def __init__(self, reception: Reception, sessions: Sessions) -> None:
        self._reception, self._sessions = reception, sessions
        self.passes: Passes | None = None  #: set by whoever opens the doors
        self._claims: dict[PodId, _Claimed] = {}

    async def resume(self, actor: Actor, raw: str, wanted: Wanted) -> Json:
        """Start a pod that goes on with a session, and return when its agent runs.

        ``raw`` is a session or a pod. LeaseHeld if somebody has it, SessionFinished, SessionExpired; whatever the
        runner finds in the way is a RunnerRefused. In each case the session is as it was, but for its epoch.
        """
        session, known = await self._find_all(actor, raw)
        tower = self._reception.tower
        peer = tower.choose_runner(wanted.runner) if wanted.runner is not None else tower.peer_of(known)
        request = self._request(actor, session, known, peer, wanted)
        if wanted.check:
            return await self._look(session, peer, request)
        claimed = await self._claim(actor, session, known, wanted, within_s=CLONE_WITHIN_S)
        request.new, request.mcp_token = claimed.pod, claimed.token
        try:
            answer = await peer.ask(request, timeout_s=CLONE_WITHIN_S)
        except ScrubjayError as error:
            # Whose answer did not come may have been started, and comes with its pass.
            await self._put_back(claimed, str(error), keep_pass=not isinstance(error, RunnerRefused))
            raise
        await tower.until_known(claimed.pod)
        self._sessions.give_up(claimed.pod)
        return {**answer, "epoch": claimed.granted.epoch}

    async def claim(self, actor: Actor, raw: str, wanted: Wanted) -> Json:
        """Let a pod have a session that somebody starts themselves: its id, its pass, and whose work goes on."""
        assert self.passes is not None
        session, known = await self._find_all(actor, raw)
        claimed = await self._claim(actor, session, known, wanted, within_s=CLAIM_S)
        self._claims[claimed.pod] = claimed
        while len(self._claims) > _CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        return {
            "session": session.id,
            "epoch": claimed.granted.epoch,
            "pod": known.report.id,
            "new": claimed.pod,
            "token": claimed.token,
            "url": self.passes.mcp_url,
        }

    async def give_back(self, actor: Actor, pod: PodId, why: str) -> bool:
        """A pod that a session was claimed for was not started; False if nobody has claimed anything for it."""
        actor.require_changing()
        claimed = self._claims.pop(pod, None)
        if claimed is None or pod in self._reception.tower.pods:
            return False
        await self._put_back(claimed, why, keep_pass=False)
        return True

    async def _find_all(self, actor: Actor, raw: str) -> tuple[Session, KnownPod]:
        actor.require_changing()
        session = await self._reception.tower.database.read(lambda connection: self._find(connection, actor, raw))
        return session, self._newest_pod(session)

    def _find(self, connection: Connection, actor: Actor, raw: str) -> Session:
        try:
            known = self._reception.find(actor, raw)
        except NoSuchPod:
            return self._sessions.find(connection, actor, raw)
        return self._sessions.find(connection, actor, known.report.session)

    def _newest_pod(self, session: Session) -> KnownPod:
        pods = [known for known in self._reception.tower.pods.values() if known.report.session == session.id]
        if not pods:
            raise BadInput(
                f"session {session.id[:8]} never had a pod, or all are deleted",
                hint="an agent goes on with it by resume_session; 'scrubjay run' starts a pod of its own",
            )
        return max(pods, key=lambda known: (not known.over, known.report.created_us))

    def _request(self, actor: Actor, session: Session, known: KnownPod, peer: Peer, wanted: Wanted) -> Resume:
        report = known.report
        request = Resume(
            pod=report.id,
            check=wanted.check,
            takeover=wanted.takeover,
            new_conversation=wanted.new_conversation,
            conversation=report.conversation,
            arguments=wanted.arguments,
            prompt=wanted.prompt,
            cols=wanted.cols,
            rows=wanted.rows,
            author=author_of(actor.principal),
            name=wanted.name,
            environment=dict(wanted.environment),
        )
        if peer.id != known.runner:  # it never had the pod
            request.session, request.name = session.id, wanted.name or report.name
            request.agent, request.repository, request.branch = report.agent, report.repository, report.branch
            request.begun_with = (report.arguments or ()) if report.agent is not None else report.argv
            request.cwd = _inside(report)
        return request

    async def _look(self, session: Session, peer: Peer, request: Resume) -> Json:
        answer = await peer.ask(request, timeout_s=CLONE_WITHIN_S)
        return {**answer, "session": session.id, "epoch": session.epoch}

    async def _claim(
        self, actor: Actor, session: Session, known: KnownPod, wanted: Wanted, *, within_s: float
    ) -> _Claimed:
        """Let a new pod have the session before it is started; LeaseHeld, SessionFinished or SessionExpired."""
        if not wanted.takeover:
            await self._let_end(session, known)
        assert self.passes is not None
        made = await self.passes.offer_pass() if wanted.mcp else None
        pod = made.pod if made is not None else new_pod_id()
        self._sessions.expect(pod, within_s=within_s)
        try:
            before, granted = await self._grant(actor, session, pod, known, wanted)
        except BaseException:
            self._sessions.give_up(pod)
            if made is not None:
                await self.passes.withdraw_pass(pod)
            raise
        return _Claimed(pod, made.token if made is not None else None, before, granted)

    async def _let_end(self, session: Session, known: KnownPod) -> None:
        """Wait for news of a pod that, as its machine says, has it no more: it was killed a moment ago."""
        tower = self._reception.tower
        if session.state != "open" or known.over or known.runner not in tower.peers:
            return
        looked = await tower.ask(known, Resume(pod=known.report.id, check=True))
        findings = cast("list[Json]", looked.get("findings") or [])
        if not any(finding.get("kind") == "held" for finding in findings):
            await tower.until_over(PodId(known.report.id))

    async def _grant(
        self, actor: Actor, session: Session, pod: PodId, known: KnownPod, wanted: Wanted
    ) -> tuple[Session, Session]:
        """The session as it was and as it is."""
        wall_us, holder = self._reception.wall_us, pod_holder(pod)

        def body(connection: Connection) -> tuple[Session, Session | Reason]:
            current = store.get_session(connection, session.id)
            claim = self._sessions.claim(current, holder, takeover=wanted.takeover, reopen=wanted.reopen)
            reason = judge(current, claim)
            if reason is not None:
                store.note_refusal(
                    *(connection, session.id, reason),
                    by=actor.name,
                    principal=actor.principal.id,
                    instead=None,
                    wall_us=wall_us,
                )
                return current, reason
            cancel_pending(connection, current, wall_us=wall_us)
            granted = store.grant(
                *(connection, current, holder),
                held_by=wanted.name or known.report.name,
                how=how_granted(current, claim),
                owner=session_party(session.id),
                wall_us=wall_us,
            )
            return current, granted

        current, came_to = await self._reception.tower.database.write(body)
        if isinstance(came_to, Session):
            return current, came_to
        if came_to == "finished":
            raise SessionFinished(current.id)
        if came_to == "expired":
            raise SessionExpired(current.id)
        raise held_error(current, self._sessions.free_in_s(current), wall_us)

    async def _put_back(self, claimed: _Claimed, why: str, *, keep_pass: bool) -> None:
        """Let the session be as it was. Should the pod come nevertheless, it has the session when it does."""
        wall_us = self._reception.wall_us
        self._sessions.give_up(claimed.pod)
        await self._written(
            lambda connection: store.put_back(connection, claimed.before, why=why[:500], wall_us=wall_us)
        )
        if claimed.token is not None and not keep_pass and self.passes is not None:
            await self.passes.withdraw_pass(claimed.pod)

    async def _written(self, body: Callable[[Connection], None]) -> None:
        try:
            await self._reception.tower.database.write(body)
        except CatalogUnavailable as error:  # it lapses by itself: the pod it was granted to is not there
            log.warning("session.not_put_back", error=str(error))


def _inside(report: PodReport) -> str | None:
    """Where in its worktree a pod ran."""
    root = report.worktree_path
    if root is None or not report.cwd.startswith(f"{root}/"):
        return None
    return report.cwd.removeprefix(f"{root}/")
