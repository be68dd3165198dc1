"""Memories of sessions: appended once each, numbered without a gap, found by what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update

from scrubjay.errors import KeyReused
from scrubjay.fleet.memories import Instant, Memory, Source, Turn
from scrubjay.ids import PodId, SessionId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.memory_text import index_memory
from scrubjay.tape.record import Json

_TABLE, _MEMORY = schema.memory, schema.memory.c
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(_MEMORY.session, _MEMORY.seq, _MEMORY.source, _MEMORY.epoch, _MEMORY.wall_us, _MEMORY.number, _MEMORY.key),
    *(_MEMORY.agent, _MEMORY.pod, _MEMORY.tape_at, _MEMORY.tape_offset),
    *(_MEMORY.prompt, _MEMORY.thought, _MEMORY.response, _MEMORY.model, _MEMORY.tools, _MEMORY.tokens),
)
_NEXT = (
    update(schema.session)
    .where(schema.session.c.id == bindparam("of"))
    .values(last_seq=schema.session.c.last_seq + 1, used_us=bindparam("now_us"))
    .returning(schema.session.c.last_seq, schema.session.c.owner)
)
_ADD = insert(_TABLE)
_KEYED = select(*_COLUMNS).where(_MEMORY.session == bindparam("of"), _MEMORY.key == bindparam("known_by"))
_AFTER = (
    select(*_COLUMNS)
    .where(_MEMORY.session == bindparam("of"), _MEMORY.seq > bindparam("after"))
    .order_by(_MEMORY.seq)
    .limit(bindparam("most"))
)
_LAST = (
    select(*_COLUMNS).where(_MEMORY.session == bindparam("of")).order_by(_MEMORY.seq.desc()).limit(bindparam("most"))
)
_LAST_AT = (
    select(*_COLUMNS)
    .where(_MEMORY.session == bindparam("of"), _MEMORY.wall_us <= bindparam("at_us"))
    .order_by(_MEMORY.seq.desc())
    .limit(1)
)
_NUMBERED = select(*_COLUMNS).where(_MEMORY.number.in_(bindparam("numbers", expanding=True)))


@dataclass(frozen=True, slots=True)
class Appending:
    """Under which circumstances something is remembered."""

    session: SessionId
    epoch: int
    source: Source
    agent: str | None = None
    key: str | None = None  #: the same one again appends nothing again
    tape: Instant | None = None


def append_memory(connection: Connection, turn: Turn, how: Appending, *, wall_us: int) -> tuple[Memory, bool]:
    """Append a turn to its session, or find that the key's is there already; whether it is new.

    Whoever calls this has checked, in the same transaction, that they may. KeyReused if the key stands for something
    else. The event is ``memory.added``.
    """
    if how.key is not None:
        known = memory_of_key(connection, how.session, how.key)
        if known is not None:
            if known.turn != turn:
                raise KeyReused(how.key, known.seq)
            return known, False
    pod = how.tape.pod if how.tape is not None else None
    seq, owner = connection.execute(_NEXT, {"of": how.session, "now_us": wall_us}).one()
    data: Json = {"session": how.session, "seq": seq, "source": how.source}
    event = append_event(connection, "memory.added", wall_us=wall_us, pod=pod, data=data)
    memory = Memory(
        *(how.session, seq, turn, how.source, how.epoch, event.wall_us, event.number, how.key, how.agent, how.tape)
    )
    connection.execute(_ADD, memory_row(memory))
    index_memory(connection, memory, owner)
    return memory, True


def memory_of_key(connection: Connection, session: SessionId, key: str) -> Memory | None:
    """The memory that was appended with a key."""
    row = connection.execute(_KEYED, {"of": session, "known_by": key}).first()
    return None if row is None else _read(row)


def list_memories(connection: Connection, session: SessionId, *, after: int = 0, limit: int = 100) -> list[Memory]:
    """Memories of a session with a number above ``after``, in order."""
    return [_read(row) for row in connection.execute(_AFTER, {"of": session, "after": after, "most": limit})]


def last_memories(connection: Connection, session: SessionId, *, limit: int) -> list[Memory]:
    """The last memories of a session, in order."""
    rows = connection.execute(_LAST, {"of": session, "most": limit}).all()
    return [_read(row) for row in reversed(rows)]


def last_memory_at(connection: Connection, session: SessionId, *, at_us: int) -> Memory | None:
    """The last memory that a session had at an instant."""
    row = connection.execute(_LAST_AT, {"of": session, "at_us": at_us}).first()
    return None if row is None else _read(row)


def memories_of_numbers(connection: Connection, numbers: Sequence[int]) -> list[Memory]:
    """The memories with these numbers, in the same order."""
    found = {row.number: _read(row) for row in connection.execute(_NUMBERED, {"numbers": list(numbers)})}
    return [found[number] for number in numbers if number in found]


def memory_row(memory: Memory) -> Json:
    """A memory as its table has it."""
    turn, tape = memory.turn, memory.tape
    return {
        "number": memory.number,
        "session": memory.session,
        "seq": memory.seq,
        "source": memory.source,
        "key": memory.key,
        "prompt": turn.prompt,
        "thought": turn.thought,
        "response": turn.response,
        "model": turn.model,
        "tools": list(turn.tools),
        "tokens": turn.tokens,
        "agent": memory.agent,
        "epoch": memory.epoch,
        "pod": tape.pod if tape is not None else None,
        "tape_at": tape.at if tape is not None else None,
        "tape_offset": tape.offset if tape is not None else None,
        "wall_us": memory.wall_us,
    }


def _read(row: Row[*tuple[Any, ...]]) -> Memory:
    tape = None if row.pod is None else Instant(PodId(row.pod), row.tape_at, row.tape_offset)
    turn = Turn(row.prompt, row.thought, row.response, row.model, tuple(row.tools), row.tokens)
    return Memory(
        *(SessionId(row.session), row.seq, turn, row.source, row.epoch, row.wall_us, row.number),
        *(row.key, row.agent, tape),
    )
