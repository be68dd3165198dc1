"""What tests of the runner share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkouts import Checkouts


@pytest.fixture
def checkouts(tmp_path: Path) -> Checkouts:
    """Repositories and worktrees in a folder of their own."""
    return Checkouts(tmp_path)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
