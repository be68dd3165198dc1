"""R20 for pods: of several who resume one session at once one gets a pod, the others 409, and one agent runs.

The agent is scripted (``agents/talker.py``): it keeps its conversation in a file and goes on with it.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from scrubjay.cli.client import ServerRefused
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.pods.stopping import stop_pod
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.conversing_agents import install_talker
from tests.support.fleet import Fleet
from tests.support.processes import command_of, is_alive, kill, pids
from tests.support.services import Service
from tests.support.tiers import sized

_RACES = {2: sized(2, 25, 500), 5: sized(2, 10, 500)}


class _Talker:
    """One session on a machine with server and runner."""

    def __init__(self, fleet: Fleet) -> None:
        folder = fleet.logs
        self._program = folder / "bin" / "talker"
        install_talker(folder / "bin", folder / "agents")
        fleet.settings |= {
            "SCRUBJAY_AGENTS": str(folder / "agents"),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TALK_HOME": str(folder / "talks"),
        }
        self.up: Service = fleet.up()
        wanted: Json = {"agent": "talker", "name": "ada", "cwd": str(folder)}
        made = cast(Json, self.up.client.post("/api/v1/pods", wanted))
        self.pod = self._find(str(made["id"]))
        self.session = str(self.pod.session)
        self.type("PLUM-4711", shown="heard 1: PLUM-4711")

    def _find(self, pod: str) -> Pod:
        return next(each for each in Home(self.up.data).pods() if each.id == PodId(pod))

    def follow(self, pod: str) -> None:
        """Go on looking at another of its pods."""
        self.pod = self._find(pod)

    def type(self, text: str, *, shown: str) -> None:
        """Type a line and see it answered."""
        with self.pod.connect() as keeper:
            keeper.ask({"do": "write", "author": "test"}, text.encode() + b"\r")
        self.await_shown(shown)

    def await_shown(self, text: str) -> None:
        """Return when the pod has shown it."""

        def is_shown() -> bool:
            parts = [record.payload for record in self.pod.tape().records() if record.kind == Kind.OUTPUT]
            return text.encode() in b"".join(parts)

        eventually(is_shown, f"it shows {text!r}")

    def processes(self) -> list[int]:
        """The agents that are alive."""
        word = os.fsencode(self._program)
        return [pid for pid in pids() if word in command_of(pid).split(b"\0") and is_alive(pid)]

    def kill(self) -> None:
        """Kill the agent with -9; returns when nobody holds its session any more."""
        (agent,) = self.processes()
        kill(agent)
        eventually(lambda: self.describe()["state"] == "suspended", "its session is free")

    def describe(self) -> Json:
        """What people are told of the session."""
        return cast(Json, self.up.client.get(f"/api/v1/sessions/{self.session}"))

    def race(self, contenders: int) -> list[Json | ServerRefused]:
        """Let so many resume it at once."""
        barrier = threading.Barrier(contenders)

        def run(_: int) -> Json | ServerRefused:
            client = self.up.client
            barrier.wait(DEADLINE_S)
            try:
                return cast(Json, client.post(f"/api/v1/sessions/{self.session}/resume", timeout_s=DEADLINE_S))
            except ServerRefused as refused:
                return refused

        with ThreadPoolExecutor(contenders) as threads:
            return list(threads.map(run, range(contenders)))

    def events(self, *kinds: str) -> list[Json]:
        """What is kept of it."""
        found: list[Json] = []
        after = 0
        while page := self.up.events(after):
            after = cast(int, page[-1]["number"])
            found += [cast(Json, event["data"]) for event in page if event["kind"] in kinds]
        return [data for data in found if self.session in (data.get("session"), data.get("requested"))]


@pytest.fixture
def talker(fleet: Fleet) -> Generator[_Talker]:
    talker = _Talker(fleet)
    yield talker
    for pod in Home(fleet.data).pods():
        if pod.alive:
            stop_pod(pod, author="test", grace_s=0)


@pytest.mark.parametrize("contenders", [2, 5])
def test_r20_of_those_who_resume_a_pod_at_once_one_gets_it_and_one_agent_runs(talker: _Talker, contenders: int) -> None:
    races = _RACES[contenders]
    pods = [str(talker.pod.id)]
    for _ in range(races):
        talker.kill()

        answers = talker.race(contenders)

        won = [answer for answer in answers if not isinstance(answer, ServerRefused)]
        lost = [answer for answer in answers if isinstance(answer, ServerRefused)]
        assert len(won) == 1, answers
        assert {(refused.status, refused.code) for refused in lost} == {(409, "lease_held")}
        assert {"is held by ada" in str(refused) for refused in lost} == {True}
        talker.follow(str(won[0]["id"]))
        talker.await_shown("goes on after 1: PLUM-4711")
        assert len(talker.processes()) == 1
        assert won[0]["session"] == talker.session
        pods.append(str(won[0]["id"]))

    assert [str(pod.id) for pod in Home(talker.up.data).pods() if pod.session == talker.session] == pods
    granted = talker.events("session.resumed", "session.taken_over")
    assert [str(data["holder"]) for data in granted] == [f"pod:{pod}" for pod in pods[1:]]
    epochs = [cast(int, data["epoch"]) for data in granted]
    assert epochs == sorted(set(epochs))
    refused = talker.events("session.refused")
    assert Counter(data["reason"] for data in refused) == {"held": races * (contenders - 1)}
    print(f"{races} races of {contenders}: {len(granted)} pods, {len(refused)} refused")


def test_r20_a_running_pod_keeps_its_session_unless_it_is_asked_to_be_taken_over(talker: _Talker) -> None:
    before = talker.processes()
    path = f"/api/v1/sessions/{talker.session}/resume"

    with pytest.raises(ServerRefused) as refused:
        talker.up.client.post(path)
    assert (refused.value.status, refused.value.code) == (409, "lease_held")
    assert talker.processes() == before

    taken = cast(Json, talker.up.client.post(path, {"takeover": True}, timeout_s=DEADLINE_S))
    old = Path(talker.pod.folder)
    talker.follow(str(taken["id"]))
    talker.await_shown("goes on after 1: PLUM-4711")

    (now,) = talker.processes()
    assert [now] != before
    eventually(lambda: not next(pod for pod in Home(talker.up.data).pods() if pod.folder == old).alive, "it ends")
    assert talker.describe()["state"] == "open"
    assert len(talker.events("session.taken_over")) == 1
