"""Turns of real agents are remembered without their help: prompt and answer, in order, each once."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Tape
from tests.real_agents.agents import CLAUDE, CODEX
from tests.real_agents.pod import AgentPod
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer, Shell
from tests.support.conditions import eventually

pytestmark = pytest.mark.parametrize("agent", [CLAUDE, CODEX], indirect=True, ids=lambda agent: agent.name)

_LONG = "This goes on for a while, and nobody needs to read it. " * 20


def _remembered(pod: AgentPod) -> list[tuple[int, str, str]]:
    """What the catalog has of the pod's session, read beside the server."""
    path = Path(pod.station.environ["SCRUBJAY_DATA"]) / "catalog.sqlite"
    asked = "SELECT seq, prompt, response FROM memory WHERE source = 'hook' AND session = ? ORDER BY seq"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as catalog:
        rows = catalog.execute(asked, (pod.look()["session"],)).fetchall()
    return [(seq, prompt, response.strip()) for seq, prompt, response in rows]


def _answers(pod: AgentPod) -> int:
    """How many answers are on the tape, whoever runs."""
    folder = Path(pod.station.environ["SCRUBJAY_DATA"]) / "pods" / pod.id / "tape"
    return sum(record.kind == Kind.EVENT and "response" in record.json() for record in Tape(folder).records())


def _await(pod: AgentPod, *wanted: tuple[str, str]) -> None:
    numbered = [(seq, *said) for seq, said in enumerate(wanted, 1)]
    pod.wait_for(lambda: len(_remembered(pod)) >= len(wanted), f"{len(wanted)} turns are remembered")
    assert _remembered(pod) == numbered


def test_two_turns_are_remembered_and_one_that_was_cut_off(station: Station) -> None:
    pod = station.run()
    pod.wait_until("idle")
    station.stub.plan(Answer("Good day.\n\nWhat can I do?"))

    pod.say("hello agent")

    turns = [("hello agent", "Good day.\n\nWhat can I do?")]
    _await(pod, *turns)

    station.stub.plan(Answer("I run it.", call=Shell("touch ran")), Answer("That was all."))
    pod.say("please run the command")
    pod.wait_until("waiting", "person:permission")
    pod.approve()

    turns.append(("please run the command", "That was all."))
    _await(pod, *turns)

    station.stub.plan(Answer(_LONG, held=threading.Event()))
    pod.say("write something long")
    pod.wait_until("executing")
    station("stop", pod.id, "--grace", "0")

    _await(pod, *turns, ("write something long", ""))


def test_what_is_said_while_it_works_is_remembered_with_what_answers_it(station: Station) -> None:
    pod = station.run()
    pod.wait_until("idle")
    held = threading.Event()
    station.stub.plan(Answer("The first words. " * 8, held=held), Answer("The second words."))
    pod.say("one thing first")
    pod.wait_until("executing")

    pod.queue("and another thing")
    held.set()

    pod.wait_until_it_shows("The second words.")
    first, second = "one thing first", "and another thing"
    if station.agent is CODEX:  # it is in the same turn there
        _await(pod, (f"{first}\n\n{second}", "The second words."))
    else:
        _await(pod, (first, ("The first words. " * 8).strip()), (second, "The second words."))


def test_a_turn_that_ends_while_there_is_no_server_is_remembered_when_there_is_one_again(station: Station) -> None:
    pod = station.run()
    pod.wait_until("idle")
    held = threading.Event()
    station.stub.plan(Answer("Good day."), Answer("Slowly. " * 8, held=held), Answer("And on."))
    pod.say("hello agent")
    _await(pod, ("hello agent", "Good day."))
    pod.say("speak slowly")

    def end_turn() -> None:
        held.set()
        eventually(lambda: _answers(pod) == 2, "the turn ends")

    station.restart(meanwhile=end_turn)

    slowly = ("speak slowly", ("Slowly. " * 8).strip())
    _await(pod, ("hello agent", "Good day."), slowly)
    pod.say("go on please")
    _await(pod, ("hello agent", "Good day."), slowly, ("go on please", "And on."))
