"""What tests of replay share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from scrubjay.replay.workers import Workers


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """Screen workers for everybody: starting one takes a third of a second."""
    with Workers() as workers:
        yield workers


@pytest.fixture(autouse=True)
def instant_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sync cost nothing: no power is cut here."""
    monkeypatch.setattr(os, "fdatasync", os.fstat)
    monkeypatch.setattr(os, "fsync", os.fstat)
