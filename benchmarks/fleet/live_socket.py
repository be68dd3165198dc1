"""A WebSocket to a live pod, as cheap as a client can be: two hundred of them share the machine with the server."""

from __future__ import annotations

import base64
import os
import socket
from struct import Struct

from benchmarks.family import CommandFailed

TEXT, BINARY, PING = 1, 2, 9
KEYFRAME, OUTPUT = 1, 2
HEADER_BYTES = 24

_HEADER = Struct("<BxHHxxQQ")
_LENGTH_16, _LENGTH_64 = Struct(">H"), Struct(">Q")
_READ_BYTES = 256 << 10
_ANSWER_WITHIN_S = 30.0

Span = tuple[int, int, int]
"""What a message is, and where it begins and ends."""


class LiveSocket:
    """One viewer."""

    def __init__(self, address: tuple[str, int], token: str, pod: str) -> None:
        """Return when the server has agreed."""
        self.socket = socket.create_connection(address, _ANSWER_WITHIN_S)
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET /api/v1/pods/{pod}/live?mode=watch HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        self.socket.sendall(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            if not (data := self.socket.recv(_READ_BYTES)):
                raise CommandFailed(f"the server hung up: {answer[:200]!r}")
            answer += data
        head, _, self._rest = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise CommandFailed(f"the server refused a viewer: {answer[:300]!r}")

    def read(self) -> tuple[bytes, list[Span]]:
        """Wait for more; some bytes, and where in them the whole messages are."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise CommandFailed("the server hung up on a viewer")
        if self._rest:
            data = self._rest + data
        spans, end = _spans(data)
        self._rest = data[end:]
        return data, spans

    def answer_ping(self) -> None:
        """Say that somebody is there."""
        self.socket.sendall(b"\x8a\x80\x00\x00\x00\x00")

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def screen_header(data: bytes, start: int) -> tuple[int, int]:
    """Kind and offset of a binary message."""
    kind, _, _, offset, _ = _HEADER.unpack_from(data, start)
    return kind, offset


def _spans(data: bytes) -> tuple[list[Span], int]:
    spans: list[Span] = []
    position, size = 0, len(data)
    while size - position >= 2:
        first, length = data[position], data[position + 1]
        start = position + 2
        if length == 126:
            start += 2
        elif length == 127:
            start += 8
        if start > size:
            break
        if length == 126:
            (length,) = _LENGTH_16.unpack_from(data, start - 2)
        elif length == 127:
            (length,) = _LENGTH_64.unpack_from(data, start - 8)
        if start + length > size:
            break
        spans.append((first & 0x0F, start, start + length))
        position = start + length
    return spans, position
