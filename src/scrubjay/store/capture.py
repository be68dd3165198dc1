"""How far tapes were looked through for turns, and whose session they were when each turn happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from scrubjay.fleet.memories import Instant, Memory, Turn, check_turn, says_the_same
from scrubjay.fleet.sessions import Holder, pod_holder
from scrubjay.fleet.turns import Captured, Underway, decode_underway, encode_underway
from scrubjay.ids import PodId, SessionId
from scrubjay.store import schema
from scrubjay.store.memories import Appending, append_memory, memory_of_key
from scrubjay.store.pods import get_pod

_OWN_AMONG = 1000  # the last memories of a session, where those are that the agent has added during its last turns

_CAPTURE, _LEASE, _MEMORY = schema.capture.c, schema.lease.c, schema.memory.c
_ALL = select(_CAPTURE.pod, _CAPTURE.offset, _CAPTURE.underway, _CAPTURE.done)
_ONE = _ALL.where(_CAPTURE.pod == bindparam("of"))
_ADD = insert(schema.capture)
_MOVE = (
    update(schema.capture)
    .where(_CAPTURE.pod == bindparam("of"))
    .values(offset=bindparam("to_offset"), underway=bindparam("then"), done=bindparam("is_done"))
)
_HELD = select(_LEASE.session).where(_LEASE.holder == bindparam("who"))
_HISTORY = (
    select(_LEASE.session, _LEASE.epoch, _LEASE.holder, _LEASE.state, _LEASE.since_us)
    .where(or_(_LEASE.session == bindparam("of"), _LEASE.session.in_(_HELD)))
    .order_by(_LEASE.since_event)
)
_LAST_SEQ = select(schema.session.c.last_seq).where(schema.session.c.id == bindparam("of")).scalar_subquery()
_OWN = select(_MEMORY.prompt, _MEMORY.response).where(
    *(_MEMORY.session == bindparam("of"), _MEMORY.source == "agent", _MEMORY.pod == bindparam("in_pod")),
    *(_MEMORY.seq > _LAST_SEQ - _OWN_AMONG, _MEMORY.tape_offset.between(bindparam("since"), bindparam("until"))),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tape was looked through."""

    offset: int = 0
    underway: Underway = field(default_factory=Underway)
    done: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Who had a session from an instant on, and how."""

    session: SessionId
    epoch: int
    holder: str | None
    state: str
    since_us: int


def read_progress(connection: Connection) -> dict[PodId, Progress]:
    """How far all tapes were looked through; one that is not there was not looked at."""
    return {PodId(row.pod): _read(row.offset, row.underway, done=row.done) for row in connection.execute(_ALL)}


def capture_turns(
    connection: Connection, pod: PodId, turns: list[Captured], before: Progress, after: Progress, *, wall_us: int
) -> tuple[Progress, list[Memory]]:
    """Remember turns that were found on a pod's tape between two places, and that it was looked through up to there.

    If it was not looked through up to the first place, nothing is done. Returns how far it was now, and what is new.
    Nothing is asked of the lease and nothing is changed about it: what is on the tape of a pod that had the session
    when it happened is so, whoever has it now.
    """
    known = connection.execute(_ONE, {"of": pod}).first()
    current = Progress() if known is None else _read(known.offset, known.underway, done=known.done)
    if (current.offset, current.done) != (before.offset, before.done):
        return current, []
    memories = _remember(connection, pod, turns, wall_us=wall_us)
    row = {"offset": after.offset, "underway": encode_underway(after.underway), "done": after.done}
    if known is None:
        connection.execute(_ADD, {"pod": pod, **row})
    else:
        moved = {"to_offset": after.offset, "then": row["underway"], "is_done": after.done}
        connection.execute(_MOVE, {"of": pod, **moved})
    return after, memories


def _remember(connection: Connection, pod: PodId, turns: list[Captured], *, wall_us: int) -> list[Memory]:
    found = get_pod(connection, pod) if turns else None
    if found is None:
        return []
    facts, holder, memories = found[0], pod_holder(pod), list[Memory]()
    rows = connection.execute(_HISTORY, {"of": facts.session, "who": holder})
    history = [Held(SessionId(row.session), row.epoch, row.holder, row.state, row.since_us) for row in rows]
    for captured in turns:
        ended_us = captured.wall_us if captured.wall_us is not None else facts.created_us + captured.at
        began_us = captured.begin_wall_us if captured.begin_wall_us is not None else ended_us
        held = held_during(history, holder, facts.session, began_us=began_us, ended_us=ended_us)
        key = f"hook:{pod}:{captured.offset}"
        if held is None or memory_of_key(connection, held[0], key) is not None:
            continue
        if says_the_same(captured.turn, _own_turns(connection, held[0], pod, captured)):
            continue
        tape = Instant(pod, captured.at, captured.offset)
        how = Appending(*held, "hook", agent=facts.agent, key=key, tape=tape)
        memories.append(append_memory(connection, check_turn(captured.turn), how, wall_us=wall_us)[0])
    return memories


def held_during(
    history: Sequence[Held], holder: Holder, own: SessionId, *, began_us: int, ended_us: int
) -> tuple[SessionId, int] | None:
    """The session that somebody was in while something happened, and the epoch they had; None if they had lost it.

    They are in the one that they got last, and in their ``own`` while nobody has it. What was done before anybody knew
    of them counts as done when they were found. ``history`` is that of all sessions they ever had, and of their own,
    in order.
    """
    grants: dict[tuple[SessionId, int], int] = {}
    for row in history:
        if row.holder == holder or (row.session == own and row.holder is None):
            grants.setdefault((row.session, row.epoch), row.since_us)
    first_us = min(grants.values(), default=0)
    for (session, epoch), since_us in reversed(grants.items()):
        lost_us = min((row.since_us for row in history if _loses(row, session, epoch)), default=began_us)
        if (since_us <= ended_us or since_us == first_us) and lost_us >= began_us:
            return session, epoch
    return None


def _loses(row: Held, session: SessionId, epoch: int) -> bool:
    finished = row.epoch == epoch and row.state == "finished"
    return row.session == session and (row.epoch > epoch or finished)


def _own_turns(connection: Connection, session: SessionId, pod: PodId, captured: Captured) -> list[Turn]:
    """What the agent has itself remembered during a turn, by its place on the tape: no clock is asked."""
    place = {"since": captured.begin_offset, "until": max(captured.begin_offset, captured.end)}
    rows = connection.execute(_OWN, {"of": session, "in_pod": pod, **place})
    return [Turn(prompt=row.prompt, response=row.response) for row in rows]


def _read(offset: int, underway: object, *, done: bool) -> Progress:
    return Progress(offset, decode_underway(underway), done)
