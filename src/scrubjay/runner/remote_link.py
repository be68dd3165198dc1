"""A runner's connection to a server elsewhere: one at a time, made again whenever it breaks."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.runner.uplink import RunnerUnwelcome, Uplink
from scrubjay.wire.messages import MCP_PATH, BadMessage, FromRunner, UnknownRequest, decode_from_server, encode

OPEN_WITHIN_S = 10.0
SILENCE_S = 15.0  # a server that says nothing, asked every third of it, is taken for gone
_RETRY_S, _RETRY_MAX_S = 1.0, 15.0  # the longest wait before the next try, at first and ever
_REFUSED = frozenset({401, 403, 404, 421})

log = structlog.get_logger()


class ServerRefusesRunner(ScrubjayError):
    """The server will not have this runner, and trying again would not help."""


async def stay_linked(uplink: Uplink, url: str, token: str) -> None:
    """Keep one connection to a server, until cancelled; ServerRefusesRunner if it will not have us."""
    url = url.rstrip("/")
    address = "ws" + url.removeprefix("http") + "/api/v1/runner"
    patience = _Patience()
    while True:
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
                await _converse(uplink, connection, patience, mcp_url=url + MCP_PATH)
        except InvalidStatus as error:
            status = error.response.status_code
            if status in _REFUSED:
                hint = "is the token one of the role runner, and still good?"
                if status == 421:
                    hint = "the server does not know itself by that name: add it to its setting names"
                raise ServerRefusesRunner(f"{url} answers {status}", hint=hint) from error
            why = f"it answers {status}"
        except RunnerUnwelcome as error:
            raise ServerRefusesRunner(f"{url} will not have this runner: {error}") from error
        except (OSError, TimeoutError, WebSocketException, BadMessage, BadInput) as error:
            # BadInput is something that cannot be said: it may be gone the next time.
            why = str(error) or type(error).__name__
        delay_s = patience.next_delay_s()
        log.info("server.lost", url=url, why=why, retry_s=round(delay_s, 2))
        await asyncio.sleep(delay_s)


class _Patience:
    """How long to wait before the next try: up to half of the time that the server has been away.

    One that was there a moment ago is soon there again: the link flaps, or it was restarted.
    """

    def __init__(self) -> None:
        self._seen_s = time.monotonic()

    def next_delay_s(self) -> float:
        """Full jitter, so that the runners of a server that comes back do not come all at once."""
        away_s = time.monotonic() - self._seen_s
        return random.uniform(0, min(_RETRY_MAX_S, max(_RETRY_S, away_s / 2)))

    def welcomed(self) -> None:
        """The server is there."""
        self._seen_s = time.monotonic()


async def _converse(uplink: Uplink, connection: ClientConnection, patience: _Patience, *, mcp_url: str) -> None:
    outgoing: asyncio.Queue[FromRunner] = asyncio.Queue()
    await uplink.connect(outgoing.put_nowait, mcp_url=mcp_url)
    hearing = asyncio.create_task(_hear(connection, uplink, patience))
    sending = asyncio.create_task(_send(connection, outgoing))
    try:
        await asyncio.wait([hearing, sending], return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            with suppress(ConnectionClosed):  # the server's last words may still be unheard
                sending.result()
        await hearing
    finally:
        uplink.disconnect()
        hearing.cancel()
        sending.cancel()
        await asyncio.gather(hearing, sending, return_exceptions=True)


async def _hear(connection: ClientConnection, uplink: Uplink, patience: _Patience) -> None:
    async for message in connection:
        if not isinstance(message, bytes):
            raise BadMessage("a text, where only bytes are said")
        try:
            uplink.hear(decode_from_server(message))
        except UnknownRequest as unknown:
            uplink.decline(unknown)
        patience.welcomed()


async def _send(connection: ClientConnection, outgoing: asyncio.Queue[FromRunner]) -> None:
    while True:
        await connection.send(encode(await outgoing.get()))
