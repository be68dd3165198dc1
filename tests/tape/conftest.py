"""What all tests of tapes share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


def _sync_nothing(fd: int) -> None:
    os.fstat(fd)


@pytest.fixture
def instant_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sync cost nothing, where thousands of tapes are written and no power is cut."""
    monkeypatch.setattr(os, "fsync", _sync_nothing)
    monkeypatch.setattr(os, "fdatasync", _sync_nothing)


@pytest.fixture
def ram_path(instant_sync: None) -> Iterator[Path]:
    """A folder in memory where the machine has one: ext4 takes 0.2 ms to write a small file over another."""
    memory = "/dev/shm"
    with TemporaryDirectory(prefix="scrubjay-", dir=memory if os.path.isdir(memory) else None) as folder:
        yield Path(folder)
