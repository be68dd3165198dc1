"""A server to call tools of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mcp_room.house import House, open_house


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House]:
    """A server in the loop of the tests, with tools that the product does not have."""
    async with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture
async def new_house(tmp_path: Path) -> AsyncGenerator[House]:
    """One that nobody has called yet."""
    async with open_house(tmp_path) as opened:
        yield opened
