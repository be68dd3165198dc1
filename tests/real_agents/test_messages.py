"""Messages that are typed into real agents: each comes to the model once, whatever its text would do at a prompt."""

from __future__ import annotations

import threading
from typing import cast

from scrubjay.server.guard import LOCAL
from scrubjay.tape.record import Json
from tests.real_agents.pod import AgentPod
from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer

# What runs commands, opens pickers and leaves the agent where it is typed by itself, and more than fits into a line;
# and how it reads then.
_TEXTS = {
    "!touch ran; then look at @README.md, and at /etc/hosts, and #remember it!": None,
    "- one\n- two\n\n/exit\n"
    + "and this goes on for a while. " * 10: "- one - two /exit and this goes on for a while. and",
    "what is 6 x 7? @everyone «answer» \x1b[31m\u202enow": "what is 6 x 7? @everyone <answer> \\u{1b}[31m\\u{202e}now",
}


def test_messages_come_to_the_model_once_and_in_order_and_do_nothing_else(station: Station) -> None:
    pod = station.run()
    pod.wait_until("idle")

    for number, text in enumerate(_TEXTS, 1):
        station.stub.plan(Answer(f"Noted as number {number}.", over_s=1))
        station.client.post(f"/api/v1/pods/{pod.id}/messages", {"text": text})
        pod.wait_for_turn(f"inbox#{number}]")
        pod.wait_until_it_shows(f"number {number}.")
        pod.wait_until("idle")

    _await_delivered(station, pod, len(_TEXTS))
    said = _said(station, f"inbox#{len(_TEXTS)}]")
    assert len(said) == len(_TEXTS), said
    for number, (text, reads) in enumerate(_TEXTS.items(), 1):
        assert said[number - 1].startswith(f"[inbox#{number}: Message from {LOCAL.name}, a person, to you alone: «")
        assert f"«{reads or text}" in said[number - 1]
        assert f"inbox#{number}]" in said[number - 1]
    assert not (station.project / "ran").exists()
    assert pod.look()["state"] == "running"


def test_messages_that_come_while_the_agent_works_wait_until_it_is_done(station: Station) -> None:
    held = threading.Event()
    station.stub.plan(Answer("This takes a while. " * 10, held=held), Answer("First."), Answer("Second."))
    pod = station.run()
    pod.wait_until("idle")
    pod.say("do something long")
    pod.wait_until("executing")

    for text in ("the first", "the second"):
        station.client.post(f"/api/v1/pods/{pod.id}/messages", {"text": text})
    assert _states(station, pod) == ["queued", "queued"]
    held.set()
    pod.wait_for_turn("inbox#2]")

    _await_delivered(station, pod, 2)
    turns = [[mark for mark in ("inbox#1]", "inbox#2]") if turn.heard(mark)] for turn in station.stub.turns]
    assert turns == [[], ["inbox#1]"], ["inbox#1]", "inbox#2]"]]


def _await_delivered(station: Station, pod: AgentPod, count: int) -> None:
    pod.wait_for(lambda: _states(station, pod) == ["delivered"] * count, f"{count} messages were delivered")


def _states(station: Station, pod: AgentPod) -> list[str]:
    inbox = cast(Json, station.client.get(f"/api/v1/pods/{pod.id}/inbox", all="true"))
    return [str(each["state"]) for each in cast("list[Json]", inbox["messages"])]


def _said(station: Station, last: str) -> list[str]:
    """The messages in the last conversation that has this one, as the model was told them."""
    turn = [turn for turn in station.stub.turns if turn.heard(last)][-1]
    found = [" ".join(text.split()) for text in turn.conversation if "a person, to you alone" in text]
    return [text[text.index("[inbox#") :] for text in found]
