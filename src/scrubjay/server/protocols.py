"""Connections of the web server, with the limits it has none of its own.

uvicorn reads headers of any length for any time, takes any number of empty fragments, queues every small message of one
read, and answers pings that nobody reads. These two classes change exactly that, and say who is on the other side.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame

from scrubjay.server.limits import FRAGMENTS_MAX, HEAD_MAX_BYTES, HEAD_MAX_S
from scrubjay.server.listeners import CALLER, Caller, peer_uid

_SLICE_BYTES = 16 << 10  # parsed at once; 256 KiB of empty frames would be 40,000 of them


class HttpConnection(HttpToolsProtocol):
    """One connection, as long as it speaks HTTP."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        unix: bool = False,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unix = unix
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a connection; over the unix socket only one of the same user."""
        super().connection_made(transport)
        if self._unix and peer_uid(transport.get_extra_info("socket")) != os.getuid():
            transport.abort()
            return
        address = self.client[0] if self.client else ""
        caller = Caller("unix" if self._unix else "tcp", address, transport.abort)
        # A copy, because what the lifespan has put there belongs to all connections.
        self.app_state = {**self.app_state, CALLER: caller}
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go."""
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
            self._refuse(431, f"the head of a request is limited to {HEAD_MAX_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """The last byte of its headers."""
        self._head_arrived()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The last byte of its body; what comes now is the next request."""
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(
            HEAD_MAX_S, lambda: self._refuse(408, f"the request did not arrive within {HEAD_MAX_S:.0f} s")
        )

    def _head_arrived(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, message: str) -> None:
        self._head_arrived()
        if self.cycle and not self.cycle.response_complete:
            self.transport.abort()  # in the middle of an answer to an earlier request there is no room for another
            return
        phrase = {408: "Request Timeout", 431: "Request Header Fields Too Large"}[status]
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        head += f"content-length: {len(message)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + message.encode())
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One connection, from its upgrade to a WebSocket on."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._pending = bytearray()

    def data_received(self, data: bytes) -> None:
        """Parse what has come, as far as the application takes it."""
        self._pending += data
        self._feed()

    def handle_cont(self, event: Frame) -> None:
        """Another fragment of a message."""
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        elif not self.close_sent:
            self.frames = []
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {FRAGMENTS_MAX} fragments")
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping, unless the answers are not read."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    async def receive(self) -> Any:
        """The next message, and room for those after it."""
        message = await super().receive()
        self._feed()
        return message

    async def send(self, message: Any) -> None:
        """Send a message; after a close, what is still to be parsed may hold the other side's."""
        await super().send(message)
        if message["type"] == "websocket.close":
            self._feed()
        elif message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # refused is an answer too; uvicorn would log an error

    def _feed(self) -> None:
        while self._pending and not self.read_paused and not self.transport.is_closing():
            piece = bytes(memoryview(self._pending)[:_SLICE_BYTES])
            del self._pending[:_SLICE_BYTES]
            super().data_received(piece)
