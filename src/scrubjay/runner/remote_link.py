"""A runner's connection to a server elsewhere: one at a time, made again whenever it breaks."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from scrubjay.errors import ScrubjayError
from scrubjay.runner.uplink import RunnerUnwelcome, Uplink
from scrubjay.wire.messages import BadMessage, FromRunner, decode_from_server, encode

OPEN_WITHIN_S = 10.0
SILENCE_S = 15.0  # a server that says nothing, asked every third of it, is taken for gone
_RETRY_S, _RETRY_MAX_S = 0.25, 15.0
_STEADY_S = 10.0  # a connection that held so long is no failure
_REFUSED = frozenset({401, 403, 404, 421})

log = structlog.get_logger()


class ServerRefusesRunner(ScrubjayError):
    """The server will not have this runner, and trying again would not help."""


async def stay_linked(uplink: Uplink, url: str, token: str) -> None:
    """Keep one connection to a server, until cancelled; ServerRefusesRunner if it will not have us."""
    address = "ws" + url.removeprefix("http").rstrip("/") + "/api/v1/runner"
    attempt = 0
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        why = "it was closed"
        try:
            async with connect(
                address,
                additional_headers={"Authorization": f"Bearer {token}"},
                compression=None,
                max_size=None,
                open_timeout=OPEN_WITHIN_S,
                close_timeout=1,
                ping_interval=SILENCE_S / 3,
                ping_timeout=SILENCE_S * 2 / 3,
                user_agent_header=None,
            ) as connection:
                log.info("server.connected", url=url)
                await _converse(uplink, connection)
        except InvalidStatus as error:
            status = error.response.status_code
            if status in _REFUSED:
                raise ServerRefusesRunner(
                    f"{url} answers {status}", hint="is the token one of the role runner, and still good?"
                ) from error
            why = f"it answers {status}"
        except RunnerUnwelcome as error:
            raise ServerRefusesRunner(f"{url} will not have this runner: {error}") from error
        except (OSError, TimeoutError, WebSocketException, BadMessage) as error:
            why = str(error) or type(error).__name__
        attempt = 0 if loop.time() - began > _STEADY_S else attempt + 1
        delay_s = random.uniform(0, min(_RETRY_MAX_S, _RETRY_S * 2**attempt))
        log.info("server.lost", url=url, why=why, retry_s=round(delay_s, 2))
        await asyncio.sleep(delay_s)


async def _converse(uplink: Uplink, connection: ClientConnection) -> None:
    outgoing: asyncio.Queue[FromRunner] = asyncio.Queue()
    await uplink.connect(outgoing.put_nowait)
    sending = asyncio.create_task(_send(connection, outgoing))
    try:
        async for message in connection:
            if not isinstance(message, bytes):
                raise BadMessage("a text, where only bytes are said")
            uplink.hear(decode_from_server(message))
    finally:
        uplink.disconnect()
        sending.cancel()
        with suppress(asyncio.CancelledError, ConnectionClosed):
            await sending


async def _send(connection: ClientConnection, outgoing: asyncio.Queue[FromRunner]) -> None:
    while True:
        await connection.send(encode(await outgoing.get()))
