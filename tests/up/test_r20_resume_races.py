"""R20: of all who resume one session at once exactly one has it, and the others know who has it and go on elsewhere."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import cast

import pytest

from scrubjay.errors import Fenced
from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.support.session_holders import HolderConnection, open_holders
from tests.support.tiers import sized
from tests.up.agents import Agent

pytestmark = pytest.mark.anyio

_RACES = sized(40, 100, 5000)  # fewer would not let each of five win
_TAKEOVERS = sized(10, 100, 1000)
_HTTP_RACES = {2: sized(20, 100, 1000), 5: sized(10, 40, 1000)}
_HELD = re.compile(r"NOT RESUMED: session \w{26} is held by (\w+), and is free ([0-9]+) s after it was last heard of;")


def _judge(answers: list[Json], session: str) -> tuple[int, list[Json]]:
    """Who has won, and what the others were told; AssertionError unless exactly one has."""
    won = [number for number, answer in enumerate(answers) if answer["resumed"]]
    assert len(won) == 1, answers
    winner = answers[won[0]]
    assert (winner["session_id"], winner["requested_id"]) == (session, session)
    assert winner.get("reason") is None
    assert winner.get("warning") is None
    lost = [answer for answer in answers if not answer["resumed"]]
    for answer in lost:
        assert (answer["reason"], answer["requested_id"]) == ("held", session)
        held = _HELD.match(str(answer["warning"]))
        assert held is not None, answer
        assert held[1] == "ann"
        assert 0 < int(held[2]) <= 60
        assert str(answer["session_id"]) in str(answer["warning"])
    others = {str(answer["session_id"]) for answer in lost}
    assert len(others) == len(lost)
    assert session not in others
    return won[0], lost


@pytest.mark.parametrize("contenders", [2, 5])
async def test_r20_of_those_who_resume_a_free_session_at_once_one_has_it_and_the_audit_says_so(
    tmp_path: Path, contenders: int
) -> None:
    chance = Random(20)
    async with open_holders(tmp_path) as holders:
        clients = [holders.connect(f"client-{number}") for number in range(contenders)]
        session = str((await clients[0].resume())["session_id"])
        await clients[0].let_go(session)
        winners: list[str] = []
        refused: list[str] = []
        epochs: list[int] = []

        for _ in range(_RACES):
            chance.shuffle(clients)
            answers = await _race(clients, session)
            won, lost = _judge(answers, session)
            winners.append(clients[won].name)
            epochs.append(cast(int, answers[won]["epoch"]))
            refused += [str(answer["session_id"]) for answer in lost]
            await clients[won].let_go(session)

        assert len(set(winners)) == contenders, "always the same one has won"
        assert epochs == list(range(2, _RACES + 2))
        granted = [event.data for event in await holders.events("session.resumed", "session.taken_over")]
        assert [str(data["holder"]).rpartition(":")[2] for data in granted] == winners
        assert [data["epoch"] for data in granted] == epochs
        refusals = [event.data for event in await holders.events("session.refused")]
        assert {(data["requested"], data["reason"]) for data in refusals} == {(session, "held")}
        assert Counter(data["session"] for data in refusals) == Counter(refused)
        print(f"{_RACES} races of {contenders}: {dict(Counter(winners))}, {len(refusals)} refused")


async def _race(clients: list[HolderConnection], session: str) -> list[Json]:
    barrier = asyncio.Barrier(len(clients))

    async def run(client: HolderConnection) -> Json:
        async with barrier:
            return await client.resume(session)

    return list(await asyncio.gather(*map(run, clients)))


async def test_r20_who_loses_a_session_is_told_with_the_next_call_and_takes_nothing_back(tmp_path: Path) -> None:
    async with open_holders(tmp_path) as holders:
        loser, taker = holders.connect("one"), holders.connect("two")
        session = str((await loser.resume())["session_id"])

        for number in range(_TAKEOVERS):
            await loser.add(f"turn {number}")
            asked = await taker.resume(session)
            assert (asked["resumed"], asked["reason"]) == (False, "held")
            taken = await taker.resume(session, takeover=True)
            assert taken["resumed"] is True

            with pytest.raises(Fenced) as fenced:
                await loser.add(f"late {number}")
            assert fenced.value.session == session
            assert fenced.value.epoch == taken["epoch"]
            with pytest.raises(Fenced):  # however often it tries
                await loser.add(f"late {number}")
            loser, taker = taker, loser

        prompts = [memory.turn.prompt for memory in await holders.memories(session)]
        assert prompts == [f"turn {number}" for number in range(_TAKEOVERS)]
        assert [event.data["epoch"] for event in await holders.events("session.taken_over")] == list(
            range(2, _TAKEOVERS + 2)
        )
        assert await holders.events("session.resumed") == []


# Over the protocol.


@asynccontextmanager
async def _contenders(up: InProcessUp, number: int) -> AsyncGenerator[list[Agent]]:
    """Clients of one agent, every other one with a handshake."""
    token = await up.token("agent", name="ann")
    async with AsyncExitStack() as stack:
        agents: list[Agent] = []
        for index in range(number):
            http = await stack.enter_async_context(connected(up.server.url, token))
            raw = Raw(http, "2025-06-18" if index % 2 else MODERN_VERSION)
            if not index % 2:
                http.headers["Scrubjay-Connection"] = f"client-{index}"
            await raw.open()
            agents.append(Agent(f"client-{index}", raw, token))
        yield agents


@pytest.mark.parametrize("contenders", [2, 5])
async def test_r20_of_those_who_resume_over_http_at_once_one_has_it_and_each_other_has_a_session_to_go_on_in(
    up: InProcessUp, contenders: int
) -> None:
    chance, winners = Random(21), Counter[str]()
    took_s = [0.01]  # each time somebody asked
    async with _contenders(up, contenders) as clients:
        session = str((await clients[0].call("resume_session"))["session_id"])
        await clients[0].call("finish_session", only_leave=True)

        for _ in range(_HTTP_RACES[contenders]):
            chance.shuffle(clients)
            barrier = asyncio.Barrier(contenders)

            async def run(client: Agent, barrier: asyncio.Barrier = barrier) -> Json:
                async with barrier:
                    # Without a head start it is always one who needs no look at its protocol session. A busy machine
                    # answers late, and there a start counts that is as much earlier.
                    await asyncio.sleep(chance.uniform(0, took_s[-1]))
                    began_s = time.monotonic()
                    answer = await client.call("resume_session", session_id=session)
                    took_s.append(time.monotonic() - began_s)
                    return answer

            answers = list(await asyncio.gather(*map(run, clients)))
            won, _ = _judge(answers, session)
            winners[clients[won].name] += 1
            for client, answer in zip(clients, answers, strict=True):
                added = await client.call("add_memory", prompt="I go on")
                assert added["session_id"] == answer["session_id"]
                if client is not clients[won]:
                    assert added["seq"] == 1
            await clients[won].call("finish_session", only_leave=True)

        print(f"{_HTTP_RACES[contenders]} races of {contenders} over HTTP: {dict(winners)}")
        assert len(winners) > 1, "always the same one has won"
        told = await clients[0].call("get_session_memories", session_id=session)
        assert told["last_seq"] == _HTTP_RACES[contenders]


async def test_r20_who_is_taken_over_from_is_told_by_name_and_reason_over_http(up: InProcessUp) -> None:
    async with _contenders(up, 2) as [one, two]:
        session = str((await one.call("resume_session"))["session_id"])
        await one.call("add_memory", prompt="before")
        await two.call("resume_session", session_id=session, takeover=True)

        refused = await one.refusal("add_memory", prompt="late")
        await two.call("add_memory", prompt="after")

        assert refused["code"] == "fenced"
        assert "another connection (ann) has it now" in str(refused["message"])
        assert "takeover=true" in str(refused["hint"])
        listed = cast(list[Json], (await two.call("get_session_memories"))["memories"])
        assert [memory["prompt"] for memory in listed] == ["before", "after"]
