"""Where the HEAD of a worktree was at a time, from the log that git keeps of it (gitrepository-layout(5))."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 1 << 20  # of a long log the end
_LINE = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?> ([0-9]+) [+-][0-9]{4}(?:\t|$)")


def read_head_at(entry: Path, wall_us: int) -> str | None:
    """The commit that HEAD was at, to the second; None if the log does not go back so far, or there is none."""
    try:
        with (entry / "logs" / "HEAD").open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    before: bytes | None = None
    for line in lines:
        if (found := _LINE.match(line)) is None:
            continue
        old, new, second = found.groups()
        if int(second) * 1_000_000 > wall_us:
            return _commit(before if before is not None else old)
        before = new
    return _commit(before)


def _commit(name: bytes | None) -> str | None:
    return name.decode("ascii") if name is not None and name.strip(b"0") else None
