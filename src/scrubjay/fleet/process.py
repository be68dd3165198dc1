"""What the process of a pod does, as far as its runner can tell."""

from __future__ import annotations

from typing import Literal

Process = Literal["starting", "running", "paused", "ending", "exited", "lost", "imported"]

OVER: tuple[Process, ...] = ("exited", "lost", "imported")
"""What nothing follows."""


def describe_process(process: str, reason: str | None, exit_status: int | None) -> str:
    """The same in a few words for people."""
    if reason is not None:
        return f"{process}: {reason}"
    if process == "exited" and exit_status is not None:
        return f"exited {exit_status}"
    return process
