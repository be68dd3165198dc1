"""How a WebSocket connection takes what comes: in turns with others, and never more than somebody reads."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from scrubjay.server.protocols import WebSocketConnection
from tests.server.frames import CONT, PING, TEXT, frame
from tests.support.conditions import DEADLINE_S
from tests.support.guarded_server import UPGRADE

pytestmark = pytest.mark.anyio

_PINGS = frame(PING, bytes(10)) * 16_384  # 256 KiB


async def _stay_open(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


class _Transport(asyncio.Transport):
    """Counts what is written and knows whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.closing = False
        self.written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        """It stays open."""


@pytest.fixture
async def opened() -> WebSocketConnection:
    """A connection whose handshake is done."""
    config = uvicorn.Config(_stay_open, log_config=None, lifespan="off", ws_per_message_deflate=False)
    config.load()
    connection = WebSocketConnection(config, uvicorn.Server(config).server_state, {})
    connection.connection_made(_Transport())
    head = "".join(f"{name}: {value}\r\n" for name, value in (("Host", "x"), *UPGRADE))
    connection.data_received(f"GET / HTTP/1.1\r\n{head}\r\n".encode())
    async with asyncio.timeout(DEADLINE_S):
        while not connection.handshake_complete:
            await asyncio.sleep(0)
    connection.stop_keepalive()
    _transport(connection).written = 0
    return connection


def _transport(connection: WebSocketConnection) -> _Transport:
    assert isinstance(connection.transport, _Transport)
    return connection.transport


async def _leave(connection: WebSocketConnection) -> None:
    connection.connection_lost(None)
    async with asyncio.timeout(DEADLINE_S):
        while connection.tasks:
            await asyncio.sleep(0)


async def test_others_have_their_turn_in_the_middle_of_a_flood(opened: WebSocketConnection) -> None:
    transport = _transport(opened)

    opened.data_received(_PINGS)
    answered_at_once = transport.written
    reading = transport.reading
    turns = 0
    async with asyncio.timeout(DEADLINE_S):
        while not transport.reading:
            await asyncio.sleep(0)
            turns += 1

    assert answered_at_once <= 64 << 10
    assert not reading
    assert turns >= 3
    assert transport.written == 12 * 16_384
    await _leave(opened)


async def test_what_comes_while_it_is_behind_waits(opened: WebSocketConnection) -> None:
    transport = _transport(opened)

    opened.data_received(_PINGS)
    before = transport.written
    transport.reading = True  # a read that was under way
    opened.data_received(frame(PING))

    assert transport.written == before
    assert not transport.reading
    await _leave(opened)


async def test_only_a_small_part_of_what_has_come_is_made_into_frames_at_once(
    opened: WebSocketConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    receive_data = opened.conn.receive_data

    def note(data: bytes) -> None:
        sizes.append(len(data))
        receive_data(data)

    monkeypatch.setattr(opened.conn, "receive_data", note)
    opened.data_received(frame(TEXT, b"", fin=False) + frame(CONT, b"", fin=False) * 900 + b"")
    opened.data_received(_PINGS)

    assert max(sizes) <= 16 << 10
    await _leave(opened)


async def test_small_messages_wait_until_the_application_takes_those_before(opened: WebSocketConnection) -> None:
    opened.data_received(frame(TEXT, b"a") * 30_000)

    assert opened.queue.qsize() < 3000
    assert not _transport(opened).reading
    await _leave(opened)


async def test_pings_are_not_answered_while_nobody_reads_the_answers(opened: WebSocketConnection) -> None:
    opened.pause_writing()
    opened.data_received(frame(PING, b"unread") * 100)
    unread = _transport(opened).written
    opened.resume_writing()
    opened.data_received(frame(PING, b"read"))

    assert unread == 0
    assert _transport(opened).written == 6
    await _leave(opened)


async def test_one_who_only_sends_stops_when_the_other_side_is_gone(opened: WebSocketConnection) -> None:
    await opened.send({"type": "websocket.send", "text": "seen"})
    _transport(opened).closing = True

    with pytest.raises(OSError):
        await opened.send({"type": "websocket.send", "text": "unseen"})

    await _leave(opened)
