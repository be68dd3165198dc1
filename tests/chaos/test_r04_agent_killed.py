"""R4: however an agent ends, its tape says how, names what it left running, ends that, and is closed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import is_alive, kill


def _exit_of(member: Member) -> Json | None:
    return next((record.json() for record in member.records(Kind.EXIT)), None)


def _assert_closed(fleet: Fleet, member: Member) -> None:
    """Nothing runs, everything is sealed by itself, and the tape is clean."""
    eventually(lambda: not member.pod.alive, "the keeper has ended")
    fleet.assert_clean(member)
    fleet.eventually(lambda: not fleet.processes(member), "no process is left")
    assert member.records()[-1].kind == Kind.SEAL
    assert len(member.records(Kind.EXIT)) == 1


def _child_of(fleet: Fleet, member: Member) -> int:
    def child() -> list[int]:
        return [pid for pid in fleet.processes(member) if _is_sleep(pid)]

    return eventually(child, "the child runs")[0]


def _is_sleep(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read() == "sleep\n"
    except OSError:
        return False


def test_r4_killing_an_agent_is_recorded_and_its_child_is_named_and_ended(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    member = fleet.metronome("m", "--child")
    child = _child_of(fleet, member)

    kill(member.agent_pid)
    ended = eventually(lambda: _exit_of(member), "the exit is on the tape", within_s=promised(1))

    assert ended == {"status": 137, "signal": "KILL"}
    eventually(lambda: not is_alive(child), "the child has ended")
    (left,) = eventually(lambda: member.events("process.left"), "the child is named")
    assert left["pid"] == child
    assert left["session"] == child
    assert left["command"] == "sleep 1000"
    eventually(lambda: not member.pod.alive, "the keeper has ended")
    (gone,) = member.events("process.ended")
    assert gone == {"event": "process.ended", "pid": child, "status": 143, "signal": "TERM"}
    _assert_closed(fleet, member)
    assert member.ledger().faults == (0, 0, 0)
    assert fleet.ps()["m"]["description"] == "exited 137"


def test_r4_an_agent_that_ends_by_itself_leaves_no_child_behind(fleet: Fleet) -> None:
    member = fleet.metronome("m", "--child", "--count", "100")

    eventually(lambda: not member.pod.alive, "the keeper has ended")

    assert _exit_of(member) == {"status": 0}
    (left,) = member.events("process.left")
    assert left["command"] == "sleep 1000"
    _assert_closed(fleet, member)
    ledger = member.ledger()
    assert ledger.faults == (0, 0, 0)
    assert ledger.last == 99


def test_r4_a_left_child_that_ignores_term_is_killed(fleet: Fleet) -> None:
    script = "setsid sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1000; done' & read line"
    member = fleet.start("m", "sh", "-c", script)
    eventually(lambda: b"ready" in member.output(), "the child ignores TERM")

    fleet.cli("send", "m", "--enter")

    _assert_closed(fleet, member)
    assert "KILL" in [event["signal"] for event in member.events("process.ended")]


def test_r4_stop_does_not_wait_for_a_child_of_another(fleet: Fleet, promised: Callable[[float], float]) -> None:
    script = "setsid sh -c 'sleep 1000 & trap \"wait; exit\" TERM; echo ready; wait' & wait"
    member = fleet.start("m", "sh", "-c", script)
    eventually(lambda: b"ready" in member.output(), "what it left waits for its child")

    fleet.cli("stop", "m", "--grace", "0")

    assert len(member.events("process.left")) == 2
    (last,) = member.records(Kind.SEAL)
    (left,) = member.records(Kind.EXIT)
    assert last.at - left.at < promised(2) * 1_000_000, "it was not waited for until it would have been killed"
    _assert_closed(fleet, member)


def test_r4_stop_kills_an_agent_that_ignores_term_after_the_grace(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done")
    eventually(lambda: b"ready" in member.output(), "the agent ignores TERM")

    began = time.monotonic()
    answer = json.loads(fleet.cli("stop", "m", "--grace", "0.5", "--json").stdout)

    assert time.monotonic() - began >= 0.5
    assert (answer["state"], answer["status"]) == ("exited", 137)
    assert [record.json()["signal"] for record in member.records(Kind.SIGNAL)] == ["TERM", "KILL"]
    assert _exit_of(member) == {"status": 137, "signal": "KILL"}
    _assert_closed(fleet, member)


def test_r4_stop_lets_an_agent_that_hears_term_end_in_its_own_way(fleet: Fleet) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    member = fleet.start("m", "sh", "-c", script)
    eventually(lambda: b"ready" in member.output(), "the agent hears TERM")

    answer = json.loads(fleet.cli("stop", "m", "--json").stdout)

    assert answer["status"] == 7
    assert b"bye" in member.output()
    assert [record.json()["signal"] for record in member.records(Kind.SIGNAL)] == ["TERM"]
    _assert_closed(fleet, member)


def test_r4_an_agent_killed_while_it_is_stopped_is_recorded_too(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "kill -STOP $$")
    eventually(lambda: not _runs(member.agent_pid), "the agent is stopped")

    kill(member.agent_pid)

    assert eventually(lambda: _exit_of(member), "the exit is on the tape")["status"] == 137
    _assert_closed(fleet, member)


def test_r4_stop_wakes_a_stopped_agent_so_that_it_can_end(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "kill -STOP $$; sleep 1000")
    eventually(lambda: not _runs(member.agent_pid), "the agent is stopped")

    answer = json.loads(fleet.cli("stop", "m", "--json").stdout)

    assert answer["status"] == 143
    _assert_closed(fleet, member)


def _runs(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "T"
