"""What somebody is told when something goes wrong in the server itself."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import connect

from scrubjay.errors import CatalogUnavailable
from scrubjay.server.tower import Tower
from scrubjay.store.events import Event, append_event
from tests.support.guarded_server import RealServer

pytestmark = pytest.mark.anyio


def _tower(server: RealServer) -> Tower:
    tower = server.app.state.tower
    assert isinstance(tower, Tower)
    return tower


async def test_what_nobody_has_thought_of_is_an_error_like_any_other_and_tells_nothing(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_body: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(_tower(server).database, "read", fail)

    answer = await server.guarded_server.ask_locally("GET", "/api/v1/pods", ("Host", "x"))

    assert (answer.status, answer.code, answer.header("content-type")) == (500, "internal_error", "application/json")
    assert b"hunter2" not in answer.body
    assert answer.header("x-content-type-options") == "nosniff"


@pytest.mark.parametrize("at", ["999999999999h", "-999999999999h", "9" * 5000, "0" * 5000])
async def test_an_instant_before_or_after_everything_is_one(server: RealServer, at: str) -> None:
    answer = await server.guarded_server.ask_locally("GET", f"/api/v1/pods?at={at}", ("Host", "x"))

    assert answer.status == 200, answer.body


async def test_who_follows_the_fleet_goes_on_when_the_catalog_can_be_read_again(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tower, bearer = _tower(server), await server.guarded_server.bearer()
    after, failed = tower.changes.after, False

    async def fail_once(number: int) -> list[Event]:
        nonlocal failed
        if not failed:
            failed = True
            raise CatalogUnavailable("catalog", "it is locked")
        return await after(number)

    monkeypatch.setattr(tower.changes, "after", fail_once)
    url = f"ws://127.0.0.1:{server.guarded_server.port}/api/v1/fleet"
    with capture_logs():
        async with connect(url, additional_headers=dict([bearer])) as listener:
            assert json.loads(await asyncio.wait_for(listener.recv(), 10))["type"] == "caught"
            await tower.database.write(lambda connection: append_event(connection, "test.happened", wall_us=1))
            said = json.loads(await asyncio.wait_for(listener.recv(), 10))

    assert (said["type"], said["kind"]) == ("change", "test.happened")
