"""``--at``: the fleet as it was, the same on every command that can tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import click

from scrubjay.replay.instants import wall_of

_Function = TypeVar("_Function", bound=Callable[..., object])


def at_option(function: _Function) -> _Function:
    """``--at TIME``."""
    return click.option(
        "--at",
        "raw_at",
        metavar="TIME",
        help="As it was then: 02:14:07, 2026-11-15T02:14, or 10m for ten minutes ago.",
    )(function)


def instant_of(raw_at: str | None) -> str | None:
    """What a server understands, which may be in another time zone; None for now. BadInstant for what is no time."""
    return None if raw_at is None else str(wall_of(raw_at, time.time_ns() // 1000))


def clock_of(wall_us: int) -> str:
    """What the clock showed, with the day if it was not today."""
    then = time.localtime(wall_us / 1e6)
    today = time.localtime()
    same_day = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)
