"""How right a detector is about a recording whose truth is known. Pure.

Half a second around each true change is not scored: no signal is instant, and the truth itself is measured. What the
truth calls starting, exited or error is not scored either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SCORED = ("executing", "waiting", "idle")
_EDGE_S, _STEP_S = 0.5, 0.05
_FOUND_WITHIN_S = 1.0
_WAIT_MIN_S = 1.5  # of a wait that must be found


class Interval(NamedTuple):
    """What was detected, from one instant up to another."""

    t0: float
    t1: float
    activity: str


@dataclass(slots=True)
class Score:
    """How much of the time was right."""

    steps: Counter[tuple[str, str | None]] = field(default_factory=Counter[tuple[str, "str | None"]])
    waits: int = 0
    missed: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    longest_false_wait_s: float = 0.0

    def add(self, other: Score) -> None:
        """Take in the score of another recording."""
        self.steps += other.steps
        self.waits += other.waits
        self.missed += other.missed
        self.longest_false_wait_s = max(self.longest_false_wait_s, other.longest_false_wait_s)

    def seconds(self, state: str | None = None) -> float:
        """The time that was scored, of one state or all."""
        return _STEP_S * sum(count for (true, _), count in self.steps.items() if state in (None, true))

    def right(self, state: str | None = None) -> float:
        """The share of it that was right."""
        scored = [(pair, count) for pair, count in self.steps.items() if state in (None, pair[0])]
        total = sum(count for _, count in scored)
        return sum(count for (true, told), count in scored if true == told) / total if total else 1.0


def score(name: str, truth: Sequence[Any], told: Sequence[Interval]) -> Score:
    """Compare what was detected with the truth: a list of states with ``t0``, ``t1`` and ``state``."""
    found = Score()
    false_s = 0.0
    for state in _merged(truth):
        if state["state"] not in SCORED:
            continue
        time, false_s = state["t0"] + _EDGE_S, 0.0
        while time < state["t1"] - _STEP_S:
            now = _at(told, time)
            found.steps[state["state"], now] += 1
            false_s = false_s + _STEP_S if now == "waiting" != state["state"] else 0.0
            found.longest_false_wait_s = max(found.longest_false_wait_s, false_s)
            time += _STEP_S
        if state["state"] == "waiting" and state["t1"] - state["t0"] > _WAIT_MIN_S:
            found.waits += 1
            instants = [state["t0"] + step * _STEP_S for step in range(round(_FOUND_WITHIN_S / _STEP_S) + 1)]
            if not any(_at(told, instant) == "waiting" for instant in instants):
                found.missed.append((name, state["t0"]))
    return found


def _merged(truth: Sequence[Any]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for state in truth:
        if merged and merged[-1]["state"] == state["state"]:
            merged[-1]["t1"] = state["t1"]
        else:
            merged.append(dict(state))
    return merged


def _at(told: Sequence[Interval], time: float) -> str | None:
    for interval in told:
        if interval.t0 <= time < interval.t1:
            return interval.activity
    return told[-1].activity if told and time >= told[-1].t1 else None
