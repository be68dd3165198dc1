"""The files of git that lead from a worktree to its entry in the repository and back (gitrepository-layout(5))."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

_LINK_MAX_BYTES = 8192


def entry_of(path: Path) -> Path | None:
    """The folder in the repository that a worktree's .git leads to."""
    return _follow(path / ".git", prefix="gitdir: ", beside=path)


def points_to(entry: Path, path: Path) -> bool:
    """Whether an entry of a repository is that of a worktree."""
    return _follow(entry / "gitdir", prefix="", beside=entry) == path / ".git"


def _follow(file: Path, *, prefix: str, beside: Path) -> Path | None:
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return None
        text = os.fsdecode(file.read_bytes()[:_LINK_MAX_BYTES])
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return Path(os.path.normpath(beside / text.removeprefix(prefix).rstrip("\n")))


def lock_of(entry: Path) -> str | None:
    """Why an entry is locked; None if it is not."""
    try:
        return (entry / "locked").read_text("utf-8", "replace").strip()
    except OSError:
        return None


def forget_entry(git_dir: Path, path: Path) -> None:
    """Delete the repository's entry of one worktree. Not by pruning: that would take others whose disk is away."""
    entries = git_dir / "worktrees"
    try:
        found = [entry for entry in entries.iterdir() if not entry.is_symlink() and points_to(entry, path)]
    except OSError:
        return
    for entry in found:
        shutil.rmtree(entry)
    with suppress(OSError):
        entries.rmdir()  # as git does, when it was the last
