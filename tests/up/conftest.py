"""A machine for each test module."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from up.machine import Machine, open_machine


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def machine(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Machine]:
    async with open_machine(tmp_path_factory.mktemp("machine")) as opened:
        yield opened
