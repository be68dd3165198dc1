"""Look at a live pod with several viewers and keep when what came, until told to end.

``python watcher.py URL COUNT [BUFFER_BYTES]`` with the token in SCRUBJAY_TOKEN, and perhaps with so much of a receive
buffer for each. Says ``ready`` when all have their first keyframe. On SIGTERM, or when all were closed, it prints as
JSON what each has received: ``[seconds, kind, bytes, lag in seconds or null]`` in order, and what it was closed with.
Lag is measured by ``t=NANOSECONDS`` of the clock all processes share, in what is shown.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from scrubjay.wire.viewer import KEYFRAME, decode_screen

_STAMP = re.compile(rb"t=([0-9]{10,20}) ")


@dataclass(slots=True)
class Seen:
    """What one viewer has received."""

    messages: list[tuple[float, str, int, float | None]] = field(
        default_factory=list[tuple[float, str, int, float | None]]
    )
    code: int | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)


def take(seen: Seen, message: str | bytes) -> None:
    """Note one message."""
    now = time.monotonic()
    if isinstance(message, str):
        seen.messages.append((now, json.loads(message)["type"], len(message), None))
        return
    kind, _, _, _, data = decode_screen(message)
    if kind == KEYFRAME:
        seen.started.set()
        seen.messages.append((now, "keyframe", len(message), None))
        return
    # The newest in it: older ones have waited for it to be worth a message.
    stamps = _STAMP.findall(data, max(0, len(data) - 1024))
    seen.messages.append((now, "output", len(message), now - int(stamps[-1]) / 1e9 if stamps else None))


async def look(connection: ClientConnection, seen: Seen) -> None:
    """Take everything until it is closed."""
    try:
        async for message in connection:
            take(seen, message)
    except ConnectionClosed:
        pass
    seen.code = connection.close_code


def dial(url: str, buffer_bytes: int) -> socket.socket:
    """A TCP connection to the host of a URL."""
    parts = urlsplit(url)
    dialled = socket.socket()
    if buffer_bytes:
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    dialled.connect((parts.hostname, parts.port))
    dialled.setblocking(False)
    return dialled


async def main(url: str, count: int, buffer_bytes: int) -> None:
    """Look until told to end."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    headers = {"Authorization": f"Bearer {os.environ['SCRUBJAY_TOKEN']}"}
    seen = [Seen() for _ in range(count)]
    connections = [
        await connect(
            url,
            sock=dial(url, buffer_bytes),
            additional_headers=headers,
            compression=None,
            max_size=None,
            ping_interval=None,
        )
        for _ in seen
    ]
    looking = [asyncio.create_task(look(connection, one)) for connection, one in zip(connections, seen, strict=True)]
    for one in seen:
        await one.started.wait()
    print("ready", flush=True)
    ended, closed = asyncio.create_task(ending.wait()), asyncio.create_task(asyncio.wait(looking))
    await asyncio.wait([ended, closed], return_when=asyncio.FIRST_COMPLETED)
    print(json.dumps([{"messages": one.messages, "code": one.code} for one in seen]), flush=True)
    for task in (ended, closed, *looking):
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
