"""What all tests of keepers share."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, Member, open_fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    """An empty fleet."""
    with open_fleet(tmp_path / "data", tmp_path / "logs") as fleet:
        yield fleet


@pytest.fixture(scope="module")
def shared_member(tmp_path_factory: pytest.TempPathFactory) -> Generator[Member]:
    """A pod that all tests of a module talk to and none may end."""
    place = tmp_path_factory.mktemp("shared")
    with open_fleet(place / "data", place / "logs") as fleet:
        yield fleet.start("m", "cat")
