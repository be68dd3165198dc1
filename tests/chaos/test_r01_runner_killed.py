"""R1: the runner may be killed at any moment; agents go on, and it finds them all again."""

from __future__ import annotations

from collections.abc import Callable

from scrubjay.cli.client import ServerUnreachable
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import is_alive, kill
from tests.support.services import Service
from tests.support.tiers import sized

_PODS = sized(5, 20, 100)
_KILLS = sized(1, 2, 5)
# 20 kB/s each would be 100 pods' worth of a machine; the ledger needs numbers, not bytes.
# A hundred that speak 50 times a second are no small load.
_BEAT = ("--rate", "100", "--every-ms", str(sized(20, 20, 200)))


def test_r1_a_killed_runner_finds_all_its_pods_again_and_no_agent_has_noticed(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    up = fleet.up()
    members = fleet.metronomes([f"m{number}" for number in range(_PODS)], *_BEAT)
    eventually(lambda: _all_running(up, members), "all pods are in the fleet")

    for _ in range(_KILLS):
        before = [member.progress for member in members]
        up.kill()
        up.begin()
        eventually(lambda: _all_running(up, members), "all pods are found again", within_s=promised(sized(2, 2, 5)))
        _assert_going_on(members, before)
    before = [member.progress for member in members]
    assert up.stop() == 0
    _assert_going_on(members, before)
    assert "Traceback" not in up.log
    up.start()
    eventually(lambda: _all_running(up, members), "all pods are found again")

    assert all(is_alive(member.agent_pid) for member in members)
    assert [fleet.keepers(member) for member in members] == [[member.keeper_pid] for member in members]
    fleet.finish(*members)
    for member in members:
        assert member.ledger().whole, (member.name, member.ledger())
    eventually(lambda: set(up.processes().values()) == {"exited"}, "the end of all is known")
    kinds = [event["kind"] for event in up.events()]
    assert kinds.count("pod.started") + kinds.count("pod.found") == _PODS
    assert kinds.count("pod.exited") == _PODS
    assert "pod.lost" not in kinds


def _assert_going_on(members: list[Member], before: list[int]) -> None:
    for member, progress in zip(members, before, strict=True):
        eventually(lambda: member.progress > progress, f"{member.name} goes on")  # noqa: B023


def _all_running(up: Service, members: list[Member]) -> bool:
    processes = up.processes()
    return all(processes.get(member.name) == "running" for member in members)


def test_r1_a_pod_that_ends_while_nobody_watches_is_known_to_have_ended(fleet: Fleet) -> None:
    up = fleet.up()
    [ends, dies, stays] = fleet.metronomes(["ends", "dies", "stays"], *_BEAT)
    eventually(lambda: _all_running(up, [ends, dies, stays]), "all pods are in the fleet")
    up.kill()
    fleet.finish(ends)
    kill(dies.keeper_pid)

    up.start()

    expected = {"ends": "exited", "dies": "lost", "stays": "running"}
    eventually(lambda: up.processes() == expected, "how each is")
    reason = up.pods()["dies"]["status"]
    assert isinstance(reason, dict)
    assert reason["reason"] == "keeper killed"  # pyright: ignore[reportUnknownArgumentType]


def test_r1_the_first_request_that_up_answers_starts_a_pod(fleet: Fleet) -> None:
    up = fleet.service("up", "--port", "0", "--json")

    def start_pod() -> object:
        wanted = {"name": "early", "command": ["sleep", "60"], "cwd": str(fleet.logs)}
        try:
            return up.client.post("/api/v1/pods", wanted, timeout_s=DEADLINE_S)
        except ServerUnreachable:
            return None

    up.begin()
    assert eventually(start_pod, "up answers")
    up.client.post("/api/v1/pods/early/stop", {"grace_s": 0})
    eventually(lambda: up.processes() == {"early": "exited"}, "the pod ends")
