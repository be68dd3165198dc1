"""Whether other programs keep the machine busy, so that a promise about time shows nothing on it."""

from __future__ import annotations

import os
import time
from functools import cache

_CALM = 0.25  # the share of all cores that others may use while a test runs alone
_LOOK_S = 1.0
_CALMS_DOWN_S = 30.0  # what earlier tests have started may still be at its end


@cache
def why_busy() -> str | None:
    """What keeps this machine busy, for people; None once it is calm. It is looked at once."""
    deadline = time.monotonic() + _CALMS_DOWN_S
    while (share := _share_in_use()) > _CALM:
        if time.monotonic() > deadline:
            return f"other programs use {share:.0%} of this machine (load {load_average()})"
    return None


def load_average() -> str:
    """The load over 1, 5 and 15 minutes, for people."""
    return " ".join(f"{load:.2f}" for load in os.getloadavg()) + f" on {os.cpu_count()} cores"


def _share_in_use() -> float:
    before = _times()
    time.sleep(_LOOK_S)  # a share is one of a span of time
    spent = [after - earlier for earlier, after in zip(before, _times(), strict=True)]
    idle = spent[3] + spent[4]  # waiting for a disk is idle, too
    return 1 - idle / max(1, sum(spent))


def _times() -> list[int]:
    """What the kernel has counted for all cores: user, nice, system, idle, iowait, interrupts, stolen."""
    with open("/proc/stat") as file:
        return [int(word) for word in file.readline().split()[1:9]]
