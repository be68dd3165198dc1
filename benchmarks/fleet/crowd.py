"""A fleet of a thousand pods that have a lot to do with each other, in a catalog alone: nothing of it runs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random

from sqlalchemy import Connection, insert, update

from scrubjay.cli.machinery import CATALOG
from scrubjay.fleet.access import Scope
from scrubjay.fleet.messages import Channel
from scrubjay.fleet.parties import Party, session_party
from scrubjay.fleet.waits import Wait
from scrubjay.ids import (
    PodId,
    PodName,
    new_pod_id,
    new_record_id,
    new_runner_id,
    new_session_id,
)
from scrubjay.store import schema
from scrubjay.store.bindings import accept_binding, request_binding
from scrubjay.store.channels import create_channel, join_channel
from scrubjay.store.events import last_number
from scrubjay.store.pods import PodFacts, add_pod
from scrubjay.store.runners import connect_runner
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.status import Status, set_status
from scrubjay.store.waits import begin_wait, end_wait
from scrubjay.tape.record import Json

PODS, RUNNERS, BINDINGS, WAITS, CHANNELS, MESSAGES = 1_000, 20, 500, 1_000, 50, 10_000
MEMBERS = 20  # of each channel
ENDED_WAITS = 1_000
CIRCLES, CIRCLE = 10, 3  # of so many waits each
PENDING = 100  # bindings that are waited for
PEERS = 3  # whom each member of a channel writes to
AGE_S = 7_200  # since when they are there, and talk
WAITED_S = 1_200  # since when they wait: not so long that it would be too long
_SCOPES: frozenset[Scope] = frozenset({"terminal:read"})
_EVIDENCE: Json = {
    "detail": "Run this command?",
    "at": 81_234_567,
    "offset": 1_048_576,
    "signals": [{"signal": "program", "why": "program: blocked permission"}, {"signal": "screen", "why": "a dialog"}],
}


def fill(data: Path) -> None:
    """Make a catalog with all of it in a data directory."""
    asyncio.run(_fill(data / CATALOG))


async def _fill(path: Path) -> None:
    database = await SqliteDatabase.open(path)
    try:
        await database.write(lambda connection: _Crowd(connection).gather())
    finally:
        await database.close()


class _Crowd:
    """Everybody, and a clock."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._rng = connection, Random(7)
        self._end_us = time.time_ns() // 1000
        self._now_us = self._end_us - AGE_S * 1_000_000
        self._parties: list[Party] = []
        self._pods: list[PodId] = []
        self._seqs: dict[str, int] = {}  #: of channels

    def gather(self) -> None:
        """All of it."""
        self._start()
        self._work()
        channels = self._meet()
        early = MESSAGES * (AGE_S - WAITED_S) // AGE_S
        self._talk(channels, early, until_us=self._end_us - WAITED_S * 1_000_000)
        self._bind()
        self._wait()
        self._talk(channels, MESSAGES - early, until_us=self._end_us)

    def _tick(self) -> int:
        self._now_us += 1_000
        return self._now_us

    def _start(self) -> None:
        runners = [new_runner_id() for _ in range(RUNNERS)]
        for number, runner in enumerate(runners):
            name = f"box-{number}"
            connect_runner(self._connection, runner, name=name, host=name, version="1", wall_us=self._tick())
        for number in range(PODS):
            facts = PodFacts(
                id=new_pod_id(),
                name=PodName(f"agent-{number}"),
                session=new_session_id(),
                runner=runners[number % RUNNERS],
                argv=("claude", "--dangerously-skip-permissions"),
                cwd=f"/home/me/worktrees/agent-{number}",
                cols=120,
                rows=36,
                agent="claude",
                repository="/home/me/project",
                branch=f"scrubjay/agent-{number}",
                worktree=f"agent-{number}",
                imported=False,
                created_us=self._tick(),
            )
            add_pod(self._connection, facts, Status("running"), wall_us=self._now_us)
            self._pods.append(facts.id)
            self._parties.append(session_party(facts.session))

    def _work(self) -> None:
        for activity in ("executing", "idle", "executing"):
            for pod in self._pods:
                set_status(
                    self._connection,
                    pod,
                    process="running",
                    activity=activity,
                    evidence=_EVIDENCE,
                    confidence=0.9,
                    wall_us=self._tick(),
                )

    def _meet(self) -> list[tuple[Channel, list[Party]]]:
        channels: list[tuple[Channel, list[Party]]] = []
        for number in range(CHANNELS):
            members = self._rng.sample(self._parties, MEMBERS)
            channel = create_channel(
                self._connection,
                new_record_id(),
                f"team-{number}",
                kind="open",
                purpose="what we work on",
                by=members[0],
                wall_us=self._tick(),
            )
            for party in members:
                join_channel(self._connection, channel, party, wall_us=self._tick())
            channels.append((channel, members))
        return channels

    def _bind(self) -> None:
        pairs = self._rng.sample(range(PODS * PODS), 2 * BINDINGS)
        chosen = [divmod(pair, PODS) for pair in pairs if pair // PODS != pair % PODS][:BINDINGS]
        for number, (one, other) in enumerate(chosen):
            binding = request_binding(
                self._connection,
                initiator=self._parties[one],
                target=self._parties[other],
                scopes=_SCOPES,
                by="me",
                reason="to review what it does",
                wall_us=self._tick(),
            )
            if number >= PENDING:
                accept_binding(self._connection, binding, by="me", wall_us=self._tick())

    def _wait(self) -> None:
        """Waits that have ended, then those that are open: a few circles, and a forest in which most wait for few."""
        for _ in range(ENDED_WAITS):
            one, other = self._rng.sample(range(PODS), 2)
            end_wait(self._connection, self._begin(one, other), "met", "it was handed over", wall_us=self._tick())
        for first in range(0, CIRCLES * CIRCLE, CIRCLE):
            for place in range(CIRCLE):
                self._begin(first + place, first + (place + 1) % CIRCLE)
        for number in range(CIRCLES * CIRCLE, WAITS - PENDING):
            self._begin(number, self._rng.randrange(max(0, number - 30), number))

    def _begin(self, one: int, other: int) -> Wait:
        wait = Wait(
            new_record_id(),
            self._parties[one],
            "pod",
            "declared",
            on=self._parties[other],
            reason="needs the schema before it can go on",
            evidence={"pod": self._pods[one], "offset": 1_048_576},
        )
        return begin_wait(self._connection, wait, wall_us=self._tick())

    def _talk(self, channels: list[tuple[Channel, list[Party]]], count: int, *, until_us: int) -> None:
        """Messages at an even pace, written as the catalog keeps them: one by one takes a quarter of a minute."""
        number, seqs, begin_us = last_number(self._connection), self._seqs, self._now_us
        messages, deliveries, events = list[Json](), list[Json](), list[Json]()
        for index in range(count):
            channel, members = self._rng.choice(channels)
            place = self._rng.randrange(MEMBERS)
            author, to = members[place], members[(place + 1 + index % PEERS) % MEMBERS]
            seqs[channel.id] = seqs.get(channel.id, 0) + 1
            number += 1
            where: Json = {"channel": channel.id, "seq": seqs[channel.id]}
            self._now_us = begin_us + (until_us - begin_us) * index // count
            said: Json = {"author": author, "author_name": "agent", "mentions": [to], "reply_to": None, "asks": False}
            messages.append(
                {**where, **said, "text": "it is done", "about": {}, "wall_us": self._now_us, "event": number}
            )
            queued: Json = {"state": "queued", "queued_us": self._now_us, "queued_event": number, "attempts": 0}
            deliveries.append({**where, "party": to, **queued})
            events.append(
                {"number": number, "wall_us": self._now_us, "kind": "message.posted", "pod": None, "data": where | said}
            )
        self._connection.execute(insert(schema.event), events)
        self._connection.execute(insert(schema.message), messages)
        self._connection.execute(insert(schema.delivery), deliveries)
        self._connection.execute(update(schema.clock).values(number=number, wall_us=self._now_us))
