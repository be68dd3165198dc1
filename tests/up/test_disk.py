"""The loop that serves everybody waits for no disk."""

from __future__ import annotations

import threading

import pytest

from chaos.machine import until
from scrubjay.ids import PodId
from scrubjay.tape.reader import Tape
from up.machine import Machine

pytestmark = pytest.mark.anyio


async def test_no_tape_is_opened_or_measured_where_everybody_waits(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tower, loop_thread, where = machine.server.tower, threading.current_thread(), set[str]()
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
    pod = str((await machine.post("/api/v1/pods", {"command": ["echo", "an egret"], "name": "egret"}))["id"])
    await until(lambda: tower.pods[PodId(pod)].report.complete, "it ended")

    assert await machine.get("/api/v1/search", q="egret", pod=pod)
    assert (await machine.http.get(f"/api/v1/pods/{pod}/tape")).status_code == 200
    async with machine.look(f"/api/v1/pods/{pod}/replay") as viewer:
        await viewer.say({"type": "play", "speed": 1000})
        await viewer.until(lambda: b"an egret" in viewer.output)
    await until(lambda: tower.library.is_finished(PodId(pod)), "it was indexed", within_s=30)

    assert where == set()
