"""What agents do, live: from what they show and say to the catalog, the stream, the API and the command line."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.machine import until
from scrubjay.pods.pod import Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.tape.record import Json
from up.machine import Machine, open_machine

pytestmark = pytest.mark.anyio

_ACTOR = Path(__file__).parent.parent / "agents" / "actor.py"
_DIALOG = "\r\nRun this command?\r\n\u276f 1. Yes\r\n  2. No\r\n\r\nEnter to confirm, Esc to cancel"


async def _act(machine: Machine, name: str, tmp_path: Path, *script: list[object]) -> Pod:
    argv = (sys.executable, "-I", "-S", str(_ACTOR), json.dumps(script), str(tmp_path / "log"))
    return await machine.start(*argv, name=name)


async def _status(machine: Machine, pod: Pod, **query: str) -> Json:
    return cast(Json, await machine.get(f"/api/v1/pods/{pod.id}/status", **query))


async def _becomes(machine: Machine, pod: Pod, activity: str, waiting_for: str | None = None) -> Json:
    deadline = time.monotonic() + 10
    while True:
        status = await _status(machine, pod)
        if (status["activity"], status["waiting_for"]) == (activity, waiting_for):
            return status
        assert time.monotonic() < deadline, status


async def test_a_program_that_reports_is_heard_at_once(machine: Machine, tmp_path: Path) -> None:
    script: list[list[object]] = [["say", "working"], ["wait", 1], ["say", "blocked:kind=question"], ["read"]]
    async with machine.look("/api/v1/fleet") as listener:
        pod = await _act(machine, "reporter", tmp_path, *script, ["say", "done"], ["wait", 60])

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
    await machine.post(f"/api/v1/pods/{pod.id}/input", {"text": "blue", "enter": True})
    await _becomes(machine, pod, "idle")
    await machine.stop(pod)


async def test_a_dialog_is_seen_and_explained(machine: Machine, tmp_path: Path) -> None:
    pod = await _act(machine, "asker", tmp_path, ["print", _DIALOG], ["read"], ["wait", 60])

    status = await _becomes(machine, pod, "waiting", "person:permission")

    evidence = cast(Json, status["evidence"])
    assert evidence["detail"] == "Run this command?"
    assert status["description"] == "waiting: permission"
    rows = StatusFile(pod.folder).rows()
    assert rows[-1]["activity"] == "waiting"
    assert rows[-1]["offset"] == evidence["offset"]
    listed = cast(list[Json], await machine.get("/api/v1/pods"))
    assert next(each for each in listed if each["id"] == pod.id)["conversation"] is None
    await machine.stop(pod)


async def test_the_past_is_kept_with_its_intervals(machine: Machine, tmp_path: Path) -> None:
    script: list[list[object]] = [["say", "working"], ["wait", 1], ["say", "blocked:kind=permission"], ["wait", 1]]
    pod = await _act(machine, "past", tmp_path, *script, ["say", "working"], ["wait", 1], ["say", "done"])
    await until(lambda: pod.has_ended, "it ends")
    # Its last word may be on its way.
    await until(lambda: cast(Any, machine.server.tower.pods[pod.id]).report.complete, "the fleet knows")

    history = cast(list[Json], await machine.get(f"/api/v1/pods/{pod.id}/status/history"))

    told = [status["activity"] for status in history if status["activity"] is not None]
    assert [each for each in told if each != "idle"] == ["executing", "waiting", "executing"]
    assert all(before["until_us"] == after["since_us"] for before, after in pairwise(history))
    waited = next(status for status in history if status["activity"] == "waiting")
    middle = (cast(int, waited["since_us"]) + cast(int, waited["until_us"])) // 2
    then = await _status(machine, pod, at=str(middle))
    assert then["activity"] == "waiting"
    assert (await _status(machine, pod))["activity"] is None, "nobody works or waits any more"


async def test_an_agent_goes_on_being_watched_after_a_restart(tmp_path: Path) -> None:
    async with open_machine(tmp_path / "home", pods_go_on=True) as machine:
        script: list[list[object]] = [["say", "blocked:kind=question"], ["read"], ["say", "working"], ["wait", 60]]
        pod = await _act(machine, "lasting", tmp_path, *script)
        before = await _becomes(machine, pod, "waiting", "person:question")

    async with open_machine(tmp_path / "home") as machine:
        await until(lambda: machine.is_running(pod), "it is found")
        after = await _becomes(machine, pod, "waiting", "person:question")
        assert cast(Json, after["evidence"])["since_us"] == cast(Json, before["evidence"])["since_us"]

        await machine.post(f"/api/v1/pods/{pod.id}/input", {"text": "go", "enter": True})
        await _becomes(machine, pod, "executing")
        rows = StatusFile(pod.folder).rows()
        assert [row["activity"] for row in rows][-2:] == ["waiting", "executing"]
        assert not any("gap" in row for row in rows)
        await machine.stop(pod)


async def test_time_goes_on_where_the_recording_is_for_an_agent_that_was_silent_when_it_was_found(
    tmp_path: Path,
) -> None:
    async with open_machine(tmp_path / "home", pods_go_on=True) as machine:
        pod = await _act(
            machine, "quiet", tmp_path, ["print", "hello\r\n"], ["read"], ["print", "more\r\n"], ["wait", 60]
        )
        await _becomes(machine, pod, "idle")

    async with open_machine(tmp_path / "home") as machine:
        await until(lambda: machine.is_running(pod), "it is found")
        await machine.post(f"/api/v1/pods/{pod.id}/input", {"text": "go", "enter": True})
        await _becomes(machine, pod, "executing")
        await _becomes(machine, pod, "idle")

        told = [cast(int, row["at"]) for row in StatusFile(pod.folder).rows()]
        assert told == sorted(told)
        assert pod.created_us + told[-1] <= time.time_ns() // 1000, "nothing is told of the future"
        await machine.stop(pod)


async def test_what_happened_while_nobody_watched_is_told_afterwards(tmp_path: Path) -> None:
    async with open_machine(tmp_path / "home", pods_go_on=True) as machine:
        script: list[list[object]] = [["say", "working"], ["wait", 4], ["say", "blocked:kind=question"], ["wait", 60]]
        pod = await _act(machine, "alone", tmp_path, *script)
        await _becomes(machine, pod, "executing")

    await until(lambda: b"blocked" in (tmp_path / "log").read_bytes(), "it asks")

    async with open_machine(tmp_path / "home") as machine:
        await until(lambda: machine.is_running(pod), "it is found")
        await _becomes(machine, pod, "waiting", "person:question")
        told = StatusFile(pod.folder).rows()[-1]
        asked_us = int((tmp_path / "log").read_text().splitlines()[-2].split()[0])
        told_us = pod.created_us + cast(int, told["at"])
        assert abs(told_us - asked_us) < 2_000_000, "when it happened, not when it was seen"
        assert "wall_us" not in told
        await machine.stop(pod)
