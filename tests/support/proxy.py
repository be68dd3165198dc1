"""A link between two programs that a test can cut, silence, slow down and count.

It is a TCP proxy in a thread of its own: whoever is told its port gets to the target as long as the link is up. Like
a proxy for HTTP it names the target in the Host header of a connection's first request, and changes nothing else.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.conditions import DEADLINE_S
from tests.support.processes import sockets_of

_READ_BYTES = 64 << 10
_LINGER_NONE = struct.pack("ii", 1, 0)  # closing is a reset, as when a machine in between forgets a connection
_ESTABLISHED, _CLOSE_WAIT = "01", "08"

LinkState = Literal["up", "down", "silent"]


@dataclass(slots=True, eq=False)
class Passage:
    """One connection through the link."""

    opened_s: float
    closed_s: float | None = None
    sent_bytes: int = 0  #: from who connected
    received_bytes: int = 0  #: by who connected
    silent: bool = False  #: both sides think it stands, and nothing gets through any more
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    @property
    def open(self) -> bool:
        """Whether it stands as far as who connected knows."""
        return self.closed_s is None


class Proxy:
    """The link. Its methods are for any thread."""

    def __init__(self, target: int | None = None) -> None:
        """Lead to a port of this machine, which may be said later."""
        self.target = target
        self.passages: list[Passage] = []
        self.at_once = 0  #: the most connections that stood at the same time
        self.delay_s = 0.0  #: how much later everything arrives
        self.bytes_per_s: float | None = None  #: how fast it goes, for each connection and direction
        self._state: LinkState = "up"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where the link begins."""
        return int(self._listener.getsockname()[1])

    @property
    def sent_bytes(self) -> int:
        """By those who connected, over all connections."""
        return sum(passage.sent_bytes for passage in list(self.passages))

    @property
    def received_bytes(self) -> int:
        """By those who connected, over all connections."""
        return sum(passage.received_bytes for passage in list(self.passages))

    @property
    def standing(self) -> int:
        """Connections that stand now, as far as those who connected know."""
        return sum(passage.open for passage in list(self.passages))

    # What a test does to it.

    def set_up(self) -> None:
        """Let through what comes from now on; connections that were silenced stay silent."""
        self._do(lambda: self._become("up"))

    def set_down(self) -> None:
        """End what stands and everything that comes; what has got through is there, what is under way is lost."""
        self._do(lambda: self._become("down"))

    def set_silent(self) -> None:
        """Let nothing through and close nothing: half-open for both sides. What comes is taken and never answered."""
        self._do(lambda: self._become("silent"))

    def cut(self) -> None:
        """Reset what stands, so that even what has got through is lost if nobody has read it; then go on."""
        self._do(self._reset_all)

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self._listener.close()

    # In its thread.

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(DEADLINE_S)

    def _become(self, state: LinkState) -> None:
        self._state = state
        if state != "up":
            for passage in self.passages:
                passage.silent = True
                if state == "down":
                    _end(passage)

    def _reset_all(self) -> None:
        for passage in self.passages:
            _reset(passage)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass, sock=self._listener)
        await self._stopping.wait()
        server.close()
        self._reset_all()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # for the transports to see it

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        passage = Passage(time.monotonic(), silent=self._state == "silent", writers=[writer])
        self.passages.append(passage)
        self.at_once = max(self.at_once, self.standing)
        try:
            if self._state != "down" and self.target is not None:
                await self._join(passage, reader, writer)
        finally:
            _reset(passage)
            self._tasks.discard(task)

    async def _join(self, passage: Passage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
            passage.writers.append(ours)
            flows = [
                asyncio.create_task(self._flow(passage, reader, ours, outward=True)),
                asyncio.create_task(self._flow(passage, theirs, writer, outward=False)),
            ]
            await asyncio.wait(flows, return_when=asyncio.FIRST_COMPLETED)
            if passage.silent:
                # The other side has to notice by itself, or is just being told.
                passage.closed_s = passage.closed_s or time.monotonic()
                await asyncio.wait(flows)
            for flow in flows:
                flow.cancel()
            await asyncio.wait(flows)

    async def _flow(
        self, passage: Passage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, outward: bool
    ) -> None:
        """Carry bytes in one direction until it ends, is reset or is cancelled."""
        underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        arriving = asyncio.create_task(self._arrive(passage, underway, writer))
        try:
            with suppress(OSError):
                while data := await reader.read(_READ_BYTES):
                    if passage.silent:
                        continue
                    if outward:
                        if not passage.sent_bytes:
                            data = data.replace(b":%d\r\n" % self.port, b":%d\r\n" % (self.target or 0), 1)
                        passage.sent_bytes += len(data)
                    else:
                        passage.received_bytes += len(data)
                    await underway.put((self._loop.time() + self.delay_s, data))
            if not passage.silent:
                await underway.put((0.0, b""))
                await arriving
        finally:
            arriving.cancel()
            with suppress(asyncio.CancelledError):
                await arriving

    async def _arrive(
        self, passage: Passage, underway: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            due, data = await underway.get()
            if not data:
                return
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            if self.bytes_per_s is not None:
                await asyncio.sleep(len(data) / self.bytes_per_s)
            if passage.silent:
                continue
            with suppress(OSError):
                writer.write(data)
                await writer.drain()


def _end(passage: Passage) -> None:
    """Let both sides see an end."""
    passage.closed_s = passage.closed_s or time.monotonic()
    for writer in passage.writers:
        with suppress(OSError, RuntimeError):
            writer.write_eof()


def _reset(passage: Passage) -> None:
    if passage.closed_s is None:
        passage.closed_s = time.monotonic()
    for writer in passage.writers:
        transport = writer.transport
        opened = transport.get_extra_info("socket")
        if opened is not None and not transport.is_closing():
            with suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        transport.abort()


@contextmanager
def open_proxy(target: int | None = None) -> Generator[Proxy]:
    """A link that is there as long as the block takes."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()


def connections_to(pid: int, port: int) -> int:
    """How many TCP connections a process has to a port of this machine."""
    return _count(pid, lambda _local, remote: remote == port)


def connections_at(pid: int, port: int) -> int:
    """How many TCP connections a process has that came to a port of this machine."""
    return _count(pid, lambda local, _remote: local == port)


def has_unclosed(port: int) -> bool:
    """Whether there is a connection to a port of this machine that its server has not closed, or not even accepted."""
    return any(row[3] in (_ESTABLISHED, _CLOSE_WAIT) and _port_of(row[1]) == port for row in _connections())


def _count(pid: int, wanted: Callable[[int, int], bool]) -> int:
    mine = sockets_of(pid)
    found = {
        row[9]
        for row in _connections()
        if row[3] == _ESTABLISHED and row[9] in mine and wanted(_port_of(row[1]), _port_of(row[2]))
    }
    return len(found)  # by inode: the kernel may list a socket twice when others come and go while the table is read


def _connections() -> list[list[str]]:
    return [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
