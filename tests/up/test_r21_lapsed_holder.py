"""R21: who was silent for so long that another has its session writes nothing into it any more, and is told why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import cast
from unittest import mock

import pytest

from scrubjay.errors import Fenced
from scrubjay.ids import SessionId
from scrubjay.server.sessions import sessions as sessions_room
from scrubjay.settings import Settings
from scrubjay.store.database import Database
from scrubjay.store.sessions import get_session
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.support.session_holders import open_holders
from tests.support.tiers import sized
from tests.up.agents import Agent

pytestmark = pytest.mark.anyio

_ROUNDS = sized(20, 100, 5000)
_LEASE_S = 60


@pytest.mark.parametrize("looked_after", [True, False], ids=["suspended-meanwhile", "found-lapsed"])
async def test_r21_a_holder_that_was_silent_beyond_its_lease_is_fenced_once_another_has_the_session(
    tmp_path: Path, *, looked_after: bool
) -> None:
    chance = Random(21)
    settings = Settings(data=tmp_path, lease_s=_LEASE_S)
    expected: list[tuple[str, int]] = []
    async with open_holders(tmp_path, settings=settings) as holders:
        with mock.patch.object(sessions_room, "LOOK_EVERY_S", 0.001):
            looking = asyncio.create_task(holders.coordination.sessions.run()) if looked_after else None
            silent, other = holders.connect("one"), holders.connect("two")
            begun = await silent.resume()
            session, epoch = str(begun["session_id"]), cast(int, begun["epoch"])

            for number in range(_ROUNDS // 2):
                await silent.add(f"before {number}")
                expected.append((f"before {number}", epoch))
                holders.clock.advance(_LEASE_S - 1)
                early = await other.resume(session)
                assert (early["resumed"], early["reason"]) == (False, "held")
                holders.clock.advance(1 + chance.random())
                if looking is not None:
                    await _suspended(holders.coordination.tower.database, session)
                back = await other.resume(session)
                assert back["resumed"] is True
                assert back["epoch"] == epoch + 1
                epoch += 1

                with pytest.raises(Fenced) as fenced:
                    await silent.add(f"late {number}", key=f"late {number}")

                assert (fenced.value.session, fenced.value.epoch, fenced.value.by) == (session, epoch, "ann")
                silent, other = other, silent
            if looking is not None:
                looking.cancel()
                await asyncio.wait([looking])

        memories = await holders.memories(session)
        assert [(memory.turn.prompt, memory.epoch) for memory in memories] == expected
        assert [memory.seq for memory in memories] == list(range(1, len(expected) + 1))
        assert len(await holders.events("memory.added")) == len(expected)
        assert await holders.events("session.taken_over") == []
        suspended = await holders.events("session.suspended")
        of_it = [event for event in suspended if event.data["session"] == session]
        assert len(of_it) == (_ROUNDS // 2 if looked_after else 0)


async def _suspended(database: Database, session: str) -> None:
    """Return when nobody has a session."""
    async with asyncio.timeout(DEADLINE_S):
        while (await database.read(lambda on: get_session(on, SessionId(session)))).state == "open":
            await asyncio.sleep(0.001)


async def test_r21_a_holder_that_was_silent_and_lost_nothing_to_anybody_goes_on_with_the_same_epoch(
    tmp_path: Path,
) -> None:
    async with open_holders(tmp_path) as holders:
        one = holders.connect("one")
        session = str((await one.resume())["session_id"])
        await one.add("before")
        holders.clock.advance(3600)

        added = await one.add("after")

        assert (added["session_id"], added["seq"], added["epoch"]) == (session, 2, 1)


async def test_r21_an_epoch_that_is_said_and_is_stale_is_refused_although_the_connection_is_the_same(
    up: InProcessUp,
) -> None:
    token = await up.token("agent", name="ann")
    async with connected(up.server.url, token) as http:
        client = Agent("ann", Raw(http, MODERN_VERSION), token)
        begun = await client.call("resume_session")
        session, stale = str(begun["session_id"]), cast(int, begun["epoch"])
        again = await client.call("resume_session", session_id=session)
        assert cast(int, again["epoch"]) == stale + 1

        http.headers["Scrubjay-Epoch"] = str(stale)
        refused = await client.refusal("add_memory", prompt="late")
        http.headers["Scrubjay-Epoch"] = str(again["epoch"])
        added = await client.call("add_memory", prompt="in time")

        assert refused["code"] == "fenced"
        assert added["seq"] == 1
        listed = cast(list[Json], (await client.call("get_session_memories"))["memories"])
        assert [memory["prompt"] for memory in listed] == ["in time"]
