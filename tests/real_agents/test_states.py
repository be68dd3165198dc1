"""What becomes of a turn otherwise: an error, a question, an interruption."""

from __future__ import annotations

import threading

import pytest

from tests.real_agents.agents import AGENTS
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer, Failure, Question

_ASKING = [agent for agent in AGENTS if agent.choose]
_LONG = " ".join(f"Step {number} is long, and nobody needs to read it." for number in range(1, 21))


def test_an_agent_without_a_prompt_is_idle_and_takes_one_later(station: Station) -> None:
    station.stub.plan(Answer("Good day."))

    pod = station.run()
    pod.wait_until("idle")
    pod.say("hello agent")
    pod.wait_until_it_shows("Good day.")

    pod.wait_until("idle")


def test_an_error_is_seen_and_the_agent_goes_on_after_it(station: Station) -> None:
    station.stub.plan_forever(Failure(400, "the stub refuses"))

    pod = station.run(prompt="this will fail")
    pod.wait_for_turn("this will fail")
    pod.wait_until_it_shows("the stub refuses")
    pod.wait_until_it_failed()

    station.stub.plan_forever(Answer("It works again."))
    pod.say("try once more")
    pod.wait_until_it_shows("It works again.")
    pod.wait_until("idle")


@pytest.mark.parametrize("agent", _ASKING, indirect=True, ids=lambda agent: agent.name)
def test_a_question_to_the_person_is_seen(station: Station) -> None:
    station.stub.plan(
        Answer("One thing first.", call=Question("Which color shall it be?", ("Red", "Blue"))), Answer("Noted.")
    )

    pod = station.run(prompt="ask me something")
    pod.wait_for_turn("ask me something")
    pod.wait_until("waiting", "person:question")
    pod.wait_until_it_shows("Which color")

    pod.answer(station.agent.choose, lambda: pod.shows("Noted."), "the answer is taken")
    pod.wait_until("idle")


def test_an_interrupted_turn_is_over(station: Station) -> None:
    station.stub.plan(Answer(_LONG, held=threading.Event()))

    pod = station.run(prompt="write something long")
    turn = pod.wait_for_turn("write something long")
    pod.wait_until("executing")
    pod.wait_until_it_shows("nobody needs")
    pod.interrupt()

    assert not turn.answered
