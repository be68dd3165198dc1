"""A server to call tools of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.tool_server import ToolServer, open_tool_server


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ToolServer]:
    """A server in the loop of the tests, with tools that the product does not have."""
    async with open_tool_server(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture
async def new_server(tmp_path: Path) -> AsyncGenerator[ToolServer]:
    """One that nobody has called yet."""
    async with open_tool_server(tmp_path) as opened:
        yield opened
