"""Connections of the web server, with the limits it has none of its own.

uvicorn reads headers of any length for any time and bodies that were answered long ago, takes any number of empty
fragments, queues every small message of one read, and answers pings that nobody reads. These two classes change that,
and say who is on the other side.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from scrubjay.server.direct import DIRECT
from scrubjay.server.limits import (
    FRAGMENTS_MAX,
    HEAD_MAX_BYTES,
    HEAD_MAX_S,
    REST_MAX_BYTES,
    REST_MAX_S,
    RUNNER_MESSAGE_MAX_BYTES,
)
from scrubjay.server.listeners import CALLER, Caller, peer_uid
from scrubjay.wire.viewer import LATE

_SLICE_BYTES = 16 << 10  # parsed into frames at once; 256 KiB of empty ones would be 40,000 of them
_SLICES_AT_ONCE = 4  # before others have their turn; libuv would read 32 times 256 KiB
_RUNNER = "/api/v1/runner"
_AT_ONCE_MAX = 64  # small messages of one read that do not take a turn of the loop each
_LINGER_S = 300.0  # for who took nothing for long to learn that it was closed


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
        self._rest: _Rest | None = None

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
        self._end_rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        if self._refused:
            self._drop(data)
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_MAX_BYTES and not self._refused:
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

    def on_body(self, body: bytes) -> None:
        """A part of its body; one that was answered already is read on for a while, so that the answer is seen."""
        if self._rest is not None:
            self._drop(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte of its body; what comes now is the next request."""
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0
        self._end_rest()

    def on_response_complete(self) -> None:
        """The last byte of an answer."""
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._rest = _Rest(self.transport, self.loop)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, msg)

    @property
    def _refused(self) -> bool:
        return self._in_head and self._rest is not None

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(
            HEAD_MAX_S, lambda: self._refuse(408, f"the request did not arrive within {HEAD_MAX_S:g} s")
        )

    def _head_arrived(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _drop(self, data: bytes) -> None:
        if self._rest is not None:
            self._rest.take(data)

    def _end_rest(self) -> None:
        if self._rest is not None:
            self._rest.end()
            self._rest = None

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request of which there is not even a head, and take no other."""
        self._head_arrived()
        if self.cycle and not self.cycle.response_complete:
            self.transport.abort()  # in the middle of an answer to an earlier request there is no room for another
            return
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        head += f"content-length: {len(message)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + message.encode())
        self._in_head = True
        self._rest = _Rest(self.transport, self.loop, last=True)


class _Rest:
    """What is still coming on a connection after its answer.

    Closed at once, it would be reset, and the answer lost with it; read for ever, it would never end.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, last: bool = False) -> None:
        self._transport, self._left = transport, REST_MAX_BYTES
        self.timer = loop.call_later(REST_MAX_S, transport.close)
        if last and transport.can_write_eof():
            transport.write_eof()

    def take(self, data: bytes) -> None:
        """Drop another part of it."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.close()

    def end(self) -> None:
        """It has come to its end."""
        self.timer.cancel()


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
        self._behind = False  # others have their turn before the rest of what has come
        self._awaited = False  # the application waits for a message
        self._taken_at_once = 0  # since others had their turn
        self.on_bytes: Callable[[bytes], bool] | None = None
        self._rest: _Rest | None = None

    def data_received(self, data: bytes) -> None:
        """Parse what has come, as far as the application takes it."""
        if self._rest is not None:
            self._rest.take(data)
            return
        self._pending += data
        self._taken_at_once = 0
        if self._behind:
            self.transport.pause_reading()
        else:
            self._feed()

    def handle_connect(self, event: Request) -> None:
        """The upgrade."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            cast(dict[str, object], self.scope.get("extensions"))[DIRECT] = self

    def handle_bytes(self, event: Frame) -> None:
        """A message of bytes, or its first fragment."""
        # In order: only what the application waits for may go by its queue and its task.
        in_order = self._awaited and self.queue.empty() and event.fin and not self.close_sent
        if self.on_bytes is not None and in_order and self._taken_at_once < _AT_ONCE_MAX:
            self._taken_at_once += 1
            if self.on_bytes(bytes(event.data)):
                return
        super().handle_bytes(event)

    def write(self, frame: bytes) -> bool:
        """Send a whole frame at once; False if the other side has not taken what was sent before, or is gone."""
        if not self.writable.is_set() or self.close_sent or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True

    async def until_writable(self) -> None:
        """Return when the other side has taken enough of what was sent before; ClientDisconnected if it is gone."""
        await self.writable.wait()
        if self.close_sent or self.transport.is_closing():
            raise ClientDisconnected

    def handle_cont(self, event: Frame) -> None:
        """Another fragment of a message."""
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {FRAGMENTS_MAX} fragments")
            self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Close a connection that talks nonsense or too much."""
        if self.close_sent:
            return
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_sent = True
        self._pending.clear()
        self.frames = []
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._rest = _Rest(self.transport, self.loop, last=True)
        self.close_timer = self._rest.timer  # or uvicorn would close when the application returns

    def handle_ping(self) -> None:
        """Answer a ping, unless the answers are not read."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def keepalive_timeout(self) -> None:
        """Close a connection whose other side has taken nothing for long; it is told when it reads on."""
        self.pong_timer = None
        self.pending_ping_payload = None
        if self.close_sent or self.transport.is_closing():
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": LATE})
        self.conn.send_close(LATE, "nothing was taken for five minutes")
        # Behind what is still to be taken: an application that waits to send more is ended by the disconnect.
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(_LINGER_S, self.transport.abort)

    async def receive(self) -> Any:
        """The next message, and room for those after it."""
        self._awaited = True
        try:
            message = await super().receive()
        finally:
            self._awaited = False
        self._feed()
        return message

    async def send(self, message: Any) -> None:
        """Send a message; after a close, what is still to be parsed may hold the other side's."""
        if message["type"] == "websocket.send" and (self.close_sent or self.transport.is_closing()):
            # Without this an application that only sends would never stop, and nothing else would ever run: a closing
            # transport takes everything and asks nobody to wait.
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.accept" and self.scope["path"] == _RUNNER:
            self.conn.max_message_size = RUNNER_MESSAGE_MAX_BYTES  # only a runner gets so far as to be accepted there
        if message["type"] == "websocket.close":
            self._feed()
        elif message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # refused is an answer too; uvicorn would log an error

    def _feed(self) -> None:
        for _ in range(_SLICES_AT_ONCE):
            if not self._pending or self.read_paused or self.transport.is_closing():
                return
            piece = bytes(memoryview(self._pending)[:_SLICE_BYTES])
            del self._pending[:_SLICE_BYTES]
            super().data_received(piece)
        if not self._behind:
            self._behind = True
            self.transport.pause_reading()
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._behind = False
        self._feed()
        if not self._behind and not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
