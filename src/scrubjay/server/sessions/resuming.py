"""Coming back to a session, and what somebody then has to know."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from scrubjay.errors import BadInput
from scrubjay.fleet.handoffs import NOTE_MAX, Handoff
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.sessions import Session
from scrubjay.fleet.untrusted import NOTE
from scrubjay.ids import PodId, new_record_id
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.channels import Channels
from scrubjay.server.coordination.descriptions import describe_handoff
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.request_context import current_context
from scrubjay.server.sessions.descriptions import (
    describe_doing,
    describe_job,
    describe_lease,
    describe_memory,
    describe_summary,
    page,
)
from scrubjay.server.sessions.memories import Memories
from scrubjay.server.sessions.sessions import Entered, Sessions
from scrubjay.store import handoffs as handoff_store
from scrubjay.store import sessions as store
from scrubjay.store.memories import last_memories, last_memory_at
from scrubjay.store.pod_sessions import pods_of_session
from scrubjay.store.summaries import latest_summary
from scrubjay.store.summary_jobs import job_of
from scrubjay.store.waits import waits_of
from scrubjay.tape.record import Json

_REMEMBERED = 10  # of the last memories that somebody gets who comes back
_MESSAGES = 20


class Resuming:
    """What agents and people do with whole sessions."""

    def __init__(self, reception: Reception, sessions: Sessions, memories: Memories, channels: Channels) -> None:
        self._reception, self._sessions, self._memories, self._channels = reception, sessions, memories, channels

    async def resume(self, actor: Actor, session: str | None, *, takeover: bool = False, reopen: bool = False) -> Json:
        """Let whoever asks have a session; if that is refused they get a new one, and are told so.

        Without an id it is the one their connection, or their pod, is in.
        """
        actor.require_changing()

        def body(connection: Connection) -> tuple[Entered, Json]:
            if session is None:
                entered = self._sessions.enter(connection, actor, None)
            else:
                entered = self._sessions.resume_in(connection, actor, session, takeover=takeover, reopen=reopen)
            return entered, self._remembered(connection, actor, entered.session)

        entered, remembered = await self._reception.tower.database.write(body)
        found = entered.session
        messages = {} if actor.is_person else await self._channels.inbox(actor, limit=_MESSAGES)
        return {
            "resumed": entered.resumed and not entered.begun,
            "reason": entered.reason or ("new" if entered.begun else None),
            "session_id": found.id,
            "requested_id": entered.requested if session is None else session[:200],
            "epoch": found.epoch,
            "last_seq": found.last_seq,
            "warning": entered.warning,
            "note": NOTE,
            **remembered,
            **messages,
            "tape": self._tape(found),
        }

    def _remembered(self, connection: Connection, actor: Actor, session: Session) -> Json:
        memories, _ = page(last_memories(connection, session.id, limit=_REMEMBERED)[::-1])
        summary = latest_summary(connection, session.id)
        waits = waits_of(connection, session.owner if actor.is_person else actor.party)
        return {
            "memories": [describe_memory(memory) for memory in reversed(memories)],
            "summary": describe_summary(summary) if summary is not None else None,
            "open_waits": [
                {"id": wait.id, "kind": wait.kind, "reason": wait.reason, "since_us": wait.since_us} for wait in waits
            ],
        }

    def _tape(self, session: Session) -> Json | None:
        """The newest tape of a session, and how far it goes."""
        tower = self._reception.tower
        pods = [known for known in tower.pods.values() if known.report.session == session.id]
        if not pods:
            return None
        newest = max(pods, key=lambda known: known.report.created_us)
        return {"pod": newest.report.id, "offset": tower.tape_end(PodId(newest.report.id))}

    async def list(
        self, actor: Actor, *, everything: bool = False, at_us: int | None = None, limit: int = 50
    ) -> list[Json]:
        """Somebody's own sessions, of a person all, last used first; those that can be resumed, or everything."""
        owner = None if actor.is_person else actor.party

        def body(connection: Connection) -> list[Json]:
            found = store.list_sessions(connection, owner=owner, at_us=at_us, limit=limit if everything else 1000)
            if not everything and at_us is None:
                found = [session for session in found if self._is_worth_resuming(session)]
            if at_us is not None:
                return [_describe_then(connection, session, at_us) for session in found[:limit]]
            return [self._describe(connection, session) for session in found[:limit]]

        return await self._reception.tower.database.read(body)

    def _is_worth_resuming(self, session: Session) -> bool:
        """Whether there is anything in a session that somebody could go on with now."""
        empty = session.last_seq == 0 and session.owner != session.id
        mine = session.state == "open" and session.holder == current_context().holder
        return self._sessions.why_not(session) is None and (mine or not empty)

    async def show(self, actor: Actor, raw: str) -> Json:
        """One session with its pods, its summary and its last memories."""

        def body(connection: Connection) -> Json:
            session = self._sessions.find(connection, actor, raw)
            job = job_of(connection, session.id)
            return {
                **self._describe(connection, session),
                **self._remembered(connection, actor, session),
                "pods": [self._describe_pod(pod) for pod in pods_of_session(connection, session.id)],
                "summary_job": describe_job(job) if job is not None else None,
            }

        return await self._reception.tower.database.read(body)

    def _describe(self, connection: Connection, session: Session) -> Json:
        why_not = self._sessions.why_not(session)
        last = last_memories(connection, session.id, limit=1)
        return {
            **describe_lease(session, free_in_s=self._sessions.free_in_s(session)),
            "current": (session.state == "open" and session.holder == current_context().holder) or None,
            "resumable": why_not is None,
            "why_not": why_not,
            "expires_us": self._sessions.expires_us(session),
            **describe_doing(last[0] if last else None),
            **self._describe_work(session),
        }

    def _describe_work(self, session: Session) -> Json:
        tower = self._reception.tower
        pods = [known.report for known in tower.pods.values() if known.report.session == session.id]
        if not pods:
            return {}
        newest = max(pods, key=lambda report: report.created_us)
        return {
            "pod": newest.name,
            "pod_id": newest.id,
            "process": newest.process,
            "repository": newest.repository,
            "branch": newest.branch,
            "worktree": newest.worktree,
            "conversation": newest.conversation,
        }

    def _describe_pod(self, pod: PodId) -> Json:
        known = self._reception.tower.pods.get(pod)
        if known is None:
            return {"id": pod}
        report = known.report
        return {"id": pod, "name": report.name, "process": report.process, "created_us": report.created_us}

    async def finish(
        self, actor: Actor, session: str | None, *, why: str | None = None, only_leave: bool = False
    ) -> Json:
        """Say that a session has come to its end; with ``only_leave`` it is let go of, and can be resumed."""
        actor.require_changing()
        self._sessions.require_named(actor, session)

        def body(connection: Connection) -> Json:
            found = self._sessions.enter(connection, actor, session, begin=False).session
            if only_leave:
                done = self._sessions.let_go_in(connection, actor, found)
            else:
                done = self._sessions.finish_in(connection, actor, found, why)
            return describe_lease(done, free_in_s=None)

        return await self._reception.tower.database.write(body)

    async def hand_over(
        self, actor: Actor, to: str, note: str, *, session: str | None = None, key: str | None = None
    ) -> Json:
        """Offer a session to another; whoever accepts has it, and its memories, from then on."""
        actor.require_changing()
        reception, view = self._reception, self._reception.view(actor)
        recipient = reception.party(actor, to)
        check_text(note, NOTE_MAX, "note")
        self._sessions.require_named(actor, session)
        if recipient == actor.party:
            raise BadInput("nobody hands over to itself", hint="name another pod or agent")

        def body(connection: Connection) -> Json:
            found = self._sessions.enter(connection, actor, session).session
            self._sessions.require_mine(actor, found)
            handoff = Handoff(new_record_id(), actor.party, note, recipient=recipient, session=found.id)
            offered, _ = handoff_store.offer_handoff(connection, handoff, wall_us=reception.wall_us)
            return describe_handoff(offered, view)

        return await reception.change(actor, "hand_over", key, body)


def _describe_then(connection: Connection, session: Session, at_us: int) -> Json:
    """A session as it was at an instant; whether it can be resumed is a question of now."""
    last = last_memory_at(connection, session.id, at_us=at_us)
    then = replace(session, last_seq=last.seq if last is not None else 0)
    told = describe_lease(then, free_in_s=None)
    told["used_us"] = max(session.since_us, last.wall_us if last is not None else session.created_us)
    return {**told, "resumable": None, **describe_doing(last)}
