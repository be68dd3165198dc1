"""Real agents and the server's tools: found at their start, called unasked, kept when the server is started again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real_agents.agents import CLAUDE, CODEX, GEMINI, OPENCODE
from tests.real_agents.pod import AgentPod
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer, Call

# Without asking for each. Copilot CLI loses the tools of a server that is started again.
_KEEPING = [CLAUDE, CODEX, GEMINI, OPENCODE]


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], indirect=True, ids=lambda agent: agent.name)
def test_an_agent_finds_the_tools_and_calls_one_unasked(station: Station) -> None:
    pod = station.run()
    _greet(pod)

    _call(pod, "list_pods", "say who else is here", "Nobody else.")

    pod.wait_until("idle")
    assert pod.leave()["status"] == 0


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], indirect=True, ids=lambda agent: agent.name)
def test_an_agent_talks_and_waits_and_everybody_sees_what_for(station: Station) -> None:
    pod = station.run()
    _greet(pod)
    station("channel", "create", "plans", "--member", pod.id)
    asks = Call("post_message", {"channel": "plans", "text": "I need the plan"})
    waits = Call("wait_for", {"artifact": "plan", "reason": "to begin", "timeout_s": 300})
    station.stub.plan(Answer("I say so.", call=asks), Answer("I wait.", call=waits), Answer("Now I have it."))

    pod.say("get the plan")

    wait = pod.wait_for(lambda: _waits(station), "it waits")[0]
    assert (wait["waiter_pod"], wait["key"], wait["reason"]) == (pod.id, "plan", "to begin")
    said = json.loads(station("channel", "read", "plans", "--json"))["messages"]
    assert [message["text"] for message in said] == ["I need the plan"]
    assert pod.look()["activity"] == "executing"

    station("handoff", "offer", "the plan is to ship it", "--artifact", "plan")

    pod.wait_until_it_shows("Now I have it.")
    assert station.stub.turns[-1].heard("the plan is to ship it")
    assert _waits(station) == []


def _waits(station: Station) -> list[dict[str, Any]]:
    return json.loads(station("waits", "--json"))["waits"]


@pytest.mark.parametrize("agent", _KEEPING, indirect=True, ids=lambda agent: agent.name)
def test_an_agent_keeps_its_tools_when_the_server_is_killed_between_two_turns(station: Station) -> None:
    pod = station.run()
    _greet(pod)
    _call(pod, "whoami", "say who you are", "That is me.")

    station.restart()

    _call(pod, "whoami", "say who you are now", "Still me.")
    _call(pod, "list_pods", "say who else is here", "Nobody else.")
    pod.wait_until("idle")


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, GEMINI], indirect=True, ids=lambda agent: agent.name)
def test_an_agent_asks_before_it_lets_another_into_its_terminal(station: Station) -> None:
    pod = station.run()
    _greet(pod)
    answer = Call("answer_binding", {"binding": "a" * 26, "accept": True})
    station.stub.plan(Answer("Somebody wants in.", call=answer), Answer("So be it."))

    pod.say("let them in")

    pod.wait_until("waiting", "person:permission")
    pod.answer(("enter",), lambda: pod.shows("So be it."), "it goes on")


def _greet(pod: AgentPod) -> None:
    """Talk until the agent has the tools: one that is still connecting begins a turn without them."""
    stub = pod.station.stub
    pod.wait_until("idle")
    for number in range(10):
        stub.plan(Answer("Good day."))
        turn = pod.say(f"good day, number {number}")
        pod.wait_until("idle")
        if any(name.endswith("whoami") for name in stub.tools_of(turn)):
            return
    raise AssertionError(f"{pod.station.agent.name} has no tools:\n{pod.screen()}")


def _call(pod: AgentPod, tool: str, prompt: str, answer: str) -> None:
    """Have the model call a tool; what the server says of this pod must come back to it, without a question."""
    pod.station.stub.plan(Answer("Let me see.", call=Call(tool, {})), Answer(answer))
    pod.say(prompt)
    pod.wait_until_it_shows(answer)

    last = [turn for turn in pod.station.stub.turns if turn.heard(prompt)][-1].conversation
    asked = max(number for number, said in enumerate(last) if prompt in said)
    assert any(pod.id in said for said in last[asked:]), f"{tool} told the model: {last[asked:]}"
