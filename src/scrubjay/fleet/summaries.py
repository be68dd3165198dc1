"""Summaries: what ranges of a session's memories come to. Ranges follow one another, so each memory is in at most one.

    nothing ── plan, ask ──▶ pending ── claim ──▶ running ── complete ──▶ a summary
                              │  ▲                  │ │
                              │  └── fail, give up ─┘ └── fail too often ──▶ failed
                              └── resume ──▶ nothing

A job that runs goes on whatever becomes of its session: its range is fixed, and what is in it does not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from scrubjay.errors import BadInput, SummaryUnfit
from scrubjay.fleet import sessions
from scrubjay.fleet.messages import check_text
from scrubjay.ids import SessionId

JobState = Literal["pending", "running", "failed"]

TEXT_MAX = 20_000  # characters of a summary
BY_MAX = 200
PART_MAX = 80_000  # characters of turns that one summary is made from; what is more is summarised after it
PART_TURNS_MAX = 200
_DELAYS_US = (30_000_000, 300_000_000, 3_600_000_000)  # after each attempt that failed: a model may be away for a while
ATTEMPTS_MAX = len(_DELAYS_US) + 1


@dataclass(frozen=True, slots=True)
class Summary:
    """What a range of memories comes to."""

    session: SessionId
    from_seq: int
    to_seq: int  #: included
    input_hash: str  #: of what it was made from
    text: str
    made_by: str
    model: str | None
    wall_us: int


@dataclass(frozen=True, slots=True)
class Job:
    """That a summary is to be made, is being made, or could not be made."""

    session: SessionId
    state: JobState
    from_seq: int
    to_seq: int  #: up to where everything is to be summarised
    asked: bool  #: somebody wants it even while the session is open
    not_before_us: int
    attempts: int
    wall_us: int  #: since when it is in that state
    error: str | None = None  #: why the last attempt failed
    token: str | None = None  #: of whoever makes it
    claimed_until_us: int | None = None
    part_to_seq: int | None = None  #: up to where it is being summarised now
    input_hash: str | None = None  #: of that part


def due_range(covered_to_seq: int, last_seq: int) -> tuple[int, int] | None:
    """The first and the last memory that no summary has; None if there is none."""
    return (covered_to_seq + 1, last_seq) if last_seq > covered_to_seq else None


def may_begin(state: sessions.State, since_us: int, *, asked: bool, after_us: int, now_us: int) -> bool:
    """Whether a session that is in a state since an instant may be summarised now."""
    match state:
        case "open":
            return asked
        case "suspended":
            return asked or now_us - since_us >= after_us
        case "finished":
            return True


def retry_delay_us(attempts: int) -> int | None:
    """How long to wait after so many attempts that failed; None if they were enough."""
    return _DELAYS_US[attempts - 1] if attempts < ATTEMPTS_MAX else None


def first_that_fit(lengths: Iterable[int]) -> int:
    """How many turns of these lengths are summarised together: as many as fit, and at least one."""
    count = total = 0
    for length in lengths:
        total += length
        if count and (total > PART_MAX or count == PART_TURNS_MAX):
            break
        count += 1
    return count


def check_save(
    session: SessionId, *, covered_to_seq: int, last_seq: int, from_seq: int | None, to_seq: int
) -> tuple[int, int]:
    """The range that somebody may summarise: it goes on from the last one. BadInput or SummaryUnfit."""
    if not 1 <= to_seq <= last_seq:
        what = f"its memories go from 1 to {last_seq}" if last_seq else "it has no memories yet"
        raise BadInput(f"there is no memory {to_seq} in this session: {what}", hint="leave to_seq out for all of them")
    first = covered_to_seq + 1
    if to_seq < first or (from_seq is not None and from_seq != first):
        raise SummaryUnfit(session, covered_to_seq=covered_to_seq, last_seq=last_seq)
    return first, to_seq


def check_summary(text: str, *, made_by: str, model: str | None) -> str:
    """The text without blanks around it; BadInput if it says nothing, or too much."""
    check_text(made_by, BY_MAX, "author")
    if model is not None:
        check_text(model, BY_MAX, "model")
    return check_text(text.strip(), TEXT_MAX, "summary")
