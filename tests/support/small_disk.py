"""A real disk of a few megabytes that a test can fill."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.conditions import DEADLINE_S
from tests.support.processes import descriptors_of, hurry, pids, takes_idle_time

_FILLER_BYTES = (64 << 10, 4 << 10, 1)  # in ever smaller portions, down to the last byte


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system in memory."""

    path: Path

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all space but some."""
        with open(self.path / "filler", "wb", buffering=0) as file:
            for size in _FILLER_BYTES:
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
            file.truncate(max(0, os.fstat(file.fileno()).st_size - leave_bytes))

    def free(self) -> None:
        """Give the space back."""
        (self.path / "filler").unlink(missing_ok=True)


@contextmanager
def mount_small_disk(path: Path, *, size: str) -> Generator[SmallDisk]:
    """Mount a disk for as long as the block takes."""
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "scrubjay-test", str(path)], check=False)
    if mounted.returncode != 0:
        pytest.fail("a test that mounts a small disk is marked with pytest.mark.needs('mount')")
    try:
        yield SmallDisk(path)
    finally:
        _unmount(path)


def _unmount(path: Path) -> None:
    """Unmount a disk once the processes that end by themselves, such as sealers, have ended."""
    deadline = time.monotonic() + DEADLINE_S
    while (refused := _try_to_unmount(path)) is not None and time.monotonic() < deadline:
        for pid in pids():
            if takes_idle_time(pid) and _uses(pid, path):
                hurry(pid)
        time.sleep(0.02)
    if refused is not None:
        # A process that still uses it is a failure, but not one that may leave a mount behind.
        subprocess.run(["umount", "-l", str(path)], check=True)
        pytest.fail(f"{path} was still in use: {refused}")


def _try_to_unmount(path: Path) -> str | None:
    """What umount says if it fails."""
    done = subprocess.run(["umount", str(path)], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode != 0 else None


def _uses(pid: int, path: Path) -> bool:
    try:
        return any(Path(target).is_relative_to(path) for target in descriptors_of(pid).values())
    except OSError:  # it has ended
        return False
