"""Making the summaries that are to be made: a job is claimed by one at a time.

Who has claimed one has a token. It is good until somebody else has claimed the job, which they can once the claim's
time is over. All of it is inside a write.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, update

from scrubjay.errors import ClaimLost, SummaryStale
from scrubjay.fleet.sessions import Session
from scrubjay.fleet.summaries import (
    ATTEMPTS_MAX,
    PART_TURNS_MAX,
    Job,
    Summary,
    check_summary,
    due_range,
    first_that_fit,
    may_begin,
    retry_delay_us,
)
from scrubjay.store import schema
from scrubjay.store.sessions import get_session
from scrubjay.store.summaries import hash_of_range, keep_summary
from scrubjay.store.summary_jobs import (
    JOB_COLUMNS,
    cancel_job,
    covered_to,
    due_sessions,
    put_job,
    read_job,
    tell_of_job,
)
from scrubjay.tape.record import Json

ERROR_MAX = 300  # characters
_SILENT = "whoever made it was not heard of again"

_MEMORY, _JOB = schema.memory.c, schema.summary_job.c
_NOW = bindparam("now_us", type_=_JOB.wall_us.type)
_CLAIMABLE = or_(
    and_(_JOB.state == "pending", _JOB.not_before_us <= _NOW),
    and_(_JOB.state == "running", _JOB.claimed_until_us <= _NOW),
)
_CLAIMED = select(*JOB_COLUMNS).where(_JOB.token == bindparam("given"), _JOB.state == "running")
_NEXT = (
    select(*JOB_COLUMNS).where(_CLAIMABLE).order_by(_JOB.asked.desc(), _JOB.not_before_us, _JOB.session).limit(1)
)  # what somebody waits for comes first
_LENGTHS = (
    select(func.length(_MEMORY.prompt) + func.length(_MEMORY.thought) + func.length(_MEMORY.response))
    .where(_MEMORY.session == bindparam("of"), _MEMORY.seq.between(bindparam("first"), bindparam("last")))
    .order_by(_MEMORY.seq)
    .limit(PART_TURNS_MAX + 1)
)
_REMOVE = delete(schema.summary_job).where(_JOB.session == bindparam("of"))
_RENEW = update(schema.summary_job).where(_JOB.token == bindparam("given"), _JOB.state == "running")


def has_work(connection: Connection, *, after_us: int, wall_us: int) -> bool:
    """Whether there is something to plan or to claim; this only reads."""
    claimable = connection.execute(_NEXT, {"now_us": wall_us}).first()
    return claimable is not None or bool(due_sessions(connection, after_us=after_us, wall_us=wall_us, limit=1))


def claim_job(connection: Connection, token: str, *, claim_us: int, after_us: int, wall_us: int) -> Job | None:
    """Take the next job, for as long as ``claim_us`` unless that is renewed; None if there is none.

    What may not be summarised any more is cancelled, and what was begun too often has failed.
    """
    while (row := connection.execute(_NEXT, {"now_us": wall_us}).first()) is not None:
        job = read_job(row)
        session = get_session(connection, job.session)
        due = due_range(covered_to(connection, session.id), session.last_seq)
        if due is None:
            connection.execute(_REMOVE, {"of": session.id})
        elif not may_begin(session.state, session.since_us, asked=job.asked, after_us=after_us, now_us=wall_us):
            cancel_job(connection, session, job, f"it is {session.state}", wall_us=wall_us)
        elif job.attempts >= ATTEMPTS_MAX:
            _fail(connection, session, replace(job, error=_SILENT), wall_us=wall_us)
        else:
            first, last = due
            goal = job.to_seq if session.state == "open" else last
            return _claim(connection, replace(job, from_seq=first, to_seq=goal), token, claim_us, wall_us=wall_us)
    return None


def renew_job(connection: Connection, token: str, *, claim_us: int, wall_us: int) -> None:
    """Keep a claim for longer; ClaimLost if it is nobody's or somebody else's by now."""
    renewed = connection.execute(_RENEW.values(claimed_until_us=wall_us + claim_us), {"given": token})
    if renewed.rowcount != 1:
        raise ClaimLost


def complete_job(
    connection: Connection, token: str, text: str, *, made_by: str, model: str | None, wall_us: int
) -> Summary:
    """Keep what a job has come to. The event is ``summary.made``.

    ClaimLost if the job is somebody else's by now, or over; SummaryStale if its memories are not what they were.
    """
    text = check_summary(text, made_by=made_by, model=model)
    job = _claimed(connection, token)
    session = get_session(connection, job.session)
    first, last, digest = job.from_seq, job.part_to_seq, job.input_hash
    assert last is not None
    assert digest is not None
    assert first == covered_to(connection, session.id) + 1, "whoever covers more ends the job"
    if last > session.last_seq or hash_of_range(connection, session.id, first, last) != digest:
        raise SummaryStale(session.id)
    summary = Summary(session.id, first, last, digest, text, made_by, model, wall_us)
    return keep_summary(connection, session, summary)


def fail_job(connection: Connection, token: str, error: str, *, wall_us: int) -> Job | None:
    """Try again later, or not if that was the last time; None if it is not wanted any more.

    ClaimLost if the job is somebody else's by now, or over. The event, of the last time alone, is ``summary.failed``.
    """
    job = replace(_claimed(connection, token), error=error[:ERROR_MAX])
    session = get_session(connection, job.session)
    delay_us = retry_delay_us(job.attempts)
    if delay_us is None:
        return _fail(connection, session, job, wall_us=wall_us)
    return _unclaim(connection, session, job, not_before_us=wall_us + delay_us, wall_us=wall_us)


def give_job_back(connection: Connection, token: str, *, wall_us: int) -> Job | None:
    """Let somebody else do it, as if it had not been begun; None if it is not wanted any more.

    ClaimLost if the job is somebody else's by now, or over.
    """
    job = _claimed(connection, token)
    session = get_session(connection, job.session)
    return _unclaim(
        connection, session, replace(job, attempts=job.attempts - 1), not_before_us=wall_us, wall_us=wall_us
    )


def _claim(connection: Connection, job: Job, token: str, claim_us: int, *, wall_us: int) -> Job:
    first = job.from_seq
    lengths = connection.execute(_LENGTHS, {"of": job.session, "first": first, "last": job.to_seq}).scalars()
    last = first + first_that_fit(lengths) - 1
    claimed = replace(
        job,
        state="running",
        attempts=job.attempts + 1,
        token=token,
        claimed_until_us=wall_us + claim_us,
        part_to_seq=last,
        input_hash=hash_of_range(connection, job.session, first, last),
        wall_us=wall_us,
    )
    put_job(connection, claimed)
    return claimed


def _claimed(connection: Connection, token: str) -> Job:
    row = connection.execute(_CLAIMED, {"given": token}).first()
    if row is None:
        raise ClaimLost
    return read_job(row)


def _unclaim(connection: Connection, session: Session, job: Job, *, not_before_us: int, wall_us: int) -> Job | None:
    if session.state == "open" and not job.asked:
        cancel_job(connection, session, job, "it was resumed", wall_us=wall_us)
        return None
    pending = _loose(replace(job, state="pending", not_before_us=not_before_us, wall_us=wall_us))
    put_job(connection, pending)
    return pending


def _fail(connection: Connection, session: Session, job: Job, *, wall_us: int) -> Job:
    failed = _loose(replace(job, state="failed", wall_us=wall_us))
    put_job(connection, failed)
    told: Json = {"attempts": job.attempts, "error": job.error}
    tell_of_job(connection, "summary.failed", session, failed, told, wall_us=wall_us)
    return failed


def _loose(job: Job) -> Job:
    return replace(job, token=None, claimed_until_us=None, part_to_seq=None, input_hash=None)
