"""What a pod does: its process, as far as its runner can tell, and its agent."""

from __future__ import annotations

from typing import Literal

from scrubjay.status.claims import SURE
from scrubjay.status.claims import State as Activity

__all__ = ["OVER", "SURE", "Activity", "Process", "describe_activity", "describe_process", "describe_state"]

Process = Literal["starting", "running", "paused", "ending", "exited", "lost", "imported"]

OVER: tuple[Process, ...] = ("exited", "lost", "imported")
"""What nothing follows."""


def describe_state(
    process: str,
    reason: str | None,
    exit_status: int | None,
    activity: str | None,
    waiting_for: str | None,
    problem: str | None,
) -> str:
    """What a pod does in a few words for people: what its agent does, where that is known."""
    if activity is None or process != "running":
        return describe_process(process, reason, exit_status)
    return describe_activity(activity, waiting_for, problem)


def describe_process(process: str, reason: str | None, exit_status: int | None) -> str:
    """The same in a few words for people."""
    if reason is not None:
        return f"{process}: {reason}"
    if process == "exited" and exit_status is not None:
        return f"exited {exit_status}"
    return process


def describe_activity(activity: str, waiting_for: str | None, problem: str | None) -> str:
    """What an agent does, in a few words for people."""
    if activity == "waiting" and waiting_for is not None:
        return f"waiting: {waiting_for.removeprefix('person:')}"
    return f"{activity}: {problem}" if problem is not None else activity
