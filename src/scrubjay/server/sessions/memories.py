"""Remembering, and finding again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from scrubjay.errors import BadInput, NoSuchSession, SessionFinished
from scrubjay.fleet.memories import Instant, Memory, Turn, check_turn
from scrubjay.fleet.sessions import Session
from scrubjay.fleet.untrusted import NOTE
from scrubjay.ids import PodId, SessionId
from scrubjay.query import parse_query
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.sessions.descriptions import describe_memory, page
from scrubjay.server.sessions.sessions import Entered, Sessions, held_error
from scrubjay.store import sessions as store
from scrubjay.store.memories import Appending, append_memory, list_memories, memories_of_numbers, memory_of_key
from scrubjay.store.memory_text import Among, find_memories
from scrubjay.tape.record import Json


class Memories:
    """What is remembered of sessions."""

    def __init__(self, reception: Reception, sessions: Sessions) -> None:
        self._reception, self._sessions = reception, sessions

    async def add(self, actor: Actor, turn: Turn, *, session: str | None = None, key: str | None = None) -> Json:
        """Append a turn to the session somebody is in, or to the one they name; with a key once.

        NoSuchSession, LeaseHeld, Fenced, SessionFinished, KeyReused. A person adds to one that nobody holds.
        """
        actor.require_changing()
        turn = _masked(check_turn(turn))
        if actor.is_person:
            return await self._add_for_person(actor, turn, session, None if key is None else f"person:{key}")
        reception, tape, agent = self._reception, self._instant(actor), self._agent(actor)

        def body(connection: Connection) -> Json:
            entered = self._sessions.enter(connection, actor, session)
            known = memory_of_key(connection, entered.session.id, key) if key is not None else None
            if known is None or known.turn != turn:  # what was done before is true, whoever holds the session now
                entered = self._sessions.hold(connection, actor, entered)
            there = entered.session
            how = Appending(there.id, there.epoch, "agent", agent=agent, key=key, tape=tape)
            memory, new = append_memory(connection, turn, how, wall_us=reception.wall_us)
            return _answer(entered, memory, new=new)

        return await reception.tower.database.write(body)

    async def _add_for_person(self, actor: Actor, turn: Turn, raw: str | None, key: str | None) -> Json:
        self._sessions.require_named(actor, raw)
        assert raw is not None
        reception = self._reception

        def body(connection: Connection) -> Json:
            session = self._sessions.find(connection, actor, raw)
            if session.state == "finished":
                raise SessionFinished(session.id)
            if session.state == "open" and not self._sessions.has_lapsed(session):
                raise held_error(session, self._sessions.free_in_s(session), reception.wall_us)
            how = Appending(session.id, session.epoch, "person", agent=actor.name, key=key)
            memory, new = append_memory(connection, turn, how, wall_us=reception.wall_us)
            return _answer(Entered(session), memory, new=new)

        return await reception.tower.database.write(body)

    async def list(
        self, actor: Actor, session: str | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> Json:
        """The memories of a session in order; the cursor leads to those after them."""
        after = _number(cursor)

        def body(connection: Connection) -> Json:
            found, told = self._readable_session(connection, actor, session)
            listed = list_memories(connection, found.id, after=after, limit=limit + 1)
            shown, cut = page(listed[:limit])
            more = cut or len(listed) > limit
            return {
                **told,
                "session_id": found.id,
                "last_seq": found.last_seq,
                "memories": [describe_memory(memory) for memory in shown],
                "cursor": str(shown[-1].seq) if more else None,
            }

        if session is not None or actor.is_person:
            return await self._reception.tower.database.read(body)
        return await self._reception.tower.database.write(body)  # who comes back with this call is resumed

    async def search(
        self,
        actor: Actor,
        raw: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        pod: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Json:
        """Memories that say something, newest first: one's own, and of pods whose terminal one may read."""
        query, before = parse_query(raw), _number(cursor) or None
        if query.kind is not None:
            raise BadInput("memories are neither typed nor shown", hint="leave typed: and shown: out")
        pods = [self._pod(actor, name) for name in ([pod] if pod is not None else []) + list(query.pods)]

        def body(connection: Connection) -> Json:
            owner = actor.party if session is None and not actor.is_person else None
            sessions = self._searched(connection, actor, session)
            among = Among(sessions, owner, pods, agent, since_us, until_us, before)
            numbers = find_memories(connection, query, among, limit=limit + 1)
            shown, cut = page(memories_of_numbers(connection, numbers[:limit]))
            more = cut or len(numbers) > limit
            return {
                "note": NOTE,
                "memories": [describe_memory(memory) for memory in shown],
                "cursor": str(shown[-1].number) if more else None,
            }

        return await self._reception.tower.database.read(body)

    def _pod(self, actor: Actor, raw: str) -> PodId:
        known = self._reception.find(actor, raw)
        self._reception.require(actor, known, "terminal:read")
        return PodId(known.report.id)

    def _searched(self, connection: Connection, actor: Actor, raw: str | None) -> Sequence[SessionId] | None:
        """The sessions that are searched besides one's own; None for all there are."""
        if raw is not None:
            return [self._readable_session(connection, actor, raw)[0].id]
        if actor.is_person:
            return None
        taken = store.sessions_taken_by(connection, actor.party)
        return list(dict.fromkeys([*taken, *self._lent(actor)]))

    def _lent(self, actor: Actor) -> list[SessionId]:
        """Sessions of pods whose terminal somebody may read."""
        reception = self._reception
        pods = reception.tower.pods.values()
        return [SessionId(pod.report.session) for pod in pods if "terminal:read" in reception.scopes(actor, pod)]

    def _readable_session(self, connection: Connection, actor: Actor, raw: str | None) -> tuple[Session, Json]:
        """A session somebody may read, and what they must be told about it."""
        self._sessions.require_named(actor, raw)
        if raw is None:
            entered = self._sessions.enter(connection, actor, None, begin=False)
            return entered.session, _told(entered)
        try:
            return self._sessions.find(connection, actor, raw), {}
        except NoSuchSession:
            found = store.find_session(connection, raw)
            if found is None or found.id not in self._lent(actor):
                raise
            return found, {"note": NOTE}

    def _agent(self, actor: Actor) -> str:
        """Which agent somebody is: of a pod what runs in it, if that is known."""
        known = self._reception.tower.pods.get(actor.pod) if actor.pod is not None else None
        return (known.report.agent if known is not None else None) or actor.name

    def _instant(self, actor: Actor) -> Instant | None:
        """This instant on the tape of somebody's pod."""
        if actor.pod is None:
            return None
        tower = self._reception.tower
        known = tower.pods.get(actor.pod)
        if known is None:
            return None
        at = max(0, tower.clock.wall_us() - known.report.created_us)
        return Instant(actor.pod, at, tower.tape_end(actor.pod) or 0)


def _answer(entered: Entered, memory: Memory, *, new: bool) -> Json:
    return {
        "session_id": memory.session,
        "seq": memory.seq,
        "epoch": memory.epoch,
        "repeated": None if new else True,
        **_told(entered),
    }


def _masked(turn: Turn) -> Turn:
    """The same with whatever looks like a key hidden, as on screens: it is about to be kept."""
    return replace(
        turn, prompt=mask_keys(turn.prompt), thought=mask_keys(turn.thought), response=mask_keys(turn.response)
    )


def _told(entered: Entered) -> Json:
    begun = "You were in no session, so a new one was begun." if entered.begun else None
    return {
        "new_session": True if entered.begun or not entered.resumed else None,
        "requested_id": entered.requested if not entered.resumed else None,
        "warning": entered.warning or begun,
    }


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise BadInput(f"{cursor[:40]!r} is no cursor", hint="give the one that came with the page before")
    return int(cursor)
