"""Summaries of sessions: kept once each, one after the other. ``summary_jobs`` has those that are to be made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update

from scrubjay.fleet.memories import Turn, input_hash
from scrubjay.fleet.sessions import Session, pod_of_holder
from scrubjay.fleet.summaries import Summary, check_save, check_summary
from scrubjay.ids import SessionId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.summary_jobs import covered_to, settle_job
from scrubjay.tape.record import Json

_SESSION, _MEMORY, _SUMMARY = schema.session.c, schema.memory.c, schema.summary.c
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(_SUMMARY.session, _SUMMARY.from_seq, _SUMMARY.to_seq, _SUMMARY.input_hash, _SUMMARY.text, _SUMMARY.made_by),
    *(_SUMMARY.model, _SUMMARY.wall_us),
)
_COVER = (
    update(schema.session)
    .where(_SESSION.id == bindparam("of"), _SESSION.covered_to_seq == bindparam("before"))
    .values(covered_to_seq=bindparam("upto"))
)
_ADD = insert(schema.summary)
_ENDING = select(*_COLUMNS).where(_SUMMARY.session == bindparam("of"), _SUMMARY.to_seq == bindparam("upto"))
_NEWEST = (
    select(*_COLUMNS)
    .where(_SUMMARY.session == bindparam("of"), _SUMMARY.to_seq < bindparam("before"))
    .order_by(_SUMMARY.to_seq.desc())
    .limit(bindparam("most"))
)
_TEXTS = (
    select(_MEMORY.prompt, _MEMORY.thought, _MEMORY.response)
    .where(_MEMORY.session == bindparam("of"), _MEMORY.seq.between(bindparam("first"), bindparam("last")))
    .order_by(_MEMORY.seq)
)
_LAST = (1 << 31) - 1
_PAGE = 50  # turns that are in memory at a time


def save_summary(
    connection: Connection,
    session: Session,
    text: str,
    *,
    to_seq: int | None = None,
    from_seq: int | None = None,
    made_by: str,
    model: str | None = None,
    wall_us: int,
) -> tuple[Summary, bool]:
    """Keep what somebody says that the memories up to ``to_seq`` come to, or all; whether it is new.

    The range goes on where the last one has ended. If it is exactly that of a summary which is there, that one is
    returned. A job for the same memories is over, also one that runs. BadInput or SummaryUnfit say why it cannot be.
    The event is ``summary.made``.
    """
    text = check_summary(text, made_by=made_by, model=model)
    to_seq = session.last_seq if to_seq is None else to_seq
    there = find_summary(connection, session.id, to_seq)
    if there is not None and from_seq in (None, there.from_seq):
        return there, False
    first, last = check_save(
        session.id,
        covered_to_seq=covered_to(connection, session.id),
        last_seq=session.last_seq,
        from_seq=from_seq,
        to_seq=to_seq,
    )
    digest = hash_of_range(connection, session.id, first, last)
    summary = Summary(session.id, first, last, digest, text, made_by, model, wall_us)
    return keep_summary(connection, session, summary), True


def keep_summary(connection: Connection, session: Session, summary: Summary) -> Summary:
    """Keep a summary of the memories that come next, and go on behind them. The event is ``summary.made``."""
    data: Json = {"session": session.id, "from_seq": summary.from_seq, "to_seq": summary.to_seq, "by": summary.made_by}
    pod = pod_of_holder(session.holder)
    event = append_event(connection, "summary.made", wall_us=summary.wall_us, pod=pod, data=data)
    moved = {"of": session.id, "before": summary.from_seq - 1, "upto": summary.to_seq}
    assert connection.execute(_COVER, moved).rowcount == 1, "ranges follow one another"
    row: Json = {
        "session": session.id,
        "from_seq": summary.from_seq,
        "to_seq": summary.to_seq,
        "input_hash": summary.input_hash,
        "text": summary.text,
        "made_by": summary.made_by,
        "model": summary.model,
        "wall_us": event.wall_us,
    }
    connection.execute(_ADD, row)
    settle_job(connection, session.id, covered_to_seq=summary.to_seq, wall_us=event.wall_us)
    kept = find_summary(connection, session.id, summary.to_seq)
    assert kept is not None
    return kept


def find_summary(connection: Connection, session: SessionId, to_seq: int) -> Summary | None:
    """The summary whose last memory is that one."""
    row = connection.execute(_ENDING, {"of": session, "upto": to_seq}).first()
    return None if row is None else _read(row)


def latest_summary(connection: Connection, session: SessionId) -> Summary | None:
    """The summary of the newest memories that have one."""
    return next(iter(list_summaries(connection, session, limit=1)), None)


def list_summaries(
    connection: Connection, session: SessionId, *, before: int | None = None, limit: int = 100
) -> list[Summary]:
    """The last summaries of a session, those that end before a memory, in order."""
    which = {"of": session, "before": _LAST if before is None else before, "most": limit}
    return [_read(row) for row in reversed(connection.execute(_NEWEST, which).all())]


def hash_of_range(connection: Connection, session: SessionId, first: int, last: int) -> str:
    """What is in a range of memories, in short."""
    return input_hash(_turns(connection, session, first, last))


def _turns(connection: Connection, session: SessionId, first: int, last: int) -> Iterator[Turn]:
    for start in range(first, last + 1, _PAGE):
        which = {"of": session, "first": start, "last": min(last, start + _PAGE - 1)}
        for row in connection.execute(_TEXTS, which):
            yield Turn(row.prompt, row.thought, row.response)


def _read(row: Row[*tuple[Any, ...]]) -> Summary:
    return Summary(*row)
