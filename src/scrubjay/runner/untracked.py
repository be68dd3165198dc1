"""Which of the files that git does not know are kept with a checkpoint, and which are too large for that."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from scrubjay.runner.git import FILES_S, Git, printable

FILE_MAX_BYTES = 16 << 20
TOTAL_MAX_BYTES = 256 << 20
FILES_MAX = 20_000
_NAMES_MAX_BYTES = 16 << 20
_LISTED_MAX = 50  # of those that are left out; all are counted


@dataclass(frozen=True, slots=True)
class Untracked:
    """Files that git does not know and was not told to ignore."""

    kept: tuple[bytes, ...]  #: their names
    left_out: tuple[str, ...]  #: the others, for people, with why


def find_untracked(git: Git, folder: Path, index: Path) -> Untracked:
    """Look at those of a worktree; the smallest are kept, for these are what somebody wrote."""
    listed = git.run(
        *("ls-files", "--others", "--exclude-standard", "-z"),
        cwd=folder,
        index=index,
        timeout_s=FILES_S,
        limit_bytes=_NAMES_MAX_BYTES,
        gently=True,
    )
    found: list[tuple[int, bytes]] = []
    left_out: list[str] = []
    for name in listed.stdout.split(b"\0")[:-1]:
        if name.endswith(b"/"):
            left_out.append(f"{printable(name)} (a repository of its own)")
            continue
        path = os.path.join(os.fsencode(folder), name)
        try:
            state = os.lstat(path)
        except OSError:
            continue  # it is gone again
        if state.st_size > FILE_MAX_BYTES:
            left_out.append(f"{printable(name)} ({state.st_size >> 20} MiB)")
        elif stat.S_ISREG(state.st_mode) and not os.access(path, os.R_OK):
            left_out.append(f"{printable(name)} (it cannot be read)")
        elif stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode):
            found.append((state.st_size, name))
    kept = _as_many_as_fit(found)
    left_out += [f"{printable(name)} (too many new files)" for _, name in sorted(found)[len(kept) :]]
    if listed.cut:
        left_out.append("and more new files than can be listed")
    return Untracked(tuple(kept), _shorten(left_out))


def _as_many_as_fit(found: list[tuple[int, bytes]]) -> list[bytes]:
    kept: list[bytes] = []
    total = 0
    for size, name in sorted(found)[:FILES_MAX]:
        total += size
        if total > TOTAL_MAX_BYTES:
            break
        kept.append(name)
    return kept


def _shorten(left_out: list[str]) -> tuple[str, ...]:
    more = len(left_out) - _LISTED_MAX
    return (*left_out[:_LISTED_MAX], f"and {more} more") if more > 0 else tuple(left_out)
