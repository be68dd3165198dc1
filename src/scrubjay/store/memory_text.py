"""The full-text index of memories.

Whose and where a memory is stands in the index as words of their own, so that a search for somebody's among a million
memories touches those few. Whose it is by the index is whose it was when it was written down: a session that was handed
over since is looked up by itself, and whoever gave it away does not find it any more. Numbers of memories grow with
time, so a span of time is a span of numbers, and the newest are found first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, bindparam, select, text

from scrubjay.fleet.memories import Memory
from scrubjay.fleet.parties import Party
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
_OWNERS = (
    select(_MEMORY.number, _MEMORY.session, schema.session.c.owner)
    .join_from(schema.memory, schema.session, schema.session.c.id == _MEMORY.session)
    .where(_MEMORY.number.in_(bindparam("numbers", expanding=True)))
)
_LAST = (1 << 63) - 1

_Tag = Literal["owner", "session", "pod", "agent"]


@dataclass(frozen=True, slots=True)
class Among:
    """Which memories are searched."""

    sessions: Sequence[SessionId] | None = None  #: None for all there are
    owner: Party | None = None  #: besides those sessions, all that are this party's own
    pods: Sequence[PodId] = ()
    agent: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    before: int | None = None  #: only those with a smaller number: further ones of the same search


def index_memory(connection: Connection, memory: Memory, owner: Party) -> None:
    """Let a memory be found; ``owner`` is whose session it is in."""
    tags = [_tag("owner", owner), _tag("session", memory.session)]
    if memory.tape is not None:
        tags.append(_tag("pod", memory.tape.pod))
    if memory.agent is not None:
        tags.append(_tag("agent", memory.agent))
    turn = memory.turn
    body = spread("\n".join(part for part in (turn.prompt, turn.thought, turn.response) if part))
    connection.execute(_ADD, {"number": memory.number, "tags": " ".join(tags), "body": _encodable(body)})


def find_memories(connection: Connection, query: Query, among: Among, *, limit: int) -> list[int]:
    """The numbers of memories that match, newest first."""
    if among.sessions is not None and not among.sessions and among.owner is None:
        return []
    after = 0
    before = among.before if among.before is not None else _LAST
    if among.since_us is not None:
        after = connection.execute(_BEFORE, {"instant_us": among.since_us}).scalar() or 0
    if among.until_us is not None:
        following = connection.execute(_AFTER, {"instant_us": among.until_us}).scalar()
        before = min(before, following) if following is not None else before
    wanted, found = _expression(query, among), list[int]()
    while True:
        span = {"wanted": wanted, "before": before, "after": after, "most": limit}
        numbers = [int(number) for number in connection.execute(_FIND, span).scalars()]
        found += numbers if among.owner is None else _still_among(connection, numbers, among)
        if len(numbers) < limit or len(found) >= limit:
            return found[:limit]
        before = numbers[-1]


def _still_among(connection: Connection, numbers: Sequence[int], among: Among) -> list[int]:
    """Those numbers whose memories are still the party's own, or of one of the sessions, in the same order."""
    sessions = frozenset(among.sessions or ())
    rows = connection.execute(_OWNERS, {"numbers": list(numbers)})
    own = {row.number for row in rows if row.owner == among.owner or row.session in sessions}
    return [number for number in numbers if number in own]


def _expression(query: Query, among: Among) -> str:
    parts = [f"text : ({expression(query.terms)})"]
    whose = [_tag("session", session) for session in among.sessions or ()]
    whose += [_tag("owner", among.owner)] if among.owner is not None else []
    for tags in (
        whose,
        [_tag("pod", pod) for pod in among.pods],
        [_tag("agent", among.agent)] if among.agent is not None else [],
    ):
        parts += [f"tags : ({' OR '.join(tags)})"] if tags else []
    wanted = " AND ".join(parts)
    return f"({wanted}) NOT (text : ({_forbidden(query)}))" if query.without else wanted


def _forbidden(query: Query) -> str:
    """What a memory must not have."""
    return " OR ".join(expression((term,)) for term in query.without)


def _tag(kind: _Tag, value: str) -> str:
    """A word that nothing else is called by, whatever is in the value."""
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{kind}{digest}"


def _encodable(body: str) -> str:
    """Text as the engine takes it: what is no character is found by nobody."""
    return body.encode("utf-8", "replace").decode().replace("\0", " ")
