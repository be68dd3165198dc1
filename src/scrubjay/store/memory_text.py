"""The full-text index of memories.

Whose and where a memory is stands in the index as words of their own, so that a search in a few sessions among a
million memories touches those few. Numbers of memories grow with time, so a span of time is a span of numbers, and the
newest are found first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import Connection, bindparam, select, text

from scrubjay.fleet.memories import Memory
from scrubjay.ids import PodId, SessionId
from scrubjay.query import Query, expression, spread
from scrubjay.store import schema

_MEMORY = schema.memory.c
_ADD = text("INSERT INTO memory_text (rowid, tags, text) VALUES (:number, :tags, :body)")
_FIND = text(
    "SELECT rowid FROM memory_text WHERE memory_text MATCH :wanted AND rowid < :before AND rowid > :after "
    "ORDER BY rowid DESC LIMIT :most"
)
# Not the largest and the smallest number of them: for those SQLite would look at all there are before or after.
_BEFORE = (
    select(_MEMORY.number)
    .where(_MEMORY.wall_us < bindparam("instant_us"))
    .order_by(_MEMORY.wall_us.desc(), _MEMORY.number.desc())
    .limit(1)
)
_AFTER = (
    select(_MEMORY.number)
    .where(_MEMORY.wall_us > bindparam("instant_us"))
    .order_by(_MEMORY.wall_us, _MEMORY.number)
    .limit(1)
)
_SESSIONS = select(_MEMORY.number, _MEMORY.session).where(_MEMORY.number.in_(bindparam("numbers", expanding=True)))
_LAST = (1 << 63) - 1
_FEW_SESSIONS = 20  # each costs the engine 50 us, whether it has anything or not
_LOOKED_AT = 500  # of the newest that match in all sessions, before the many are asked for one by one

_Tag = Literal["session", "pod", "agent"]


@dataclass(frozen=True, slots=True)
class Among:
    """Which memories are searched."""

    sessions: Sequence[SessionId] | None = None  #: None for all there are
    pods: Sequence[PodId] = ()
    agent: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    before: int | None = None  #: only those with a smaller number: further ones of the same search


def index_memory(connection: Connection, memory: Memory) -> None:
    """Let a memory be found."""
    tags = [_tag("session", memory.session)]
    if memory.tape is not None:
        tags.append(_tag("pod", memory.tape.pod))
    if memory.agent is not None:
        tags.append(_tag("agent", memory.agent))
    turn = memory.turn
    body = spread("\n".join(part for part in (turn.prompt, turn.thought, turn.response) if part))
    connection.execute(_ADD, {"number": memory.number, "tags": " ".join(tags), "body": _encodable(body)})


def find_memories(connection: Connection, query: Query, among: Among, *, limit: int) -> list[int]:
    """The numbers of memories that match, newest first."""
    if among.sessions is not None and not among.sessions:
        return []
    after = 0
    before = among.before if among.before is not None else _LAST
    if among.since_us is not None:
        after = connection.execute(_BEFORE, {"instant_us": among.since_us}).scalar() or 0
    if among.until_us is not None:
        following = connection.execute(_AFTER, {"instant_us": among.until_us}).scalar()
        before = min(before, following) if following is not None else before
    span = {"before": before, "after": after}
    if among.sessions is not None and len(among.sessions) > _FEW_SESSIONS:
        everywhere = {"wanted": _expression(query, replace(among, sessions=None)), **span, "most": _LOOKED_AT}
        newest = connection.execute(_FIND, everywhere).scalars().all()
        own = _only_of(connection, newest, among.sessions)
        if len(own) >= limit or len(newest) < _LOOKED_AT:
            return own[:limit]
    wanted = {"wanted": _expression(query, among), **span, "most": limit}
    return [int(number) for number in connection.execute(_FIND, wanted).scalars()]


def _only_of(connection: Connection, numbers: Sequence[int], sessions: Sequence[SessionId]) -> list[int]:
    """Those numbers whose memories are of these sessions, in the same order."""
    wanted = frozenset(sessions)
    rows = connection.execute(_SESSIONS, {"numbers": list(numbers)})
    own = {row.number for row in rows if row.session in wanted}
    return [number for number in numbers if number in own]


def _expression(query: Query, among: Among) -> str:
    parts = [f"text : ({expression(query.terms)})"]
    if among.sessions is not None:
        parts.append(_any("session", among.sessions))
    if among.pods:
        parts.append(_any("pod", among.pods))
    if among.agent is not None:
        parts.append(_any("agent", [among.agent]))
    wanted = " AND ".join(parts)
    return f"({wanted}) NOT (text : ({_forbidden(query)}))" if query.without else wanted


def _forbidden(query: Query) -> str:
    """What a memory must not have."""
    return " OR ".join(expression((term,)) for term in query.without)


def _any(kind: _Tag, values: Sequence[str]) -> str:
    return f"tags : ({' OR '.join(_tag(kind, value) for value in values)})"


def _tag(kind: _Tag, value: str) -> str:
    """A word that nothing else is called by, whatever is in the value."""
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{kind}{digest}"


def _encodable(body: str) -> str:
    """Text as the engine takes it: what is no character is found by nobody."""
    return body.encode("utf-8", "replace").decode().replace("\0", " ")
