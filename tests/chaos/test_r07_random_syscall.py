"""R7: a keeper killed at any system call leaves everything it acknowledged, and no number twice or out of order."""

from __future__ import annotations

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import pytest

from scrubjay.errors import KeeperGone, PodNotRunning
from scrubjay.tape.format import Kind
from scrubjay.tape.recover import close_lost_tape
from scrubjay.tape.verify import verify
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import kill
from tests.support.strace import tampered
from tests.support.tiers import sized

pytestmark = pytest.mark.needs("strace")

_KILLS = sized(10, 50, 1000)
_BATCH = 10  # pods that wait for their turn
_AT_ONCE = 2  # cores

# Which call of which kind kills: the tape's, the watermark's, the sync's and the answer's. Those that happen
# with every output get more numbers to draw from than those that happen with every sync.
_CALLS = {"writev": 80, "fdatasync": 12, "pwrite64": 12, "write": 12, "sendto": 12}


@dataclass(frozen=True, slots=True)
class _Outcome:
    call: str
    acknowledged: int
    numbers: int
    violations: tuple[str, ...]


def test_r7_killed_at_a_random_system_call_a_keeper_loses_nothing_it_acknowledged(fleet: Fleet, tmp_path: Path) -> None:
    outcomes: list[_Outcome] = []

    def kill_one(seed: int, member: Member) -> _Outcome:
        return _kill(fleet, member, tmp_path, seed)

    for first in range(0, _KILLS, _BATCH):
        members = fleet.metronomes([f"m{seed}" for seed in range(first, first + _BATCH)], *_BEAT)
        with ThreadPoolExecutor(_AT_ONCE) as runs:
            outcomes += runs.map(kill_one, count(first), members)

    assert [outcome for outcome in outcomes if outcome.violations] == []
    # That the test is one: kills of every kind, after acknowledgements, with output under way.
    assert {outcome.call for outcome in outcomes} == set(_CALLS)
    assert sum(outcome.acknowledged > 0 for outcome in outcomes) > _KILLS // 2
    assert sum(outcome.numbers > 0 for outcome in outcomes) > _KILLS // 2


_BEAT = ("--rate", "0", "--long", "--wait")


def _kill(fleet: Fleet, member: Member, tmp_path: Path, seed: int) -> _Outcome:
    rng = Random(seed)
    call = sorted(_CALLS)[seed % len(_CALLS)]
    fault = f"{call}:signal=KILL:when={rng.randint(1, _CALLS[call])}"
    eventually(member.log.exists, "the agent waits for its start")

    with tampered(member.keeper_pid, tmp_path / f"strace{seed}", trace=call, inject=[fault]):
        kill(member.agent_pid, signal.SIGUSR1)
        acknowledged = _mark_until_it_dies(member)
    fleet.eventually(lambda: not fleet.processes(member), "nothing of the pod is left")

    numbers, violations = _inspect(member, acknowledged)
    fleet.members.remove(member)
    shutil.rmtree(member.pod.folder)
    return _Outcome(call, len(acknowledged), numbers, tuple(f"seed {seed}, {fault}: {what}" for what in violations))


def _mark_until_it_dies(member: Member) -> list[str]:
    acknowledged: list[str] = []
    try:
        with member.pod.connect() as keeper:
            while True:
                label = f"mark {len(acknowledged)}"
                keeper.ask({"do": "mark", "label": label, "author": "test"})
                acknowledged.append(label)
    except (KeeperGone, PodNotRunning):
        return acknowledged


def _inspect(member: Member, acknowledged: list[str]) -> tuple[int, list[str]]:
    """How many numbers are on the tape, and what is wrong with it, as it was left and after it was closed."""
    # A sealer that was at work when the keeper died has closed the tape by now, and said so.
    was_closed = [gap.json()["reason"] for gap in member.records(Kind.GAP)] == ["the recorder died"]
    numbers, violations = _check(member, acknowledged, "clean" if was_closed else "torn")
    close_lost_tape(member.pod.tape(), member.pod.anchor(), member.pod.folder)
    numbers_closed, more = _check(member, acknowledged, "clean")
    violations += more
    if numbers_closed != numbers:
        violations.append(f"closing it changed {numbers} numbers to {numbers_closed}")
    return numbers, violations


def _check(member: Member, acknowledged: list[str], verdict: str) -> tuple[int, list[str]]:
    violations: list[str] = []
    report = verify(member.pod.tape(), member.pod.anchor())
    if report.verdict != verdict:
        violations.append(f"{report.explain()} instead of {verdict}")
    labels = member.labels()
    # One more may have been written and not acknowledged.
    if labels[: len(acknowledged)] != acknowledged or len(labels) > len(acknowledged) + 1:
        violations.append(f"{len(acknowledged)} marks were acknowledged and {len(labels)} are there")
    ledger = member.ledger()
    if not ledger.whole:
        violations.append(str(ledger))
    return ledger.count, violations
