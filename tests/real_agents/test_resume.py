"""Each real agent, killed in the middle of a turn, goes on with its conversation in a new pod."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from chaos.machine import eventually
from real_agents.agents import AGENTS, CLAUDE, CODEX
from real_agents.pod import AgentPod
from real_agents.station import Station
from real_agents.stub.script import Answer
from scrubjay.agents.library import Library
from scrubjay.keeper.processes import descendants, of_pod

# Two are tried with everything else, all of them by make test-agents.
_AGENTS = [
    pytest.param(agent, id=agent.name, marks=[] if agent in (CLAUDE, CODEX) else pytest.mark.agents) for agent in AGENTS
]

_FIRST, _ANSWER = "remember the word PLUM-4711", "I keep PLUM-4711 in mind."
_SECOND, _LONG = "tell me a long story", "The story goes on word by word and has no end in sight. " * 40
_READY_S = 60.0


@pytest.mark.parametrize("agent", _AGENTS, indirect=True)
def test_killed_in_the_middle_of_a_turn_it_goes_on_and_the_model_hears_all_that_was_said(
    station: Station, record_property: Callable[[str, object], None]
) -> None:
    old = _cut_in_its_second_turn(station)
    began = old.look()
    station.stub.plan(Answer("It was PLUM-4711."))

    killed = _kill(old)
    told = json.loads(station("resume", "ada", "-d", "--json"))
    new = AgentPod(station, told["id"])
    started_s = time.monotonic() - killed
    new.wait_until("idle", within_s=_READY_S)
    ready_s = time.monotonic() - killed
    turn = new.say("say the word once more")

    for text in (_FIRST, _ANSWER, _SECOND):
        assert turn.heard(text), (text, turn.conversation)
    new.wait_until_it_shows("It was PLUM-4711.")
    seen = new.wait_until("idle")
    assert (seen["session"], seen["name"], seen["conversation"]) == (began["session"], "ada", began["conversation"])
    assert (told["resumed_from"], seen["resumed_from"]) == (old.id, old.id)
    record_property("started_s", started_s)
    record_property("ready_s", ready_s)
    print(f"{station.agent.name}: runs again after {started_s:.2f} s, is idle after {ready_s:.2f} s")


@pytest.mark.agents
def test_a_conversation_that_is_open_in_another_terminal_is_not_opened_twice(station: Station) -> None:
    old = _cut_in_its_second_turn(station)
    conversation = old.look()["conversation"]
    _kill(old)

    with _in_a_terminal(station, conversation) as process:
        refused = station("resume", "ada", "-d", expect=1)
        assert f"process {process.pid}" in refused or "has its conversation open" in refused
        assert [pod["id"] for pod in station.pods()] == [old.id]

    told = json.loads(station("resume", "ada", "-d", "--json"))
    AgentPod(station, told["id"]).wait_until("idle", within_s=_READY_S)


def _cut_in_its_second_turn(station: Station) -> AgentPod:
    """A pod whose agent has answered once, and is in the middle of its second answer."""
    station.stub.plan(Answer(_ANSWER), Answer(_LONG, over_s=60))
    pod = station.run("--name", "ada", prompt=_FIRST)
    pod.wait_for_turn(_FIRST)
    pod.wait_until_it_shows(_ANSWER)
    pod.wait_until("idle")
    turn = pod.say(_SECOND)
    pod.wait_until_it_shows("word by word")
    assert not turn.answered
    return pod


def _kill(pod: AgentPod) -> float:
    """Kill the agent with all that it has started, as if its machine had died; when that was."""
    agent = pod.look()["agent_pid"]
    doomed = [agent, *descendants(agent)]
    killed = time.monotonic()
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    return killed


@contextmanager
def _in_a_terminal(station: Station, conversation: str) -> Generator[subprocess.Popen[bytes]]:
    """The agent as a person goes on with a conversation themselves, in a terminal that Scrubjay knows nothing of."""
    manifest = Library(None).find(station.agent.name)
    assert manifest.resume is not None
    words = [word.replace("{conversation}", conversation) for word in manifest.resume.arguments]
    ours, theirs = pty.openpty()
    eventually(lambda: not [pod for pod in station.pods() if of_pod(pod["id"])], "the pod has ended", within_s=20)
    process = subprocess.Popen(
        [*manifest.start.command, *words],
        cwd=station.project,
        env=station.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        assert os.read(ours, 1)  # it runs, and not only its interpreter
        yield process
    finally:
        for pid in [process.pid, *descendants(process.pid)]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
