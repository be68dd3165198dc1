"""A recording over a WebSocket: seek, step, play."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from scrubjay.ids import parse_pod_name
from scrubjay.pods.importing import import_pod
from scrubjay.pods.pod import Pod
from scrubjay.tape.record import Json
from tests.support.conditions import until
from tests.support.in_process_up import InProcessUp, Onlooker

pytestmark = pytest.mark.anyio

_CLEAR = "\x1b[H\x1b[2J"
_STEP_S = 0.2
_HOUR_S = 3600.0


async def _import(up: InProcessUp, folder: Path, name: str, *shown: tuple[float, str]) -> Pod:
    """A recording with times of its own, which no machine is too slow for."""
    lines = [{"version": 2, "width": 80, "height": 24}, *([at_s, "o", text] for at_s, text in shown)]
    (folder / f"{name}.cast").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def add() -> Pod:
        source = folder / f"{name}.cast"
        return import_pod(up.home, source, parse_pod_name(name), accept_truncated=False, progress=lambda _: None)[0]

    pod = await asyncio.to_thread(add)
    await until(lambda: pod.id in up.server.tower.pods, f"{name} is in the fleet")
    return pod


@pytest.fixture(scope="module")
async def pod(up: InProcessUp, tmp_path_factory: pytest.TempPathFactory) -> Pod:
    shown = [(_STEP_S * number, f"{_CLEAR}number {number + 1}") for number in range(6)]
    return await _import(up, tmp_path_factory.mktemp("film"), "film", *shown)


@asynccontextmanager
async def _open(up: InProcessUp, pod: Pod) -> AsyncGenerator[tuple[Onlooker, int]]:
    async with up.look(f"/api/v1/pods/{pod.id}/replay") as audience:
        recording = await audience.told("recording")
        yield audience, cast(int, recording["duration"])


async def test_of_a_pod_that_runs_it_is_said_that_more_may_come(up: InProcessUp, pod: Pod) -> None:
    running = await up.start("cat", name="running")
    live: list[object] = []
    for each in (running, pod):
        async with up.look(f"/api/v1/pods/{each.id}/replay") as audience:
            live.append((await audience.told("recording"))["live"])
    await up.stop(running)

    assert live == [True, False]


async def _seek(audience: Onlooker, at: int | str) -> bytes:
    count = len(audience.keyframes)
    await audience.say({"type": "seek", "at": at})
    await audience.until(lambda: len(audience.keyframes) > count)
    await audience.told("position")
    return audience.keyframes[-1]


async def test_a_seek_shows_the_screen_of_that_instant(up: InProcessUp, pod: Pod) -> None:
    async with _open(up, pod) as (audience, duration):
        assert b"number 6" in await _seek(audience, duration)
        assert b"number 1" in await _seek(audience, 100_000)
        assert b"number 1" in await _seek(audience, "0.1s")
        assert b"number 6" in await _seek(audience, "100%")


async def test_of_many_seeks_at_once_the_last_is_shown(up: InProcessUp, pod: Pod) -> None:
    async with _open(up, pod) as (audience, duration):
        places = [*range(0, duration, max(1, duration // 200)), 100_000]
        seeks: list[Json] = [{"type": "seek", "at": at} for at in places]
        audience.say_together(*seeks)
        await audience.until(lambda: audience.keyframes and b"number 1" in audience.keyframes[-1])
        while (await audience.told("position"))["at"] != 100_000:
            pass

    assert len(audience.keyframes) < 150


async def test_playing_sends_what_was_recorded_at_its_pace(up: InProcessUp, pod: Pod) -> None:
    loop = asyncio.get_running_loop()
    async with _open(up, pod) as (audience, _):
        await _seek(audience, 100_000)
        began = loop.time()
        await audience.say({"type": "play", "speed": 2.0})
        await audience.until(lambda: b"number 6" in audience.output)
        took_s = loop.time() - began

    # 0.9 seconds of recording at twice the speed; a busy machine may be late, never early.
    assert took_s > 0.35
    assert [b"number %d" % i in audience.output for i in range(1, 7)] == [False] + [True] * 5


async def test_pauses_are_shortened_and_the_end_is_told(up: InProcessUp, tmp_path: Path) -> None:
    pod = await _import(up, tmp_path, "pauses", (0.0, "one"), (_HOUR_S, "two"), (2 * _HOUR_S, "three"))
    async with up.look(f"/api/v1/pods/{pod.id}/replay") as audience:
        await _seek(audience, 0)
        await audience.say({"type": "play", "idle_limit_s": 0.1})
        await audience.until(lambda: b"three" in audience.output)
        position = await audience.told("position")
        while position["playing"]:
            position = await audience.told("position")


async def test_pausing_stays_where_it_is_and_steps_go_both_ways(up: InProcessUp, pod: Pod) -> None:
    async with _open(up, pod) as (audience, _):
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
async def test_an_impossible_speed_is_refused(up: InProcessUp, pod: Pod, speed: float) -> None:
    async with _open(up, pod) as (audience, _):
        await audience.say({"type": "play", "speed": speed})
        assert "cannot play" in str((await audience.told("refusal"))["message"])


async def test_an_instant_nobody_understands_is_refused_and_the_replay_goes_on(up: InProcessUp, pod: Pod) -> None:
    async with _open(up, pod) as (audience, _):
        await audience.say({"type": "seek", "at": "yesterday-ish"})
        assert "is not a time" in str((await audience.told("refusal"))["message"])
        assert b"number" in await _seek(audience, "50%")
