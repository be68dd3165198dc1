"""A real disk of a few megabytes that a test can fill."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_FILLER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system in memory."""

    path: Path

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all space but some."""
        with open(self.path / "filler", "wb", buffering=0) as file:
            for size in (_FILLER_BYTES, 1):
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
        pytest.fail("this test mounts a small disk: run the suite as root or under 'unshare -rm'")
    try:
        yield SmallDisk(path)
    finally:
        if subprocess.run(["umount", str(path)], check=False).returncode != 0:
            # Whoever still uses it is a failure, but not one that may leave a mount behind.
            subprocess.run(["umount", "-l", str(path)], check=True)
            pytest.fail(f"{path} was still in use")
