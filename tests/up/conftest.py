"""A machine for each test module."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.in_process_up import InProcessUp, open_in_process_up


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[InProcessUp]:
    async with open_in_process_up(tmp_path_factory.mktemp("machine")) as opened:
        yield opened
