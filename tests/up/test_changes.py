"""The fleet's changes over a WebSocket: numbered, in order, none left out and none twice."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed

from scrubjay.server.changes import RECENT
from scrubjay.store.events import append_event
from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp, Onlooker

pytestmark = pytest.mark.anyio


async def _numbers(listener: Onlooker, until: int) -> list[int]:
    numbers: list[int] = []
    while not numbers or numbers[-1] < until:
        message = await listener.next()
        if isinstance(message, dict) and message["type"] == "change":
            numbers.append(cast(int, message["number"]))
    return numbers


async def _happen(up: InProcessUp, count: int) -> int:
    """Let so many things happen at once; the last number."""
    write = up.server.tower.database.write
    body = partial(append_event, kind="test.happened", wall_us=0)
    events = await asyncio.gather(*(write(body) for _ in range(count)))
    return max(event.number for event in events)


async def test_after_n_goes_on_without_gap_or_duplicate_while_things_happen(up: InProcessUp) -> None:
    before = await _happen(up, 50)
    async with up.look(f"/api/v1/fleet?after={before - 30}") as listener:
        happening = asyncio.create_task(_happen(up, 200))
        numbers = await _numbers(listener, before + 200)
        await happening

    assert numbers == list(range(before - 29, numbers[-1] + 1))


async def test_who_has_missed_more_than_is_kept_in_memory_gets_all_of_it_from_the_catalog(up: InProcessUp) -> None:
    last = await _happen(up, RECENT + 100)

    async with up.look("/api/v1/fleet?after=0") as listener:
        numbers = await _numbers(listener, last)
        caught = await listener.told("caught")

    assert numbers == list(range(1, last + 1))
    assert cast(int, caught["number"]) >= last


async def test_without_a_number_only_what_comes_is_told(up: InProcessUp) -> None:
    last = await _happen(up, 3)
    async with up.look("/api/v1/fleet") as listener:
        assert (await listener.told("caught"))["number"] == last
        pod = await up.start("sleep", "100", name="news")
        told = await listener.told("change")
        while told["kind"] != "pod.started":
            told = await listener.told("change")

    assert told["pod"] == pod.id
    assert cast(Json, told["data"])["name"] == "news"
    assert told["number"] == last + 1


@pytest.mark.parametrize(("after", "code"), [("x", 1007), ("-1", 1007), ("9" * 30, 1007), ("999999999", 4409)])
async def test_a_number_that_cannot_be_is_refused(up: InProcessUp, after: str, code: int) -> None:
    async with up.look(f"/api/v1/fleet?after={after}") as listener:
        with pytest.raises(ConnectionClosed) as closed:
            await listener.next()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code
