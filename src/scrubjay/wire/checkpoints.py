"""A worktree as it was kept at an instant of a tape, as runner, server and command line speak of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from scrubjay.errors import NoCheckpoint

Why = Literal["idle", "waiting", "exit"]
"""What the pod had come to: its agent idle or waiting, or its end."""


END_US = 1 << 62
"""After everything: an agent may come to be idle when its tape has had no record for a while."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files of a worktree at one instant, kept as a commit that no branch has."""

    pod: str
    session: str
    number: int  #: the pod's first is 1
    commit: str
    tree: str
    why: Why
    at: int  #: the instant on the pod's tape, in microseconds
    offset: int  #: of that tape, where it became clear
    wall_us: int  #: the same instant by the wall clock
    taken_us: int  #: when the files had been read, by the wall clock
    head: str | None = None  #: the commit the worktree was at; None if its branch had none
    branch: str | None = None  #: None on no branch
    base: str | None = None  #: the commit the worktree was made from
    left_out: tuple[str, ...] = ()  #: files that are not in it, and why, for people
    unsteady: bool = False  #: its agent went on to work while the files were read


class Instant(msgspec.Struct, frozen=True, kw_only=True):
    """An instant of a pod's tape: a time, or an offset where that is what was asked for."""

    at: int  #: microseconds
    offset: int | None = None
    shown: str = ""  #: as it was asked for, for people


def checkpoint_at(name: str, checkpoints: Sequence[Checkpoint], instant: Instant) -> Checkpoint:
    """The last of a pod's checkpoints, oldest first, that is not after an instant; NoCheckpoint if there is none."""
    if not checkpoints:
        raise NoCheckpoint(name)
    found = [each for each in checkpoints if _is_reached(each, instant)]
    if not found:
        raise NoCheckpoint(name, first_at_us=checkpoints[0].at, asked=instant.shown)
    return found[-1]


def _is_reached(checkpoint: Checkpoint, instant: Instant) -> bool:
    if instant.offset is not None:
        return checkpoint.offset <= instant.offset
    return checkpoint.at <= instant.at
