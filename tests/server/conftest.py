"""A server to knock at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Jay
from fake_clock import FakeClock
from scrubjay.clock import SystemClock
from scrubjay.server.limits import Failures
from server.house import House, RealServer, open_house, open_server
from server.process import HouseProcess, open_house_process


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def shared_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House]:
    async with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture
def house(shared_house: House) -> House:
    """A server that earlier tests have used."""
    shared_house.gate.failures = Failures(SystemClock())
    return shared_house


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def timed_house(tmp_path: Path, clock: FakeClock) -> AsyncGenerator[House]:
    """A new one whose clock the test sets."""
    async with open_house(tmp_path, clock) as opened:
        yield opened


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RealServer]:
    """The whole server."""
    async with open_server(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture(scope="module")
def house_process(tmp_path_factory: pytest.TempPathFactory) -> Generator[HouseProcess]:
    """A server in a process of its own."""
    with open_house_process(tmp_path_factory.mktemp("process")) as opened:
        yield opened


@pytest.fixture
def jay(tmp_path: Path) -> Generator[Jay]:
    """The command line; what it has started is ended."""
    (tmp_path / "work").mkdir()
    runner = Jay(tmp_path / "data", tmp_path / "work")
    yield runner
    for pod in runner.json("ps"):
        runner("stop", pod["id"], "--grace", "0")
