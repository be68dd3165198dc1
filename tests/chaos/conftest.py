"""What all chaos tests share."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, open_fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    """An empty fleet whose data directory is on an ordinary disk."""
    with open_fleet(tmp_path / "data", tmp_path / "logs") as fleet:
        yield fleet
