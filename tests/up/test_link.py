"""The runner that is in the server's own process, and others."""

from __future__ import annotations

import asyncio

import pytest

from scrubjay.wire.messages import PROTOCOL, Hello, Refused, Roster, decode_from_server, encode
from tests.support.in_process_up import InProcessUp

pytestmark = pytest.mark.anyio


async def test_nobody_else_can_be_the_runner_that_lives_with_the_server(up: InProcessUp) -> None:
    pod = await up.start("sleep", "100", name="ours")
    [local] = up.server.tower.peers.values()
    token = await up.token("runner")

    async with up.look("/api/v1/runner", token) as thief:
        hello = Hello(protocol=PROTOCOL, version="0", runner=local.id, name="thief", host="thief")
        await thief.say(encode(hello))
        await thief.say(encode(Roster(pods=())))
        message = await asyncio.wait_for(thief.connection.recv(), 10)
        assert isinstance(message, bytes)
        refused = decode_from_server(message)

    assert isinstance(refused, Refused)
    assert "data directory of its own" in refused.reason
    assert list(up.server.tower.peers.values()) == [local]
    assert up.is_running(pod)
