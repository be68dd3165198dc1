"""R1: whoever looks on may die or stall at any moment; agents, keepers and tapes do not notice.

The runner of the promise comes later; until then the processes that come and go are the command line's.
"""

from __future__ import annotations

import signal
import time
from random import Random

import pytest

from chaos.fleet import Fleet, Member
from chaos.machine import eventually, is_alive, resident_kib, state_of
from tiers import sized

_PODS = 20
# A line per millisecond each. Twenty that write each one by itself need four cores, so they write in bunches.
_BEAT = ("--rate", "1000", "--every-ms", str(sized(20, 5)))


@pytest.mark.timeout(sized(120, 3600))
def test_r1_killing_and_stopping_onlookers_in_the_middle_of_output_changes_nothing(fleet: Fleet) -> None:
    rng = Random(1)
    members = fleet.metronomes([f"m{number}" for number in range(_PODS)], *_BEAT)
    onlookers = [(fleet.attach if number % 2 else fleet.follow)(member) for number, member in enumerate(members)]
    for member in members:
        eventually(lambda: _followers(member) > 0, f"somebody follows {member.name}", within_s=20)  # noqa: B023

    for onlooker in onlookers[: _PODS // 2]:
        onlooker.end(signal.SIGKILL)
    for onlooker in onlookers[_PODS // 2 :]:
        onlooker.process.send_signal(signal.SIGSTOP)
    for _ in range(sized(8, 200)):
        member = rng.choice(members)
        command = fleet.run_aside(*rng.choice([("ps",), ("mark", member.name, "x"), ("verify", member.name)]))
        time.sleep(rng.uniform(0, 0.2))  # not to wait for anything: the moment of the kill is what varies
        command.end(signal.SIGKILL)
    before = [member.progress for member in members]
    for member, reached in zip(members, before, strict=True):
        eventually(lambda: member.progress > reached + 100, f"{member.name} goes on", within_s=20)  # noqa: B023

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


@pytest.mark.timeout(sized(120, 3600))
def test_r1_a_stalled_reader_slows_nobody_and_costs_the_keeper_no_memory(fleet: Fleet) -> None:
    rate_hz, span_s = 10_000, sized(2, 20)  # 1 MB/s, far more in that time than sockets hold
    member = fleet.metronome("m", "--rate", str(rate_hz), "--long")
    reader = fleet.follow(member)
    eventually(lambda: _followers(member) > 0, "the reader follows", within_s=10)
    alone, kib_before = _observe(member, span_s)

    reader.process.send_signal(signal.SIGSTOP)
    eventually(lambda: state_of(reader.pid) == "T", "the reader is stopped", within_s=2)
    stalled, kib_after = _observe(member, span_s)
    reached = member.progress
    eventually(lambda: (member.ledger().last or 0) >= reached, "what was written by then is on the tape", within_s=2)

    assert stalled > 0.9 * rate_hz * span_s or stalled > 0.9 * alone
    assert kib_after - kib_before <= 1024
    fleet.finish(member)
    assert member.ledger().faults == (0, 0, 0)


def _observe(member: Member, span_s: float) -> tuple[int, int]:
    """How far the agent gets in that time, and the most memory its keeper has."""
    until, began_at, most_kib = time.monotonic() + span_s, member.progress, 0
    while time.monotonic() < until:
        most_kib = max(most_kib, resident_kib(member.keeper_pid))
        time.sleep(0.02)
    return member.progress - began_at, most_kib


def _followers(member: Member) -> int:
    with member.pod.connect() as keeper:
        status = keeper.status(timeout_s=5)
    followers = (status or {}).get("followers")
    return followers if isinstance(followers, int) else 0
