"""A server to knock at."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from fake_clock import FakeClock
from server.house import House, RealServer, open_house, open_server


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[House]:
    async with open_house(tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def timed_house(tmp_path: Path, clock: FakeClock) -> AsyncGenerator[House]:
    """One whose clock the test sets."""
    async with open_house(tmp_path, clock) as opened:
        yield opened


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[RealServer]:
    """The whole server."""
    async with open_server(tmp_path) as opened:
        yield opened
