"""A recording over a WebSocket: seek, step, play."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from chaos.machine import until
from scrubjay.pods.pod import Pod
from up.machine import Machine, Onlooker

pytestmark = pytest.mark.anyio

_PROGRAM = "for i in 1 2 3 4 5 6; do clear; echo number $i; sleep 0.2; done; sleep 100"


@pytest.fixture(scope="module")
async def pod(machine: Machine) -> Pod:
    pod = await machine.start("bash", "-c", _PROGRAM, name="film")
    await asyncio.sleep(1.5)  # what is recorded has its own times
    return pod


@asynccontextmanager
async def _open(machine: Machine, pod: Pod) -> AsyncGenerator[tuple[Onlooker, int]]:
    async with machine.look(f"/api/v1/pods/{pod.id}/replay") as audience:
        recording = await audience.told("recording")
        assert recording["live"] is True
        yield audience, cast(int, recording["duration"])


async def _seek(audience: Onlooker, at: int | str) -> bytes:
    count = len(audience.keyframes)
    await audience.say({"type": "seek", "at": at})
    await audience.until(lambda: len(audience.keyframes) > count)
    await audience.told("position")
    return audience.keyframes[-1]


async def test_a_seek_shows_the_screen_of_that_instant(machine: Machine, pod: Pod) -> None:
    async with _open(machine, pod) as (audience, duration):
        assert b"number 6" in await _seek(audience, duration)
        assert b"number 1" in await _seek(audience, 100_000)
        assert b"number 1" in await _seek(audience, "0.1s")
        assert b"number 6" in await _seek(audience, "100%")


async def test_of_many_seeks_at_once_the_last_is_shown(machine: Machine, pod: Pod) -> None:
    async with _open(machine, pod) as (audience, duration):
        for at in range(0, duration, max(1, duration // 200)):
            await audience.say({"type": "seek", "at": at})
        await audience.say({"type": "seek", "at": 100_000})
        await audience.until(lambda: audience.keyframes and b"number 1" in audience.keyframes[-1])
        while (await audience.told("position"))["at"] != 100_000:
            pass

    assert len(audience.keyframes) < 150


async def test_playing_sends_what_was_recorded_at_its_pace(machine: Machine, pod: Pod) -> None:
    loop = asyncio.get_running_loop()
    async with _open(machine, pod) as (audience, _):
        await _seek(audience, 100_000)
        began = loop.time()
        await audience.say({"type": "play", "speed": 2.0})
        await audience.until(lambda: b"number 6" in audience.output)
        took_s = loop.time() - began

    # A second of recording at twice the speed; a busy machine may be late, never early.
    assert took_s > 0.35
    assert [b"number %d" % i in audience.output for i in range(1, 7)] == [False] + [True] * 5


async def test_pauses_are_shortened_and_the_end_is_told(machine: Machine) -> None:
    pod = await machine.start("bash", "-c", "echo one; sleep 2; echo two; sleep 2; echo three", name="pauses")
    await until(lambda: not machine.is_running(pod), "it ended")
    loop = asyncio.get_running_loop()
    async with machine.look(f"/api/v1/pods/{pod.id}/replay") as audience:
        await _seek(audience, 0)
        began = loop.time()
        await audience.say({"type": "play", "idle_limit_s": 0.1})
        await audience.until(lambda: b"three" in audience.output)
        took_s = loop.time() - began
        position = await audience.told("position")
        while position["playing"]:
            position = await audience.told("position")

    assert took_s < 3


async def test_pausing_stays_where_it_is_and_steps_go_both_ways(machine: Machine, pod: Pod) -> None:
    async with _open(machine, pod) as (audience, _):
        await _seek(audience, 500_000)
        before = audience.keyframes[-1]
        await audience.say({"type": "step", "forward": True})
        await audience.told("position")
        after = audience.keyframes[-1]
        await audience.say({"type": "step", "forward": False})
        await audience.told("position")

    assert after != before
    assert audience.keyframes[-1] != after


@pytest.mark.parametrize("speed", [0, -1, 1e9])
async def test_an_impossible_speed_is_refused(machine: Machine, pod: Pod, speed: float) -> None:
    async with _open(machine, pod) as (audience, _):
        await audience.say({"type": "play", "speed": speed})
        assert "cannot play" in str((await audience.told("refusal"))["message"])


async def test_an_instant_nobody_understands_is_refused_and_the_replay_goes_on(machine: Machine, pod: Pod) -> None:
    async with _open(machine, pod) as (audience, _):
        await audience.say({"type": "seek", "at": "yesterday-ish"})
        assert "is not a time" in str((await audience.told("refusal"))["message"])
        assert b"number" in await _seek(audience, "50%")
