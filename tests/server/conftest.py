"""A server to knock at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from scrubjay.clock import SystemClock
from scrubjay.server import guard
from scrubjay.server.limits import Failures
from tests.support.cli import Cli, open_cli
from tests.support.fake_clock import FakeClock
from tests.support.guarded_server import GuardedServer, RealServer, open_guarded_server, open_server
from tests.support.guarded_server_process import GuardedServerProcess, open_guarded_server_process
from tests.support.tiers import ALONE


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module", autouse=True)
def _recheck_soon() -> Generator[None]:
    """Look up again soon who has something open, but where it is asserted how soon that is."""
    with mock.patch.object(guard, "RECHECK_S", guard.RECHECK_S if ALONE else 0.1):
        yield


@pytest.fixture(scope="module")
async def shared_guarded_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[GuardedServer]:
    async with open_guarded_server(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture
def guarded_server(shared_guarded_server: GuardedServer) -> GuardedServer:
    """A server that earlier tests have used."""
    shared_guarded_server.gate.failures = Failures(SystemClock())
    return shared_guarded_server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def timed_guarded_server(tmp_path: Path, clock: FakeClock) -> AsyncGenerator[GuardedServer]:
    """A new one whose clock the test sets."""
    async with open_guarded_server(tmp_path, clock) as opened:
        yield opened


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RealServer]:
    """The whole server."""
    async with open_server(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture(scope="module")
def guarded_process(tmp_path_factory: pytest.TempPathFactory) -> Generator[GuardedServerProcess]:
    """A server in a process of its own."""
    with open_guarded_server_process(tmp_path_factory.mktemp("process")) as opened:
        yield opened


@pytest.fixture
def cli(tmp_path: Path) -> Generator[Cli]:
    with open_cli(tmp_path) as cli:
        yield cli
