"""What one signal says: which states it leaves possible, since when, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["executing", "waiting", "idle"]
Source = Literal["leaving", "program", "title", "progress", "paste", "hook", "typed", "screen", "process", "output"]

EXECUTING: frozenset[State] = frozenset({"executing"})
WAITING: frozenset[State] = frozenset({"waiting"})
IDLE: frozenset[State] = frozenset({"idle"})
ANY: frozenset[State] = EXECUTING | WAITING | IDLE

SURE = 0.7
"""The confidence from which on others may act: it is more than that nothing says otherwise, or that it is quiet."""

PERMISSION, QUESTION = "person:permission", "person:question"


@dataclass(frozen=True, slots=True)
class Claim:
    """One signal's word. It holds until the same signal says something else."""

    source: Source
    states: frozenset[State]  #: those it leaves possible; a signal that cannot tell two apart leaves both
    why: str  #: what was seen or said, in a few words
    at: int  #: since when it says so
    offset: int = 0  #: of the tape, after what it was read from
    waiting_for: str | None = None  #: if it is waiting
    problem: str | None = None  #: what went wrong, if it stopped for that
    detail: str | None = None  #: what it asks or says, in its own words
    trust: float = 0.8  #: how often such a word was right: 0 to 1

    def means_the_same(self, other: Claim) -> bool:
        """Whether it is the same word, though what shows it may look different by now."""
        return (self.states, self.waiting_for, self.problem) == (other.states, other.waiting_for, other.problem)
