"""The loop that serves everybody waits for no disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from scrubjay.ids import PodId
from scrubjay.server import tower as towers
from scrubjay.tape.reader import Tape
from tests.support.conditions import until
from tests.support.in_process_up import InProcessUp, open_in_process_up

pytestmark = pytest.mark.anyio


async def test_no_tape_is_opened_or_measured_where_everybody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(towers, "INDEX_EVERY_S", 0.1)
    async with open_in_process_up(tmp_path / "home") as up:
        await _do_everything_that_opens_tapes(up, monkeypatch)


async def _do_everything_that_opens_tapes(up: InProcessUp, monkeypatch: pytest.MonkeyPatch) -> None:
    tower, loop_thread, where = up.server.tower, threading.current_thread(), set[str]()
    open_tape, end = tower.tapes.open, Tape.end
    assert isinstance(end, property)

    def open_and_note(pod: PodId) -> Tape:
        if threading.current_thread() is loop_thread:
            where.add("opened")
        return open_tape(pod)

    def end_and_note(tape: Tape) -> object:
        if threading.current_thread() is loop_thread:
            where.add("measured")
        return end.__get__(tape)

    monkeypatch.setattr(tower.tapes, "open", open_and_note)
    monkeypatch.setattr(Tape, "end", property(end_and_note))
    pod = str((await up.post("/api/v1/pods", {"command": ["echo", "an egret"], "name": "egret"}))["id"])
    await until(lambda: tower.pods[PodId(pod)].report.complete, "it ended")

    assert await up.get("/api/v1/search", q="egret", pod=pod)
    assert (await up.http.get(f"/api/v1/pods/{pod}/tape")).status_code == 200
    async with up.look(f"/api/v1/pods/{pod}/replay") as viewer:
        await viewer.say({"type": "play", "speed": 1000})
        await viewer.until(lambda: b"an egret" in viewer.output)
    await until(lambda: tower.library.is_finished(PodId(pod)), "it was indexed")

    assert where == set()
