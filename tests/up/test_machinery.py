"""Server and runner put together: requests wait for the runner, and what fails is not passed over."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from scrubjay.cli.machinery import (
    PartFailed,
    linked_locally,
    open_server,
    running_runner,
    shared_tapes,
)
from scrubjay.runner.runner import Runner
from scrubjay.server.notify import Notifier
from scrubjay.server.tower import Tower
from scrubjay.settings import Settings
from tests.support.http import unix_client
from tests.support.pods import end_pods

pytestmark = pytest.mark.anyio


async def _fail(_: object) -> None:
    await asyncio.sleep(0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_lose())


async def _lose() -> None:
    raise LookupError("it is lost")


async def test_a_runner_that_fails_ends_what_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "run", _fail)

    with pytest.raises(PartFailed, match="the runner has failed: it is lost"):
        async with running_runner(Settings(data=tmp_path), {}):
            await asyncio.Event().wait()  # until the part that fails ends it


@pytest.mark.parametrize(("part", "failing"), [("server", Tower), ("notifier", Notifier)])
async def test_a_part_of_the_server_that_fails_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, failing: type
) -> None:
    settings = Settings(data=tmp_path, port=0)
    monkeypatch.setattr(failing, "run", _fail)

    with pytest.raises(PartFailed, match=f"the {part} has failed: it is lost"):
        async with open_server(settings, shared_tapes(settings)):
            await asyncio.Event().wait()  # until the part that fails ends it


async def test_what_is_raised_inside_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="it is lost"):
        async with running_runner(Settings(data=tmp_path), {}):
            await _lose()


async def test_a_request_that_comes_before_the_runner_is_answered_after_it(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, port=0)
    wanted = {"command": ["true"], "cwd": str(tmp_path)}
    async with (
        open_server(settings, shared_tapes(settings)) as server,
        unix_client(tmp_path) as http,
        running_runner(settings, os.environ) as uplink,
    ):
        starting = asyncio.create_task(http.post("/api/v1/pods", json=wanted))

        async with linked_locally(uplink, server):
            await server.serve()
            response = await starting
            await asyncio.to_thread(end_pods, tmp_path)

    assert response.status_code == 201, response.text
