"""A million memories in a catalog, of agents in pods and outside: nothing of it runs.

Words are as rare and as common as in real text: the second is half as frequent as the first, the hundredth a hundredth.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from sqlalchemy import Connection, insert, update

from scrubjay.cli.machinery import CATALOG
from scrubjay.clock import SystemClock
from scrubjay.fleet.memories import Instant, Memory, Turn
from scrubjay.fleet.parties import Party, agent_party
from scrubjay.ids import PodId, PodName, SessionId, new_pod_id, new_runner_id, new_session_id
from scrubjay.server.credentials import Credentials
from scrubjay.store import schema
from scrubjay.store.events import last_number
from scrubjay.store.memories import memory_row
from scrubjay.store.memory_text import index_memory
from scrubjay.store.pod_sessions import follow_pod
from scrubjay.store.pods import PodFacts, add_pod
from scrubjay.store.runners import connect_runner
from scrubjay.store.sessions import open_session
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.status import Status
from scrubjay.tape.record import Json

MEMORIES = 1_000_000
PODS, OTHERS, OTHER_SESSIONS = 200, 8, 100  # sessions of pods, and of each of some agents
MANY_SESSIONS = 1_000  # of each of two more: one has half of all memories, the other has hardly any
SPARSE = 0.01  # of all memories, in the sessions of the second
DAYS = 90
WORDS = 60_000
PROMPT_WORDS, RESPONSE_WORDS = 12, 40
_BATCH = 1_000  # in a transaction
_Home = tuple[SessionId, str, PodId | None]
_DAY_US = 24 * 3600 * 1_000_000
_SYLLABLES = [first + vowel for first in "bcdfghjklmnprstvwz" for vowel in "aeiou"]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was put there."""

    words: list[str]  #: the most common one first
    sessions: list[SessionId]
    pods: list[PodId]
    agents: list[str]
    token: str  #: of an agent that has a thousand sessions, and half of all memories
    sparse_token: str  #: of one that has as many, and a hundredth
    other_token: str  #: of one that has a hundred sessions
    begun_us: int
    filled_s: float
    megabytes: float


def fill(data: Path) -> Remembered:
    """Make a catalog with all of it in a data directory."""
    return asyncio.run(_fill(data / CATALOG))


async def _fill(path: Path) -> Remembered:
    database = await SqliteDatabase.open(path)
    began = time.perf_counter()
    try:
        begun_us = time.time_ns() // 1000 - DAYS * _DAY_US
        credentials = Credentials(database, _StoppedClock(begun_us))
        made = [await credentials.create_token("agent", name=f"agent-{number}") for number in range(OTHERS + 2)]
        library = await database.write(lambda on: _Library(on, [agent_party(token.row.id) for token in made], begun_us))
        for _ in range(MEMORIES // _BATCH):
            await database.write(library.add_batch)
        await database.write(library.finish)
    finally:
        await database.close()
    return Remembered(
        library.words,
        library.sessions,
        library.pods,
        library.agents,
        made[0].text,
        made[1].text,
        made[2].text,
        library.begun_us,
        time.perf_counter() - began,
        path.stat().st_size / 1e6,
    )


class _StoppedClock(SystemClock):
    """Shows when it all began."""

    def __init__(self, wall_us: int) -> None:
        self._wall_us = wall_us

    def wall_us(self) -> int:
        return self._wall_us


class _Library:
    """Everybody who remembers, and a clock."""

    def __init__(self, connection: Connection, parties: list[Party], begun_us: int) -> None:
        self._rng = Random(7)
        self.words = _vocabulary(self._rng)
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(WORDS)))
        self.begun_us = begun_us
        self._step_us = DAYS * _DAY_US // MEMORIES
        self.pods: list[PodId] = []
        self.agents = ["claude", "codex", *(f"agent-{number}" for number in range(OTHERS + 2))]
        self._homes: list[_Home] = []
        self._owners: dict[SessionId, Party] = {}
        self._add_pods(connection)
        sparse: list[_Home] = []
        for number, party in enumerate(parties):
            homes = sparse if number == 1 else self._homes
            for _ in range(MANY_SESSIONS if number < 2 else OTHER_SESSIONS):
                session = open_session(
                    connection, owner=party, holder=None, held_by=f"agent-{number}", wall_us=self.begun_us
                )
                self._owners[session.id] = party
                homes.append((session.id, f"agent-{number}", None))
        self._sparse = sparse
        self.sessions = [session for session, _, _ in self._homes]
        self._counts = dict.fromkeys([session for session, _, _ in (*self._homes, *sparse)], 0)
        self._number = last_number(connection)
        self._added = 0

    def _add_pods(self, connection: Connection) -> None:
        runner = new_runner_id()
        connect_runner(connection, runner, name="box", host="box", version="1", wall_us=self.begun_us)
        for number in range(PODS):
            agent = self.agents[number % 2]
            facts = PodFacts(
                id=new_pod_id(),
                name=PodName(f"pod-{number}"),
                session=new_session_id(),
                runner=runner,
                argv=(agent,),
                cwd="/home/me/project",
                cols=120,
                rows=36,
                agent=agent,
                repository=None,
                branch=None,
                worktree=None,
                imported=False,
                created_us=self.begun_us,
            )
            add_pod(connection, facts, Status("exited"), wall_us=self.begun_us)
            follow_pod(connection, facts, ended="exit 0", new=True, wall_us=self.begun_us)
            self.pods.append(facts.id)
            self._homes.append((facts.session, agent, facts.id))

    def add_batch(self, connection: Connection) -> None:
        """The next thousand. The rows as the schema has them, many at a time; the index by the store's own function."""
        memories = [self._make() for _ in range(_BATCH)]
        connection.execute(insert(schema.event), [_event(memory) for memory in memories])
        connection.execute(insert(schema.memory), [memory_row(memory) for memory in memories])
        for memory in memories:
            index_memory(connection, memory, self._owners.get(memory.session, Party(memory.session)))

    def _make(self) -> Memory:
        session, agent, pod = self._rng.choice(self._sparse if self._rng.random() < SPARSE else self._homes)
        self._counts[session] += 1
        self._added += 1
        turn = Turn(self._text(PROMPT_WORDS), "", self._text(RESPONSE_WORDS), "a-model", ("Bash", "Edit"), 1500)
        tape = None if pod is None else Instant(pod, self._added, self._added)
        wall_us = self.begun_us + self._added * self._step_us
        return Memory(
            *(session, self._counts[session], turn, "agent", 1, wall_us, self._number + self._added),
            *(f"key-{self._added}", agent, tape),
        )

    def _text(self, length: int) -> str:
        return " ".join(self._rng.choices(self.words, cum_weights=self._weights, k=length))

    def finish(self, connection: Connection) -> None:
        """Let each session know how many it has, and the catalog where it is."""
        last_us = self.begun_us + self._added * self._step_us
        for session, count in self._counts.items():
            row = update(schema.session).where(schema.session.c.id == session)
            connection.execute(row.values(last_seq=count, used_us=last_us))
        connection.execute(update(schema.clock).values(number=self._number + self._added, wall_us=last_us))


def _vocabulary(rng: Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(found)


def _event(memory: Memory) -> Json:
    data: Json = {"session": memory.session, "seq": memory.seq, "source": memory.source}
    pod = memory.tape.pod if memory.tape is not None else None
    return {"number": memory.number, "wall_us": memory.wall_us, "kind": "memory.added", "pod": pod, "data": data}
