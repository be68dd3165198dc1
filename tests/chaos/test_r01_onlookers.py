"""R1: readers and command lines may die or stall at any moment; agents, keepers and tapes do not notice."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random

from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import is_alive, resident_kib, state_of
from tests.support.tiers import sized

_PODS = sized(4, 20, 20)
# A line per millisecond each. Twenty that write each one by itself need four cores, so they write in bunches.
_BEAT = ("--rate", "1000", "--every-ms", str(sized(20, 20, 5)))


def test_r1_killing_and_stopping_onlookers_in_the_middle_of_output_changes_nothing(fleet: Fleet) -> None:
    rng = Random(1)
    members = fleet.metronomes([f"m{number}" for number in range(_PODS)], *_BEAT)
    onlookers = [(fleet.attach if number % 2 else fleet.follow)(member) for number, member in enumerate(members)]
    for member in members:
        eventually(lambda: _followers(member) > 0, f"somebody follows {member.name}")  # noqa: B023

    for onlooker in onlookers[: _PODS // 2]:
        onlooker.end(signal.SIGKILL)
    for onlooker in onlookers[_PODS // 2 :]:
        onlooker.process.send_signal(signal.SIGSTOP)
    for _ in range(sized(3, 10, 200)):
        member = rng.choice(members)
        command = fleet.run_aside(*rng.choice([("ps",), ("mark", member.name, "x"), ("verify", member.name)]))
        time.sleep(rng.uniform(0, 0.2))  # not to wait for anything: the moment of the kill is what varies
        command.end(signal.SIGKILL)
    before = [member.progress for member in members]
    for member, reached in zip(members, before, strict=True):
        eventually(lambda: member.progress > reached + 100, f"{member.name} goes on")  # noqa: B023

    rows = fleet.ps()
    for member in members:
        row = rows[member.name]
        assert (row["keeper_pid"], row["agent_pid"]) == (member.keeper_pid, member.agent_pid)
        assert is_alive(member.agent_pid)
        assert fleet.keepers(member) == [member.keeper_pid]
    fleet.finish(*members)
    for member in members:
        ledger = member.ledger()
        assert ledger.faults == (0, 0, 0)
        assert ledger.last is not None
        assert ledger.last >= member.progress


def test_r1_a_stalled_reader_slows_nobody_and_costs_the_keeper_no_memory(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    rate_hz, lines = 10_000, sized(10_000, 20_000, 200_000)  # 1 MB/s, in all far more than sockets hold
    member = fleet.metronome("m", "--rate", str(rate_hz), "--every-ms", "5", "--long")
    reader = fleet.follow(member)
    eventually(lambda: _followers(member) > 0, "the reader follows")
    kib_before = _most_memory_during(member, lines)

    reader.process.send_signal(signal.SIGSTOP)
    eventually(lambda: state_of(reader.pid) == "T", "the reader is stopped")
    kib_after = _most_memory_during(member, lines, within_s=promised(1.25 * lines / rate_hz))
    reached = member.progress
    eventually(lambda: (member.ledger().last or 0) >= reached, "what was written by then is on the tape")

    assert kib_after - kib_before <= 1024
    fleet.finish(member)
    assert member.ledger().faults == (0, 0, 0)


def _most_memory_during(member: Member, lines: int, *, within_s: float = DEADLINE_S) -> int:
    """The most memory a keeper has while its agent writes so many lines."""
    began_at, most_kib = member.progress, 0

    def is_done() -> bool:
        nonlocal most_kib
        most_kib = max(most_kib, resident_kib(member.keeper_pid))
        return member.progress >= began_at + lines

    eventually(is_done, f"the agent writes {lines} lines", within_s=within_s)
    return most_kib


def _followers(member: Member) -> int:
    with member.pod.connect() as keeper:
        status = keeper.status(timeout_s=DEADLINE_S)
    followers = (status or {}).get("followers")
    return followers if isinstance(followers, int) else 0
