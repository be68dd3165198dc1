"""A runner's connection to a server elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from scrubjay.pods.home import Home
from scrubjay.runner.remote_link import stay_linked
from scrubjay.runner.runner import Runner
from scrubjay.runner.uplink import Uplink
from scrubjay.settings import Settings
from scrubjay.wire.messages import Hello, decode_from_runner

pytestmark = pytest.mark.anyio


async def test_what_cannot_be_said_ends_the_connection_and_the_next_one_goes_on(tmp_path: Path) -> None:
    runner = Runner(Home(tmp_path), Settings(data=tmp_path, runner_name="\udcff"), {})
    runner.found_all.set()
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen(connection: ServerConnection) -> None:
        heard.put_nowait("connected")
        with suppress(ConnectionClosed):
            async for message in connection:
                assert isinstance(message, bytes)
                said = decode_from_runner(message)
                if isinstance(said, Hello):
                    heard.put_nowait(said.name)
        runner.name = "sayable"
        heard.put_nowait("closed")

    async with serve(listen, "127.0.0.1", 0) as server:
        [socket] = server.sockets
        url = f"http://127.0.0.1:{socket.getsockname()[1]}"
        linking = asyncio.create_task(stay_linked(Uplink(runner), url, "token"))
        try:
            found = [await asyncio.wait_for(heard.get(), 10) for _ in range(4)]
        finally:
            linking.cancel()
            await asyncio.wait([linking])

    assert found == ["connected", "closed", "connected", "sayable"]
