"""R3: when a keeper is killed, nothing of its pod is left, everybody is told, and nothing acknowledged is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from scrubjay.cli import terminal
from scrubjay.cli.modes import Modes
from scrubjay.pods.connection import Connection
from scrubjay.pods.pod import Pod
from scrubjay.tape.format import Kind
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import is_alive, kill
from tests.support.tiers import sized

_SEALERS = sized(2, 4, 4)


def test_r3_killing_a_keeper_ends_its_pod_and_loses_nothing_that_was_acknowledged(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    victim, *bystanders = fleet.metronomes(["victim", "left", "right"], "--child")
    eventually(lambda: len(fleet.processes(victim)) == 4, "keeper, undertaker, agent and child run")
    acknowledged = [f"mark {number}" for number in range(5)]
    for label in acknowledged:
        fleet.cli("mark", "victim", label)

    kill(victim.keeper_pid)
    killed = time.monotonic()
    eventually(lambda: not is_alive(victim.agent_pid), "the agent is gone", within_s=promised(1))
    eventually(lambda: not fleet.processes(victim), "no process of the pod is left")
    description = fleet.ps()["victim"]["description"]
    told_after_s = time.monotonic() - killed

    assert description == "lost: keeper killed"
    assert told_after_s <= promised(5)
    assert victim.labels() == acknowledged
    assert victim.ledger().faults == (0, 0, 0)
    _assert_untouched(fleet, bystanders)


def _assert_untouched(fleet: Fleet, bystanders: list[Member]) -> None:
    rows = fleet.ps()
    for member in bystanders:
        assert (rows[member.name]["keeper_pid"], rows[member.name]["agent_pid"]) == (
            member.keeper_pid,
            member.agent_pid,
        )
        reached = member.progress
        eventually(lambda: member.progress > reached, f"{member.name} goes on")  # noqa: B023
    fleet.finish(*bystanders)
    for member in bystanders:
        assert member.ledger().faults == (0, 0, 0)


def test_r3_the_tape_of_a_lost_pod_is_torn_until_seal_closes_it(fleet: Fleet) -> None:
    victim = fleet.metronome("victim")
    fleet.cli("mark", "victim", "before")
    kill(victim.keeper_pid)
    eventually(lambda: not victim.pod.alive, "the keeper is gone")

    torn = fleet.cli("verify", "victim", expect=1)
    before = victim.ledger()
    fleet.cli("seal", "victim")
    clean = fleet.cli("verify", "victim")

    assert "torn" in torn.stdout
    assert clean.stdout == "victim: clean\n"
    (gap,) = victim.records(Kind.GAP)
    assert gap.json()["reason"] == "the recorder died"
    assert victim.records()[-1].kind == Kind.SEAL
    assert victim.segments(".raw") == []
    assert victim.ledger().count == before.count
    assert victim.labels() == ["before"]
    assert fleet.ps()["victim"]["description"] == "lost: keeper killed"


def test_r3_a_lost_tape_that_several_seal_at_once_is_closed_once(fleet: Fleet) -> None:
    victims = fleet.metronomes(["a", "b", "c"], "--rate", "5000")
    for victim in victims:
        kill(victim.keeper_pid)
    eventually(lambda: not any(victim.pod.alive for victim in victims), "the keepers are gone")

    sealers = [fleet.run_aside("seal") for _ in range(_SEALERS)]
    statuses = [sealer.wait() for sealer in sealers]

    assert statuses == [0] * _SEALERS
    assert fleet.cli("verify").stdout.count(": clean\n") == 3
    for victim in victims:
        assert len(victim.records(Kind.GAP)) == 1
        assert victim.ledger().faults == (0, 0, 0)


def test_r3_a_name_is_free_again_when_its_pod_was_lost(fleet: Fleet) -> None:
    lost = fleet.metronome("again")
    kill(lost.keeper_pid)
    eventually(lambda: not lost.pod.alive, "the keeper is gone")

    found = fleet.metronome("again")

    assert found.pod.id != lost.pod.id
    assert is_alive(found.agent_pid)


@pytest.mark.parametrize("deaf", ["TERM", "HUP TERM INT"])
def test_r3_a_process_that_ignores_requests_to_end_is_ended_all_the_same(fleet: Fleet, deaf: str) -> None:
    script = f"trap '' {deaf}; setsid sh -c 'while :; do sleep 1000; done' & echo ready; while :; do sleep 1000; done"
    victim = fleet.start("victim", "sh", "-c", script)
    eventually(lambda: b"ready" in victim.output(), "it ignores signals")

    kill(victim.keeper_pid)

    eventually(lambda: not fleet.processes(victim), "no process of the pod is left")


def test_r3_attached_people_are_told_that_the_pod_was_lost(fleet: Fleet) -> None:
    victim = fleet.metronome("victim")
    person = fleet.attach(victim)
    eventually(lambda: b"n=" in person.shown, "the person sees output")

    kill(victim.keeper_pid)
    status = person.wait()

    assert status == 1
    assert b"was lost" in person.shown


def test_r3_a_keeper_that_dies_while_a_person_attaches_is_reported_as_lost(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_catch_up, at_connection = fleet.start_all(dict.fromkeys(("at-catch-up", "at-connection"), ("cat",)))

    def lose(member: Member) -> None:
        kill(member.keeper_pid)
        eventually(lambda: not member.pod.alive, "the keeper is gone")

    def catch_up(output: bytes, limit: int) -> bytes:
        lose(at_catch_up)
        return b""

    def modes() -> Modes:
        lose(at_connection)
        return Modes()

    monkeypatch.setattr(terminal, "catch_up", catch_up)
    while_shown = terminal.join(at_catch_up.pod, "test", from_start=False)
    connection = at_connection.pod.connect()

    def connect(_pod: Pod) -> Connection:
        return connection

    monkeypatch.setattr(Pod, "connect", connect)
    monkeypatch.setattr(terminal, "Modes", modes)
    while_connecting = terminal.join(at_connection.pod, "test", from_start=False)

    assert while_shown == while_connecting == terminal.Outcome(lost=True)
