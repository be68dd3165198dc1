"""Each real agent, killed in the middle of a turn, goes on with its conversation in a new pod."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from scrubjay.agents.library import Library
from scrubjay.keeper.processes import descendants, of_pod
from tests.real_agents.pod import AgentPod
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer
from tests.support.conditions import eventually
from tests.support.processes import kill

_FIRST, _ANSWER = "remember the word PLUM-4711", "I keep PLUM-4711 in mind."
_SECOND = "tell me a long story"
# Numbered: Gemini CLI ends an answer that repeats itself, and takes the prompt out of the conversation.
_LONG = " ".join(f"Chapter {number} goes on word by word." for number in range(1, 41))


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
    new.wait_until("idle")
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


def test_a_conversation_that_is_open_in_another_terminal_is_not_opened_twice(station: Station) -> None:
    old = _cut_in_its_second_turn(station)
    conversation = old.look()["conversation"]
    _kill(old)

    with _in_a_terminal(station, conversation) as process:
        refused = station("resume", "ada", "-d", expect=1)
        assert f"process {process.pid}" in refused or "has its conversation open" in refused
        assert [pod["id"] for pod in station.pods()] == [old.id]

    told = json.loads(station("resume", "ada", "-d", "--json"))
    AgentPod(station, told["id"]).wait_until("idle")


def _cut_in_its_second_turn(station: Station) -> AgentPod:
    """A pod whose agent has answered once, and is in the middle of its second answer."""
    station.stub.plan(Answer(_ANSWER), Answer(_LONG, held=threading.Event()))
    pod = station.run("--name", "ada", prompt=_FIRST)
    pod.wait_for_turn(_FIRST)
    pod.wait_until_it_shows(_ANSWER)
    pod.wait_until("idle")
    turn = pod.say(_SECOND)
    pod.wait_until_it_shows("word by word")
    pod.wait_for(lambda: _is_kept(station, _SECOND), "it has kept the prompt")
    assert not turn.answered
    return pod


def _is_kept(station: Station, text: str) -> bool:
    """Whether the agent has written a text to where it keeps conversations: some do that a moment later."""
    rules = Library(None).find(station.agent.name).conversation
    for pattern in (*rules.files, *rules.inside):
        usual = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", pattern).replace("{conversation}", "*")
        folder = station.home if usual.startswith("~/") else station.project
        for found in folder.glob(usual.removeprefix("~/")):
            paths = found.rglob("*") if found.is_dir() else [found]
            if any(text.encode() in path.read_bytes() for path in paths if path.is_file()):
                return True
    return False


def _kill(pod: AgentPod) -> float:
    """Kill the agent with all that it has started, as if its machine had died; when that was."""
    agent = pod.look()["agent_pid"]
    doomed = [agent, *descendants(agent)]
    killed = time.monotonic()
    for pid in doomed:
        kill(pid)
    return killed


@contextmanager
def _in_a_terminal(station: Station, conversation: str) -> Generator[subprocess.Popen[bytes]]:
    """The agent as a person goes on with a conversation themselves, in a terminal that Scrubjay knows nothing of."""
    manifest = Library(None).find(station.agent.name)
    assert manifest.resume is not None
    words = [word.replace("{conversation}", conversation) for word in manifest.resume.arguments]
    ours, theirs = pty.openpty()
    eventually(lambda: not [pod for pod in station.pods() if of_pod(pod["id"])], "the pod has ended")
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
            kill(pid)
        process.wait()
        os.close(ours)
