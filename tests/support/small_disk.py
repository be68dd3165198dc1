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
from tests.support.processes import descriptors_of, hurry, is_alive, pids, takes_idle_time

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
        _await_idlers(path)
        if subprocess.run(["umount", str(path)], check=False).returncode != 0:
            # Whoever still uses it is a failure, but not one that may leave a mount behind.
            subprocess.run(["umount", "-l", str(path)], check=True)
            pytest.fail(f"{path} was still in use")


def _await_idlers(path: Path) -> None:
    """Wait for indexers and sealers that have outlived their server or keeper, and end by themselves."""
    idlers = [pid for pid in pids() if takes_idle_time(pid) and _uses(pid, path)]
    for pid in idlers:
        hurry(pid)
    deadline = time.monotonic() + DEADLINE_S
    while any(is_alive(pid) and _uses(pid, path) for pid in idlers) and time.monotonic() < deadline:
        time.sleep(0.01)


def _uses(pid: int, path: Path) -> bool:
    try:
        return any(Path(target).is_relative_to(path) for target in descriptors_of(pid).values())
    except OSError:  # it has ended
        return False
