"""A turn of each real agent, from its first prompt to its end, and what Scrubjay says of it meanwhile."""

from __future__ import annotations

import threading

from tests.real_agents.station import Station
from tests.real_agents.stub.script import Answer, Shell

_TEXT = "I am looking at the project and think about it word by word. " * 2


def test_a_turn_is_seen_as_it_happens(station: Station) -> None:
    prompt, ran = "please run the command", station.project / "ran"
    held = threading.Event()
    looks = Answer(_TEXT, held=held, thinking="Let me see.", call=Shell("touch ran"))
    station.stub.plan(looks, Answer("That was all."))

    pod = station.run(prompt=prompt)
    assert pod.look()["state"] == "running"

    turn = pod.wait_for_turn(prompt)
    pod.wait_until("executing")
    assert not turn.answered
    held.set()

    pod.wait_until("waiting", "person:permission")
    assert turn.answered
    assert not ran.exists()

    pod.approve()
    pod.wait_for(ran.exists, "the command runs")
    seen = pod.wait_until("idle")
    assert seen["conversation"]

    assert pod.leave()["status"] == 0
