"""Agents wait, talk and hand over through MCP; everybody sees it, and a killed server loses and doubles nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import pytest

from scrubjay.tape.record import Json
from tests.chaos.callers import CallerPod, FleetWatcher, start_callers
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, free_port
from tests.support.services import Service
from tests.support.tiers import sized

_WAIT_S = 300  # longer than anything here takes
_SEEN_S = 1.0  # within which what an agent declares is seen by people


@pytest.fixture
def up(fleet: Fleet) -> Service:
    """Server and runner on a port that is the same after a restart."""
    service = fleet.service("up", "--port", str(free_port()), "--json")
    service.start()
    return service


def _waits(up: Service) -> Json:
    return cast(Json, up.client.get("/api/v1/waits"))


def _open_waits(up: Service) -> list[Json]:
    return cast(list[Json], _waits(up)["waits"])


def _deadlocks(up: Service) -> list[Json]:
    return cast(list[Json], _waits(up)["deadlocks"])


def _kinds(up: Service, kind: str) -> list[Json]:
    found: list[Json] = []
    after = 0
    while events := up.events(after):
        found += [event for event in events if event["kind"] == kind]
        after = cast(int, events[-1]["number"])
    return found


def _team(fleet: Fleet, *names: str) -> list[CallerPod]:
    callers = start_callers(fleet, *names)
    first, *others = callers
    first.call("create_channel", name="team", idempotency_key="make")
    for caller in others:
        caller.call("join_channel", channel="team")
    return callers


def test_a_wait_is_seen_everywhere_with_its_reason_and_ends_when_the_artifact_is_handed_over(
    fleet: Fleet, up: Service, promised: Callable[[float], float]
) -> None:
    a, b, c = _team(fleet, "a", "b", "c")
    with FleetWatcher(up.data / "server.sock") as watcher:
        order = b.order("wait_for", pod="a", artifact="report", reason="I build on it", timeout_s=_WAIT_S)

        eventually(lambda: watcher.of_kind("wait.began"), "the event comes", within_s=promised(_SEEN_S))
        assert len(_open_waits(up)) == 1
        printed = json.loads(fleet.cli("waits", "--json").stdout)
    [told] = [cast(Json, event["data"]) for event in watcher.of_kind("wait.began")]
    assert (told["waiter_name"], told["on_name"], told["reason"]) == ("b", "a", "I build on it")
    for [wait] in (_open_waits(up), printed["waits"]):
        assert (wait["waiter"], wait["on"], wait["key"], wait["reason"]) == ("b", "a", "report", "I build on it")
    assert "I build on it" in fleet.cli("why", "b").stdout

    offered = a.call("offer_handoff", note="the report", artifact="report", files=["report.md"], idempotency_key="h1")
    assert offered["met"] == ["b"]
    met = cast(Json, b.result(order)["answer"])
    assert (met["state"], cast(Json, met["handoff"])["files"]) == ("met", ["report.md"])
    assert _open_waits(up) == []
    assert c.call("whoami")["name"] == "c"


def test_a_circle_of_three_is_named_in_order_survives_a_kill_and_is_cut(
    fleet: Fleet, up: Service, promised: Callable[[float], float]
) -> None:
    callers = dict(zip("abc", _team(fleet, "a", "b", "c"), strict=True))
    orders: dict[str, int] = {}
    for waiter, on in (("a", "b"), ("b", "c")):
        orders[waiter] = callers[waiter].order("wait_for", pod=on, reason=f"{on} first", timeout_s=_WAIT_S)
    eventually(lambda: len(_open_waits(up)) == 2, "two wait")
    assert _deadlocks(up) == []

    orders["c"] = callers["c"].order("wait_for", pod="a", reason="a first", timeout_s=_WAIT_S, idempotency_key="last")
    eventually(lambda: _deadlocks(up), "the circle is named", within_s=promised(_SEEN_S))

    [deadlock] = _deadlocks(up)
    pods = cast(list[str], deadlock["pods"])
    assert pods in (["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"])
    assert [(edge["waiter"], edge["on"]) for edge in cast(list[Json], deadlock["edges"])] == list(
        zip(pods, pods[1:] + pods[:1], strict=True)
    )

    up.kill()
    up.start()

    eventually(lambda: len(_deadlocks(up)) == 1 and len(_open_waits(up)) == 3, "it still stands")
    assert len(_kinds(up, "deadlock.found")) == 1
    printed = json.loads(fleet.cli("waits", "--json").stdout)
    assert [each["pods"] for each in printed["deadlocks"]] == [pods]

    fleet.cli("why", "a", "--cut")

    eventually(lambda: _deadlocks(up) == [], "the circle is open")
    [ended] = _kinds(up, "deadlock.ended")
    assert "cancelled" in str(cast(Json, ended["data"])["outcome"])
    [cut] = [cast(Json, event["data"]) for event in _kinds(up, "wait.ended")]
    assert cut["outcome"] == "cancelled"
    assert len(_open_waits(up)) == 2

    def told() -> list[str]:
        return [name for name, caller in callers.items() if _was_cancelled(caller, orders[name])]

    assert len(eventually(told, "whose wait was cut hears of it and goes on")) == 1


def _was_cancelled(caller: CallerPod, order: int) -> bool:
    results = caller.results
    return len(results) > order and cast(Json, results[order]["answer"])["state"] == "cancelled"


def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing_between_agents(
    fleet: Fleet, up: Service
) -> None:
    a, b, c = _team(fleet, "a", "b", "c")
    rounds, kills = sized(6, 40, 200), sized(1, 4, 20)
    last: dict[str, int] = {}
    for number in range(rounds):
        a.order("post_message", channel="team", text=f"@b message {number}", idempotency_key=f"m{number}")
        last["a"] = a.order("offer_handoff", note=f"n{number}", artifact=f"k{number}", idempotency_key=f"h{number}")
        last["b"] = b.order("wait_for", artifact=f"k{number}", pod="a", reason="next", timeout_s=_WAIT_S)
        last["c"] = c.order(
            "request_binding", pod="a" if number % 2 else "b", scopes=["terminal:read"], idempotency_key=f"b{number}"
        )

    for kill in range(kills):
        share = (kill + 1) * rounds // (kills + 1)
        eventually(lambda: len(b.results) > share, "some of it is done")  # noqa: B023
        up.kill()
        up.start()
    results = {caller.name: caller.result(last[caller.name]) for caller in (a, b, c)}

    assert not any(result["failed"] for caller in (a, b, c) for result in caller.results), results
    said = _all_messages(up, "team")
    assert [message["seq"] for message in said] == list(range(1, rounds + 1))
    assert [message["text"] for message in said] == [f"@b message {number}" for number in range(rounds)]
    handoffs = cast(list[Json], up.client.get("/api/v1/handoffs", all="true"))
    assert [handoff["key"] for handoff in handoffs] == [f"k{number}" for number in range(rounds)]
    assert all(handoff["takers"] == ["b"] for handoff in handoffs)
    assert [cast(Json, result["answer"])["state"] for result in b.results[-rounds:]] == ["met"] * rounds
    bindings = cast(list[Json], up.client.get("/api/v1/bindings", all="true"))
    assert sorted((binding["initiator"], binding["target"]) for binding in bindings) == [("c", "a"), ("c", "b")]
    assert [wait["source"] for wait in _open_waits(up)] == ["binding", "binding"]
    texts = [message["text"] for message in _whole_inbox(b) if message["channel"] == "team"]
    assert texts == [f"@b message {number}" for number in range(rounds)]


def _all_messages(up: Service, channel: str) -> list[Json]:
    found: list[Json] = []
    while True:
        after = len(found)
        page = cast(Json, up.client.get(f"/api/v1/channels/{channel}/messages", after=after, limit=200))
        messages = cast(list[Json], page["messages"])
        if not messages:
            return found
        found += messages


def _whole_inbox(caller: CallerPod) -> list[Json]:
    """All that is for an agent, which takes note of it page by page."""
    found: list[Json] = []
    while messages := cast(list[Json], caller.call("read_inbox", limit=50)["messages"]):
        found += messages
        caller.call("acknowledge", messages=[message["id"] for message in messages])
    return found
