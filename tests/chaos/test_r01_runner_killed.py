"""R1: the runner may be killed at any moment; agents go on, and it finds them all again."""

from __future__ import annotations

import time

import pytest

from chaos.cluster import Service
from chaos.fleet import Fleet, Member
from chaos.machine import eventually, is_alive, kill
from tiers import sized

_PODS = sized(20, 100)
# 20 kB/s each would be 100 pods' worth of a machine; the ledger needs numbers, not bytes.
_BEAT = ("--rate", "100", "--every-ms", str(sized(20, 200)))  # a hundred that speak 50 times a second are no small load


@pytest.mark.timeout(sized(120, 600))
def test_r1_a_killed_runner_finds_all_its_pods_again_and_no_agent_has_noticed(fleet: Fleet) -> None:
    up = fleet.up()
    members = fleet.metronomes([f"m{number}" for number in range(_PODS)], *_BEAT)
    eventually(lambda: _all_running(up, members), "all pods are in the fleet", within_s=20)

    for _ in range(sized(2, 5)):
        before = [member.progress for member in members]
        up.kill()
        up.begin()
        began = time.monotonic()
        up.await_answer()
        answered_s = time.monotonic() - began
        eventually(lambda: _all_running(up, members), "all pods are found again", within_s=sized(2, 5))
        print(f"answered after {answered_s:.2f} s, {_PODS} pods found after {time.monotonic() - began:.2f} s")
        for member, progress in zip(members, before, strict=True):
            eventually(lambda: member.progress > progress, f"{member.name} goes on", within_s=5)  # noqa: B023

    assert all(is_alive(member.agent_pid) for member in members)
    assert [fleet.keepers(member) for member in members] == [[member.keeper_pid] for member in members]
    fleet.finish(*members)
    for member in members:
        assert member.ledger().whole, (member.name, member.ledger())
    eventually(lambda: set(up.processes().values()) == {"exited"}, "the end of all is known", within_s=10)
    kinds = [event["kind"] for event in up.events()]
    assert kinds.count("pod.started") + kinds.count("pod.found") == _PODS
    assert kinds.count("pod.exited") == _PODS
    assert "pod.lost" not in kinds


def _all_running(up: Service, members: list[Member]) -> bool:
    processes = up.processes()
    return all(processes.get(member.name) == "running" for member in members)


def test_r1_a_pod_that_ends_while_nobody_watches_is_known_to_have_ended(fleet: Fleet) -> None:
    up = fleet.up()
    [ends, dies, stays] = fleet.metronomes(["ends", "dies", "stays"], *_BEAT)
    eventually(lambda: _all_running(up, [ends, dies, stays]), "all pods are in the fleet", within_s=20)
    up.kill()
    fleet.finish(ends)
    kill(dies.keeper_pid)

    up.start()

    expected = {"ends": "exited", "dies": "lost", "stays": "running"}
    eventually(lambda: up.processes() == expected, "how each is", within_s=5)
    reason = up.pods()["dies"]["status"]
    assert isinstance(reason, dict)
    assert reason["reason"] == "keeper killed"  # pyright: ignore[reportUnknownArgumentType]


def test_r1_ending_the_server_in_order_leaves_agents_running(fleet: Fleet) -> None:
    up = fleet.up()
    member = fleet.metronome("m", *_BEAT)
    eventually(lambda: _all_running(up, [member]), "it is in the fleet", within_s=20)

    assert up.stop() == 0

    progress = member.progress
    eventually(lambda: member.progress > progress, "it goes on", within_s=5)
    assert "Traceback" not in up.log
    up.start()
    eventually(lambda: _all_running(up, [member]), "it is found again", within_s=5)
