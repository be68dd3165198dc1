"""A way to the server on which every answer gets lost: the request arrives, and is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.support.conditions import DEADLINE_S


@asynccontextmanager
async def open_cutting_proxy(url: str) -> AsyncGenerator[str]:
    """The address of such a way to a server."""
    target = urlsplit(url)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(target.hostname, target.port)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"host:")]
            ours.write(b"\r\n".join([lines[0], f"Host: {target.netloc}".encode(), *lines[1:]]))
            ours.write(await reader.readexactly(length))
            async with asyncio.timeout(DEADLINE_S):
                await theirs.readuntil(b"\r\n\r\n")  # by then it is done
        finally:
            ours.close()
            writer.transport.abort()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
