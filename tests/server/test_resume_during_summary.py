"""Appending to a session and resuming it while it is being summarised: nothing waits, nothing is summed up twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from scrubjay.ids import SessionId
from scrubjay.server.sessions import summaries as summaries_room
from scrubjay.server.sessions.summaries import Summaries
from scrubjay.settings import Settings
from scrubjay.store.summaries import list_summaries
from scrubjay.store.summary_jobs import job_of
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until
from tests.support.session_holders import Holders, open_holders
from tests.support.tiers import sized

pytestmark = pytest.mark.anyio

_ROUNDS = sized(3, 20, 300)
_LEFT_S = 300


class _Summariser:
    """A command that says it has begun, and ends when the test says so."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._go_on, self.path = folder / "begun", folder / "go-on", folder / "sum.sh"
        os.mkfifo(self._go_on)
        self.path.write_text(f"#!/bin/sh\ncat > {folder}/turns\necho > {self._begun}\ncat {self._go_on}\n")
        self.path.chmod(0o755)

    async def has_begun(self) -> None:
        """Return when it is at it."""
        await until(self._begun.exists, "the summary is being made")
        self._begun.unlink()

    async def finish(self, text: str) -> None:
        """Let it say something and end."""
        await asyncio.to_thread(self._go_on.write_text, text)


@asynccontextmanager
async def _working(holders: Holders, settings: Settings) -> AsyncGenerator[None]:
    room = Summaries(holders.coordination.reception, settings, {"PATH": os.environ["PATH"]})
    with mock.patch.object(summaries_room, "LOOK_EVERY_S", 0.01):
        task = asyncio.create_task(room.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _ranges(holders: Holders, session: str) -> list[tuple[int, int, str]]:
    listed = await holders.coordination.tower.database.read(lambda on: list_summaries(on, SessionId(session)))
    return [(each.from_seq, each.to_seq, each.text) for each in listed]


async def _settled(holders: Holders, session: str) -> None:
    """Return when nothing of a session is being summed up."""
    async with asyncio.timeout(DEADLINE_S):
        while await holders.coordination.tower.database.read(lambda on: job_of(on, SessionId(session))) is not None:
            await asyncio.sleep(0.005)


async def test_who_resumes_and_appends_during_a_summary_is_not_held_up_and_each_memory_is_summed_up_once(
    tmp_path: Path,
) -> None:
    summariser = _Summariser(tmp_path)
    settings = Settings(data=tmp_path, summary_command=(str(summariser.path),), summarise_after_s=_LEFT_S)
    async with open_holders(tmp_path, settings=settings) as holders, _working(holders, settings):
        client = holders.connect("one")
        session = str((await client.resume())["session_id"])
        count = 0
        for number in range(_ROUNDS):
            await client.add(f"turn {(count := count + 1)}")
            await client.add(f"turn {(count := count + 1)}")
            await client.let_go(session)
            holders.clock.advance(_LEFT_S + 1)
            await summariser.has_begun()
            covered = count

            client = holders.connect(f"next {number}")
            back = await client.resume(session)
            during = [await client.add(f"turn {(count := count + 1)}") for _ in range(3)]

            assert (back["resumed"], back["last_seq"], back["warning"]) == (True, covered, None)
            assert [added["seq"] for added in during] == list(range(covered + 1, covered + 4))
            await summariser.finish(f"summary {number}")
            await _settled(holders, session)
            shown = cast(Json, (await client.resume(session))["summary"])
            assert (shown["to_seq"], shown["text"]) == (covered, f"summary {number}")

        ranges = await _ranges(holders, session)
        assert [text for _, _, text in ranges] == [f"summary {number}" for number in range(_ROUNDS)]
        assert ranges[0][0] == 1
        assert all(one[1] + 1 == other[0] for one, other in pairwise(ranges))
        assert ranges[-1][1] == count - 3, "what came after it was begun is for the next"
        assert [memory.seq for memory in await holders.memories(session)] == list(range(1, count + 1))
        assert len(await holders.events("summary.made")) == _ROUNDS


async def test_who_resumes_before_a_summary_has_begun_cancels_it(tmp_path: Path) -> None:
    summariser = _Summariser(tmp_path)
    settings = Settings(data=tmp_path, summary_command=(str(summariser.path),), summarise_after_s=_LEFT_S)
    async with open_holders(tmp_path, settings=settings) as holders, _working(holders, settings):
        busy, waiting = holders.connect("busy"), holders.connect("waiting")
        first, second = [str((await client.resume())["session_id"]) for client in (busy, waiting)]
        await busy.add("one")
        await waiting.add("two")
        await busy.ask_for_summary(first)
        await summariser.has_begun()  # one is made at a time, and the other waits
        await waiting.let_go(second)
        assert (await waiting.ask_for_summary(second))["asked"] is True

        back = await holders.connect("again").resume(second)
        await summariser.finish("of the first")
        await _settled(holders, first)

        assert back["resumed"] is True
        await _settled(holders, second)
        assert [event.data["session"] for event in await holders.events("summary.cancelled")] == [second]
        assert await _ranges(holders, first) == [(1, 1, "of the first")]
        assert await _ranges(holders, second) == []
