"""R22: an append whose answer got lost is repeated by its key: one row and the same answer, whoever asks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import cast

import httpx
import pytest

from scrubjay.errors import Fenced, KeyReused
from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.support.session_holders import HolderConnection, Holders, open_holders
from tests.support.tiers import sized
from tests.up.agents import Agent
from tests.up.cutting_proxy import open_cutting_proxy

pytestmark = pytest.mark.anyio

_ROUNDS = sized(20, 100, 5000)
_CUT, _LIVES = sized(20, 100, 1000), sized(4, 20, 200)


def _same(answer: Json) -> Json:
    """An answer, but for saying that it is not the first."""
    return {name: value for name, value in answer.items() if name not in ("repeated", "warning", "new_session")}


async def test_r22_an_append_that_is_repeated_by_its_key_is_one_row_and_the_same_answer(tmp_path: Path) -> None:
    chance = Random(22)
    async with open_holders(tmp_path) as holders:
        client = holders.connect("life-0")
        session = str((await client.resume())["session_id"])

        for number in range(1, _ROUNDS + 1):
            first = await client.add(f"turn {number}", key=f"k{number}")
            assert (first["seq"], first.get("repeated")) == (number, None)
            again, client = await _repeat(holders, client, session, number, chance)
            assert again["repeated"] is True
            assert _same(again) == _same(first)

        memories = await holders.memories(session)
        assert [memory.seq for memory in memories] == list(range(1, _ROUNDS + 1))
        assert [memory.turn.prompt for memory in memories] == [f"turn {number}" for number in range(1, _ROUNDS + 1)]
        assert len(await holders.events("memory.added")) == _ROUNDS


async def _repeat(
    holders: Holders, client: HolderConnection, session: str, number: int, chance: Random
) -> tuple[Json, HolderConnection]:
    """Ask again over the same connection, or over another that has taken the session; and who goes on."""
    text, key = f"turn {number}", f"k{number}"
    if chance.random() < 0.5:
        return await client.add(text, key=key), client
    other = holders.connect(f"life-{number}")
    back = await other.resume(session, takeover=True)
    assert back["last_seq"] == number
    again = await other.add(text, key=key)
    # Whoever lost it may learn what became of what it asked for, and add nothing.
    assert _same(await client.add(text, key=key)) == _same(again)
    with pytest.raises(Fenced):
        await client.add("late", key=f"late {number}")
    return again, other


async def test_r22_of_two_appends_with_one_key_at_once_one_is_a_row_and_both_are_answered_the_same(
    tmp_path: Path,
) -> None:
    async with open_holders(tmp_path) as holders:
        client = holders.connect("one")
        session = str((await client.resume())["session_id"])

        for number in range(1, _ROUNDS + 1):
            answers = await asyncio.gather(*(client.add(f"turn {number}", key=f"k{number}") for _ in range(2)))
            assert _same(answers[0]) == _same(answers[1])
            assert [answer.get("repeated") for answer in answers].count(True) == 1

        assert [memory.seq for memory in await holders.memories(session)] == list(range(1, _ROUNDS + 1))


async def test_r22_a_key_stands_for_what_it_was_first_used_for(tmp_path: Path) -> None:
    async with open_holders(tmp_path) as holders:
        client = holders.connect("one")
        await client.add("this", key="k")

        with pytest.raises(KeyReused):
            await client.add("that", key="k")


# Over the protocol.


@asynccontextmanager
async def _life(up: InProcessUp, way: str, token: str, version: str, name: str) -> AsyncGenerator[tuple[Agent, Raw]]:
    """A client that has begun, and the same one over a way on which its answers get lost."""
    async with connected(up.server.url, token) as http, connected(way, token) as cut_http:
        client, cut = Raw(http, version), Raw(cut_http, version)
        await client.open()
        cut.session = client.session
        if version == MODERN_VERSION:
            http.headers["Scrubjay-Connection"] = cut_http.headers["Scrubjay-Connection"] = name
        yield Agent(name, client, token), cut


@pytest.mark.parametrize("version", ["2025-06-18", MODERN_VERSION])
async def test_r22_an_append_whose_answer_is_cut_is_one_row_whoever_repeats_it(up: InProcessUp, version: str) -> None:
    token = await up.token("agent", name="ann")
    session: str | None = None
    last: tuple[Json, Json] | None = None
    number = 0
    async with open_cutting_proxy(up.server.url) as way:
        for life in range(_LIVES):
            async with _life(up, way, token, version, f"life-{life}") as (agent, cut):
                begun = await agent.call("resume_session", session_id=session, takeover=session is not None)
                session = str(begun["session_id"])
                if last is not None:  # what was asked for over the connection before, too
                    assert _same(await agent.call("add_memory", **last[0])) == _same(last[1])
                for _ in range(_CUT // _LIVES):
                    number += 1
                    turn: Json = {"prompt": f"turn {number}", "idempotency_key": f"k{number}"}

                    with pytest.raises(httpx.HTTPError):
                        await cut.ask("tools/call", name="add_memory", arguments=turn)
                    first = await agent.call("add_memory", **turn)
                    second = await agent.call("add_memory", **turn)

                    assert _same(first) == _same(second)
                    assert (first["seq"], first["repeated"]) == (number, True)
                    last = turn, first
        async with connected(up.server.url, token) as http:
            prompts = await _prompts(Agent("ann", Raw(http, MODERN_VERSION), token), session)

    assert number == _CUT
    assert prompts == [f"turn {number}" for number in range(1, _CUT + 1)]


async def _prompts(agent: Agent, session: str | None) -> list[object]:
    """What was asked in a session, by all its memories in order."""
    found: list[object] = []
    cursor: object = None
    while True:
        page = await agent.call("get_session_memories", session_id=session, limit=200, cursor=cursor)
        found += [memory["prompt"] for memory in cast(list[Json], page["memories"])]
        cursor = page.get("cursor")
        if cursor is None:
            return found
