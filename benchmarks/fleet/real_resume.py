"""Kill and resume a real agent, as the tests drive it: ``python -m benchmarks.fleet.real_resume NAME FOLDER ROUNDS``.

Prints a line of JSON: seconds from its start to its prompt, and from each kill to its running again and to its prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import cast

from scrubjay.cli.client import Client, ServerRefused
from scrubjay.keeper.processes import descendants
from tests.real_agents.agents import AGENTS
from tests.real_agents.pod import AgentPod
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer
from tests.real_agents.stub.server import Stub

_POLL_S = 0.01
_WITHIN_S = 90.0


def main(name: str, folder: Path, rounds: int) -> None:
    """Time it."""
    agent = next(agent for agent in AGENTS if agent.name == name)
    told: dict[str, list[float]] = {"first_s": [], "runs_s": [], "ready_s": []}
    with Stub(every_request_is_a_turn=not agent.has_tools) as stub, Station(agent, stub, folder) as station:
        client = Client(None, None, folder / "data" / "server.sock")
        _warm_up(station, client)
        began = time.monotonic()
        pod = station.run("--name", "ada")
        _await_idle(client, pod.id)
        told["first_s"].append(time.monotonic() - began)
        stub.plan(Answer("I keep it in mind."))
        pod.say("remember the word PLUM-4711")
        pod.wait_until_it_shows("I keep it in mind.")
        pod.wait_until("idle")
        for _ in range(rounds):
            killed = _kill(pod)
            pod = AgentPod(station, _resume(client, pod.id))
            told["runs_s"].append(time.monotonic() - killed)
            _await_idle(client, pod.id)
            told["ready_s"].append(time.monotonic() - killed)
    print(json.dumps(told), flush=True)


def _warm_up(station: Station, client: Client) -> None:
    """An agent that was just installed does more when it starts for the first time."""
    pod = station.run("--name", "first")
    _await_idle(client, pod.id)
    station("stop", pod.id, "--grace", "0")


def _await_idle(client: Client, pod: str) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while _activity(client, pod) != "idle":
        if time.monotonic() > deadline:
            raise TimeoutError("it does not come to its prompt")
        time.sleep(_POLL_S)


def _activity(client: Client, pod: str) -> object:
    try:
        seen = cast("dict[str, dict[str, object]]", client.get(f"/api/v1/pods/{pod}"))
    except ServerRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:  # it was started by the command line, and is not known yet
            raise
        return None
    return seen["status"].get("activity")


def _kill(pod: AgentPod) -> float:
    agent = pod.look()["agent_pid"]
    doomed = [agent, *descendants(agent)]
    killed = time.monotonic()
    for pid in doomed:
        with suppress(ProcessLookupError):  # a helper of the agent that has ended meanwhile
            os.kill(pid, signal.SIGKILL)
    return killed


def _resume(client: Client, pod: str) -> str:
    deadline = time.monotonic() + _WITHIN_S
    while True:
        try:
            answer = client.post(f"/api/v1/sessions/{pod}/resume", timeout_s=_WITHIN_S)
            return str(cast("dict[str, object]", answer)["id"])
        except ServerRefused as error:
            if error.code != "lease_held" or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
