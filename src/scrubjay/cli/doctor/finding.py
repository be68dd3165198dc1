"""What an examination found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    says: str
    remedy: str | None = None  #: what a person can do about it


def ok(check: str, says: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", says)


def warning(check: str, says: str, remedy: str) -> Finding:
    """Something that may hurt later, or only some."""
    return Finding(check, "warning", says, remedy)


def problem(check: str, says: str, remedy: str) -> Finding:
    """Something that does not work, or is not safe."""
    return Finding(check, "problem", says, remedy)


def some(names: Sequence[str], *, most: int = 5) -> str:
    """The first few of many."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
