"""What agents do, live: from what they show and say to the catalog, the stream, the API and the command line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from scrubjay.pods.pod import Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.status import detector
from scrubjay.tape.record import Json
from tests.support.conditions import until
from tests.support.in_process_up import InProcessUp, open_in_process_up
from tests.support.paths import PROGRAMS

pytestmark = pytest.mark.anyio

_ACTOR = PROGRAMS / "actor.py"
_DIALOG = "\r\nRun this command?\r\n\u276f 1. Yes\r\n  2. No\r\n\r\nEnter to confirm, Esc to cancel"


async def _act(up: InProcessUp, name: str, tmp_path: Path, *script: list[object]) -> Pod:
    argv = (sys.executable, "-I", "-S", str(_ACTOR), json.dumps(script), str(tmp_path / "log"))
    return await up.start(*argv, name=name)


async def _status(up: InProcessUp, pod: Pod, **query: str) -> Json:
    return cast(Json, await up.get(f"/api/v1/pods/{pod.id}/status", **query))


async def _becomes(up: InProcessUp, pod: Pod, activity: str, waiting_for: str | None = None) -> Json:
    def is_so() -> bool:
        known = up.server.tower.pods.get(pod.id)
        status = known.report.status if known is not None else None
        return status is not None and (status.activity, status.waiting_for) == (activity, waiting_for)

    await until(is_so, f"{pod.name} is {activity}")
    return await _status(up, pod)


async def test_a_program_that_reports_is_heard_at_once(up: InProcessUp, tmp_path: Path) -> None:
    script: list[list[object]] = [["say", "working"], ["say", "blocked:kind=question"], ["read"]]
    async with up.look("/api/v1/fleet") as listener:
        pod = await _act(up, "reporter", tmp_path, *script, ["say", "done"], ["wait", 600])

        def is_asking() -> Json | None:
            changes = [message for message in listener.messages if message.get("pod") == pod.id]
            statuses = [cast(Json, message["data"]) for message in changes if message["kind"] == "pod.status"]
            return next((status for status in statuses if status.get("waiting_for") == "person:question"), None)

        told = await listener.until(is_asking)

    assert told is not None
    assert told["activity"] == "waiting"
    assert cast(float, told["confidence"]) > 0.9
    signals = cast(list[Json], cast(Json, told["evidence"])["signals"])
    assert signals[0]["signal"] == "program"
    await up.post(f"/api/v1/pods/{pod.id}/input", {"text": "blue", "enter": True})
    await _becomes(up, pod, "idle")
    await up.stop(pod)


async def test_a_dialog_is_seen_and_explained(up: InProcessUp, tmp_path: Path) -> None:
    pod = await _act(up, "asker", tmp_path, ["print", _DIALOG], ["read"], ["wait", 600])

    status = await _becomes(up, pod, "waiting", "person:permission")

    evidence = cast(Json, status["evidence"])
    assert evidence["detail"] == "Run this command?"
    assert status["description"] == "waiting: permission"
    rows = StatusFile(pod.folder).rows()
    assert rows[-1]["activity"] == "waiting"
    assert rows[-1]["offset"] == evidence["offset"]
    listed = cast(list[Json], await up.get("/api/v1/pods"))
    assert next(each for each in listed if each["id"] == pod.id)["conversation"] is None
    await up.stop(pod)


async def test_the_past_is_kept_with_its_intervals(up: InProcessUp, tmp_path: Path) -> None:
    asks, works, ends = (str(tmp_path / name) for name in ("asks", "works", "ends"))
    script: list[list[object]] = [["say", "working"], ["await", asks], ["say", "blocked:kind=permission"]]
    pod = await _act(
        *(up, "past", tmp_path, *script), ["await", works], ["say", "working"], ["await", ends], ["say", "done"]
    )
    for activity, waiting_for, then in (
        ("executing", None, asks),
        ("waiting", "person:permission", works),
        ("executing", None, ends),
    ):
        await _becomes(up, pod, activity, waiting_for)
        Path(then).touch()
    await until(lambda: pod.has_ended, "it ends")
    # Its last word may be on its way.
    await until(lambda: cast(Any, up.server.tower.pods[pod.id]).report.complete, "the fleet knows")

    history = cast(list[Json], await up.get(f"/api/v1/pods/{pod.id}/status/history"))

    activities = [status["activity"] for status in history if status["activity"] is not None]
    assert [each for each in activities if each != "idle"] == ["executing", "waiting", "executing"]
    assert all(before["until_us"] == after["since_us"] for before, after in pairwise(history))
    waited = next(status for status in history if status["activity"] == "waiting")
    middle = (cast(int, waited["since_us"]) + cast(int, waited["until_us"])) // 2
    then = await _status(up, pod, at=str(middle))
    assert then["activity"] == "waiting"
    assert (await _status(up, pod))["activity"] is None, "nobody works or waits any more"


@dataclass(frozen=True, slots=True)
class _Restarted:
    """A server that was stopped and started again, and the pods that went on meanwhile."""

    up: InProcessUp
    asking: Pod  #: has asked since before, and was seen to
    asked: Json  #: its status then
    quiet: Pod  #: has shown something, and is silent since before
    alone: Pod  #: has asked while nobody watched
    alone_log: Path


@pytest.fixture(scope="module")
async def restarted(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[_Restarted]:
    folder = tmp_path_factory.mktemp("restarted")
    folders = {name: folder / name for name in ("asking", "quiet", "alone")}
    for each in folders.values():
        each.mkdir()
    go, log = folder / "go", folders["alone"] / "log"
    async with open_in_process_up(folder / "home", pods_go_on=True) as up:
        script: list[list[object]] = [["say", "blocked:kind=question"], ["read"], ["say", "working"], ["wait", 600]]
        asking = await _act(up, "asking", folders["asking"], *script)
        script = [["print", "hello\r\n"], ["read"], ["print", "more\r\n"], ["wait", 600]]
        quiet = await _act(up, "quiet", folders["quiet"], *script)
        script = [["say", "working"], ["await", str(go)], ["say", "blocked:kind=question"], ["wait", 600]]
        alone = await _act(up, "alone", folders["alone"], *script)
        asked = await _becomes(up, asking, "waiting", "person:question")
        await _becomes(up, quiet, "idle")
        await _becomes(up, alone, "executing")

    go.touch()
    await until(lambda: b"blocked" in log.read_bytes(), "it asks")

    # A program that says nothing is taken to work on a line for so long.
    with mock.patch.object(detector, "_TYPED_US", 1_000_000):
        async with open_in_process_up(folder / "home") as up:
            await until(lambda: all(map(up.is_running, (asking, quiet, alone))), "they are found")
            yield _Restarted(up, asking, asked, quiet, alone, log)


async def test_an_agent_goes_on_being_watched_after_a_restart(restarted: _Restarted) -> None:
    up, pod = restarted.up, restarted.asking
    after = await _becomes(up, pod, "waiting", "person:question")
    assert cast(Json, after["evidence"])["since_us"] == cast(Json, restarted.asked["evidence"])["since_us"]

    await up.post(f"/api/v1/pods/{pod.id}/input", {"text": "go", "enter": True})
    await _becomes(up, pod, "executing")
    rows = StatusFile(pod.folder).rows()
    assert [row["activity"] for row in rows][-2:] == ["waiting", "executing"]
    assert not any("gap" in row for row in rows)


async def test_time_goes_on_where_the_recording_is_for_an_agent_that_was_silent_when_it_was_found(
    restarted: _Restarted,
) -> None:
    pod = restarted.quiet
    await restarted.up.post(f"/api/v1/pods/{pod.id}/input", {"text": "go", "enter": True})
    rows = await until(lambda: _rows_up_to_rest(pod, "go"), "it works and rests again")

    told = [cast(int, row["at"]) for row in rows]
    assert told == sorted(told)
    assert pod.created_us + told[-1] <= time.time_ns() // 1000, "nothing is told of the future"


def _rows_up_to_rest(pod: Pod, line: str) -> list[Json] | None:
    """What is told of a pod, if it works by a line that was typed and rests again."""
    rows = StatusFile(pod.folder).rows()
    works = [any(claim["why"] == line for claim in cast(list[Json], row["evidence"])) for row in rows]
    return rows if True in works and rows[-1]["activity"] == "idle" and not works[-1] else None


async def test_what_happened_while_nobody_watched_is_told_afterwards(restarted: _Restarted) -> None:
    pod = restarted.alone
    await _becomes(restarted.up, pod, "waiting", "person:question")
    told = StatusFile(pod.folder).rows()[-1]
    asked_us = int(restarted.alone_log.read_text().splitlines()[-2].split()[0])
    told_us = pod.created_us + cast(int, told["at"])
    assert abs(told_us - asked_us) < 2_000_000, "when it happened, not when it was seen"
    assert "wall_us" not in told
