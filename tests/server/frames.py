"""WebSocket frames by hand, for what no library would send."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

from tests.support.conditions import DEADLINE_S
from tests.support.guarded_server import UPGRADE, Answer, hang_up, read_answer

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, rsv1: bool = False, claim: int | None = None
) -> bytes:
    """A frame of a client, masked with zeros; ``claim`` is the length it says it has."""
    length = len(payload) if claim is None else claim
    head = bytes([opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)])
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += struct.pack("!BH", 0x80 | 126, length)
    else:
        head += struct.pack("!BQ", 0x80 | 127, length)
    return head + bytes(4) + payload


@dataclass(slots=True)
class RawSocket:
    """A WebSocket without a library."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answer: Answer

    @classmethod
    async def open(cls, port: int, path: str, *headers: tuple[str, str]) -> RawSocket:
        """Shake hands."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = [("Host", f"127.0.0.1:{port}"), *UPGRADE, *headers]
        text = "\r\n".join([f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines), "", ""])
        writer.write(text.encode())
        return cls(reader, writer, await read_answer(reader))

    def send(self, data: bytes) -> None:
        """Send bytes; what is not taken is kept until it is."""
        self.writer.write(data)

    async def read(self) -> tuple[int, bytes]:
        """The next frame of the server."""
        first, second = await self.reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 0x0F, await self.reader.readexactly(length)

    async def closed(self, *, within_s: float = DEADLINE_S) -> int:
        """Wait until the server closes, and the code it gives."""
        async with asyncio.timeout(within_s):
            while True:
                opcode, payload = await self.read()
                if opcode == CLOSE:
                    return struct.unpack("!H", payload[:2])[0]

    async def ended(self, *, within_s: float = DEADLINE_S) -> None:
        """Wait until the connection is gone, whatever was still in it."""
        async with asyncio.timeout(within_s):
            try:
                while await self.reader.read(65536):
                    continue
            except ConnectionError:
                return

    async def hang_up(self) -> None:
        """Leave, whatever is still on its way."""
        await hang_up(self.writer)
