"""Serve an ASGI application on the listeners: HTTP/1.1 and WebSockets by uvicorn, set up to give nothing away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from scrubjay.errors import BadSetting, ScrubjayError
from scrubjay.server.limits import MESSAGE_MAX_BYTES
from scrubjay.server.listeners import Listeners
from scrubjay.server.protocols import HttpConnection, WebSocketConnection

GRACE_S = 3  # for requests under way when the server ends
PING_EVERY_S = 20.0
SILENCE_MAX_S = 300.0  # without an answer to a ping; a viewer may be stopped for five minutes and go on


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate and its key."""

    certificate: Path
    key: Path


def _config(app: ASGIApp, tls: Tls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        ws_max_size=MESSAGE_MAX_BYTES,
        ws_ping_interval=PING_EVERY_S,
        ws_ping_timeout=SILENCE_MAX_S,
        ws_per_message_deflate=False,  # six to ten times the time per message, and a way to send a bomb
        lifespan="on",
        interface="asgi3",
        proxy_headers=False,  # who writes X-Forwarded-For would choose their own address
        server_header=False,
        access_log=False,  # an address may hold a login code
        log_config=None,
        log_level="warning",  # at info, addresses of WebSockets are logged with their queries
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


class _Server(uvicorn.Server):
    """uvicorn on sockets that are open already; signals and the loop are somebody else's."""

    def __init__(self, config: uvicorn.Config, listeners: Listeners) -> None:
        super().__init__(config)
        self._listeners = listeners
        self._stopping = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the application, then take connections. ScrubjayError if the application does not start."""
        self.lifespan = self.config.lifespan_class(self.config)
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise ScrubjayError("the server did not start", hint="its log says why")
        connection = partial(
            HttpConnection, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(connection, sock=opened, ssl=self.config.ssl) for opened in self._listeners.tcp
        ]
        if self._listeners.unix is not None:
            self.servers.append(
                await loop.create_unix_server(partial(connection, unix=True), sock=self._listeners.unix)
            )
        self.started = True
        self._ticking = asyncio.create_task(self.main_loop())

    async def main_loop(self) -> None:
        """Keep the time that responses carry, until the end."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            try:
                async with asyncio.timeout(1.0):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Let requests under way end, and close WebSockets with 1012."""
        if self._ticking is not None:
            self._stopping.set()
            await self._ticking
            await self.shutdown()
        self._listeners.close()


@asynccontextmanager
async def serving(app: ASGIApp, listeners: Listeners, *, tls: Tls | None = None) -> AsyncGenerator[None]:
    """Serve while inside."""
    async with ready_to_serve(app, listeners, tls=tls) as start:
        await start()
        yield


@asynccontextmanager
async def ready_to_serve(
    app: ASGIApp, listeners: Listeners, *, tls: Tls | None = None
) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Serve from the call of what this yields until the end of the block; clients that connect earlier wait.

    On the way out requests under way may end, WebSockets are closed with 1012, and so are the listeners.
    """
    config = _config(app, tls)
    try:
        config.load()
    except OSError as error:
        raise BadSetting(f"cannot use the certificate: {error}", hint="check tls_cert and tls_key") from error
    server = _Server(config, listeners)
    try:
        yield server.open
    finally:
        await server.close()
