"""Summaries that are to be made: at most one job of each session. ``summary_claims`` does them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, func, insert, or_, select

from scrubjay.fleet.sessions import Session, pod_of_holder
from scrubjay.fleet.summaries import Job, due_range
from scrubjay.ids import SessionId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.sessions import get_session
from scrubjay.tape.record import Json

_SESSION, _LEASE, _JOB = schema.session.c, schema.lease.c, schema.summary_job.c
_COVERED = select(_SESSION.covered_to_seq).where(_SESSION.id == bindparam("of"))
JOB_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(_JOB.session, _JOB.state, _JOB.from_seq, _JOB.to_seq, _JOB.asked, _JOB.not_before_us, _JOB.attempts),
    *(_JOB.wall_us, _JOB.error, _JOB.token, _JOB.claimed_until_us, _JOB.part_to_seq, _JOB.input_hash),
)
# Few sessions have anything that is not covered, and those have an index. An inner join, or the column of the state
# itself, would have SQLite begin with the leases: those of all sessions there ever were.
_STATE = func.coalesce(_LEASE.state, "")
_DUE = (
    select(_SESSION.id)
    .outerjoin_from(schema.session, schema.lease, (_LEASE.session == _SESSION.id) & _LEASE.until_event.is_(None))
    .outerjoin(schema.summary_job, _JOB.session == _SESSION.id)
    .where(
        _SESSION.last_seq > _SESSION.covered_to_seq,
        or_(
            _STATE == "finished",
            and_(_STATE == "suspended", _LEASE.since_us <= bindparam("until_us", type_=_LEASE.since_us.type)),
        ),
        or_(_JOB.session.is_(None), and_(_JOB.state == "failed", _JOB.to_seq < _SESSION.last_seq)),
    )
    .order_by(_LEASE.since_us)
    .limit(bindparam("most"))
)
_ONE = select(*JOB_COLUMNS).where(_JOB.session == bindparam("of"))
_PENDING = select(_JOB.session).where(_JOB.state == "pending")
_ADD = insert(schema.summary_job)
_REMOVE = delete(schema.summary_job).where(_JOB.session == bindparam("of"))


def plan_jobs(connection: Connection, *, after_us: int, wall_us: int, limit: int = 100) -> list[Job]:
    """Have those sessions summarised that have something new and are finished, or suspended for ``after_us``."""
    planned: list[Job] = []
    for id_ in due_sessions(connection, after_us=after_us, wall_us=wall_us, limit=limit):
        session = get_session(connection, id_)
        planned.append(_plan(connection, session, asked=False, wall_us=wall_us))
    return planned


def ask_for_summary(connection: Connection, session: Session, *, by: str, wall_us: int) -> Job | None:
    """Have what is new in a session summarised now, even if it is open; None if nothing is.

    A job that waits or has failed is begun anew; one that runs goes on, and what it does not have comes after it. The
    event is ``summary.asked``.
    """
    if due_range(covered_to(connection, session.id), session.last_seq) is None:
        return None
    there = job_of(connection, session.id)
    if there is not None and there.state == "running":
        job = replace(there, asked=True, to_seq=session.last_seq, attempts=1)  # of those that count for who asks
        put_job(connection, job)
    else:
        job = _plan(connection, session, asked=True, wall_us=wall_us)
    tell_of_job(connection, "summary.asked", session, job, {"by": by}, wall_us=wall_us)
    return job


def cancel_pending(
    connection: Connection, session: Session, *, why: str = "it was resumed", wall_us: int
) -> Job | None:
    """Let a session not be summarised after all, unless that has begun; what was cancelled.

    The event is ``summary.cancelled``.
    """
    job = job_of(connection, session.id)
    if job is None or job.state != "pending":
        return None
    cancel_job(connection, session, job, why, wall_us=wall_us)
    return job


def cancel_all_pending(connection: Connection, *, why: str, wall_us: int) -> None:
    """The same for all sessions."""
    for id_ in connection.execute(_PENDING).scalars().all():
        cancel_pending(connection, get_session(connection, SessionId(id_)), why=why, wall_us=wall_us)


def job_of(connection: Connection, session: SessionId) -> Job | None:
    """The summary of a session that is to be made, is being made or has failed."""
    row = connection.execute(_ONE, {"of": session}).first()
    return None if row is None else read_job(row)


def cancel_job(connection: Connection, session: Session, job: Job, why: str, *, wall_us: int) -> None:
    """Forget a job. The event is ``summary.cancelled``."""
    connection.execute(_REMOVE, {"of": session.id})
    tell_of_job(connection, "summary.cancelled", session, job, {"why": why}, wall_us=wall_us)


def tell_of_job(connection: Connection, kind: str, session: Session, job: Job, more: Json, *, wall_us: int) -> None:
    """Say what becomes of a job."""
    data: Json = {"session": session.id, "from_seq": job.from_seq, "to_seq": job.to_seq, **more}
    append_event(connection, kind, wall_us=wall_us, pod=pod_of_holder(session.holder), data=data)


def put_job(connection: Connection, job: Job) -> None:
    """Let a session have this job, whatever it had."""
    connection.execute(_REMOVE, {"of": job.session})
    row: Json = {
        "session": job.session,
        "state": job.state,
        "from_seq": job.from_seq,
        "to_seq": job.to_seq,
        "asked": job.asked,
        "not_before_us": job.not_before_us,
        "attempts": job.attempts,
        "wall_us": job.wall_us,
        "error": job.error,
        "token": job.token,
        "claimed_until_us": job.claimed_until_us,
        "part_to_seq": job.part_to_seq,
        "input_hash": job.input_hash,
    }
    connection.execute(_ADD, row)


def read_job(row: Row[*tuple[Any, ...]]) -> Job:
    """A job from its ``JOB_COLUMNS``."""
    return Job(*row)


def due_sessions(connection: Connection, *, after_us: int, wall_us: int, limit: int) -> list[SessionId]:
    """Sessions that have something new, no job, and were left alone for long enough."""
    found = connection.execute(_DUE, {"until_us": wall_us - after_us, "most": limit})
    return [SessionId(id_) for id_ in found.scalars()]


def _plan(connection: Connection, session: Session, *, asked: bool, wall_us: int) -> Job:
    due = due_range(covered_to(connection, session.id), session.last_seq)
    assert due is not None
    job = Job(session.id, "pending", *due, asked, wall_us, 0, wall_us)
    put_job(connection, job)
    return job


def settle_job(connection: Connection, session: SessionId, *, covered_to_seq: int, wall_us: int) -> None:
    """End a session's job as there is a summary now, whoever has made it; what else was asked for comes next."""
    job = job_of(connection, session)
    if job is None:
        return
    if job.asked and job.to_seq > covered_to_seq:
        rest = Job(session, "pending", covered_to_seq + 1, job.to_seq, True, wall_us, 0, wall_us)
        put_job(connection, rest)
    else:
        connection.execute(_REMOVE, {"of": session})


def covered_to(connection: Connection, session: SessionId) -> int:
    """The last memory of a session that a summary has; 0 if there is none."""
    return connection.execute(_COVERED, {"of": session}).scalar_one()
