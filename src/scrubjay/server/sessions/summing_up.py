"""Summaries, as agents write them and as agents and people read them."""

from __future__ import annotations

from sqlalchemy import Connection

from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.sessions.descriptions import describe_job, describe_summary
from scrubjay.server.sessions.sessions import Sessions
from scrubjay.server.sessions.summaries import Summaries
from scrubjay.store.summaries import list_summaries, save_summary
from scrubjay.store.summary_jobs import ask_for_summary, covered_to, job_of
from scrubjay.tape.record import Json

_SHOWN = 20


class SummingUp:
    """What sessions come to."""

    def __init__(self, reception: Reception, sessions: Sessions, summaries: Summaries) -> None:
        self._reception, self._sessions, self._summaries = reception, sessions, summaries

    async def save(self, actor: Actor, text: str, *, to_seq: int | None = None, session: str | None = None) -> Json:
        """Keep a summary of the memories that have none yet, up to one of them."""
        actor.require_changing()
        reception = self._reception

        def body(connection: Connection) -> Json:
            entered = self._sessions.enter(connection, actor, session)
            found = self._sessions.hold(connection, actor, entered).session
            kept, _ = save_summary(
                connection, found, text, to_seq=to_seq, made_by=actor.name, wall_us=reception.wall_us
            )
            return {"session_id": found.id, **describe_summary(kept)}

        return await reception.tower.database.write(body)

    async def show(self, actor: Actor, session: str | None = None) -> Json:
        """The newest summaries of a session in order, and how far they go."""
        self._sessions.require_named(actor, session)

        def body(connection: Connection) -> Json:
            found = self._sessions.enter(connection, actor, session, begin=False).session
            covered, job = covered_to(connection, found.id), job_of(connection, found.id)
            return {
                "session_id": found.id,
                "last_seq": found.last_seq,
                "covered_to_seq": covered,
                "summaries": [describe_summary(each) for each in list_summaries(connection, found.id, limit=_SHOWN)],
                "job": describe_job(job) if job is not None else None,
            }

        return await self._reception.tower.database.write(body)  # who comes back with this call is resumed

    async def ask(self, actor: Actor, session: str) -> Json:
        """Have what is new in a session summed up now; NoSummariser where nobody does that."""
        actor.require_changing()
        self._summaries.require()
        reception = self._reception

        def body(connection: Connection) -> Json:
            found = self._sessions.find(connection, actor, session)
            job = ask_for_summary(connection, found, by=actor.name, wall_us=reception.wall_us)
            return {"session_id": found.id, "asked": job is not None}

        return await reception.tower.database.write(body)
