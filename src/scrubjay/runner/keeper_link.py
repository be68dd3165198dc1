"""A connection to one keeper that never waits: what arrives is called back on the event loop."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import msgspec

from scrubjay.errors import KeeperGone, KeeperRefused
from scrubjay.keeper.protocol import BadFrame, FrameReader, encode_frame
from scrubjay.pods.pod import Pod
from scrubjay.tape.record import Json
from scrubjay.unix_sockets import dial

_ANSWER_WITHIN_S = 10.0


class Listener(Protocol):
    """Whoever wants to know what a keeper says by itself."""

    def tape_grew(self, offset: int, data: bytes) -> None:
        """Bytes of the tape from an offset, as asked for by ``follow``."""
        ...

    def tape_sealed(self, offset: int) -> None:
        """The tape at that offset must be read from its files; then follow again."""
        ...

    def told(self, meta: Json) -> None:
        """Anything else: a pause, an end, that another terminal answers now."""
        ...

    def hung_up(self) -> None:
        """The connection has ended."""
        ...


class KeeperLink(asyncio.Protocol):
    """The runner's side of the keeper's protocol."""

    def __init__(self, pod: Pod, listener: Listener) -> None:
        self._pod, self._listener = pod, listener
        self._frames = FrameReader(msgspec.json.decode)
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._last_id = 0

    @classmethod
    async def open(cls, pod: Pod, listener: Listener) -> KeeperLink:
        """Dial the keeper of a pod; KeeperGone if nobody answers."""
        loop = asyncio.get_running_loop()
        link = cls(pod, listener)
        try:
            # Without waiting: a unix socket connects at once or, if too many are waiting, not at all.
            dialled = dial(pod.folder / "keeper.sock", timeout_s=0)
        except OSError as error:
            raise KeeperGone(pod.name) from error
        try:
            await loop.create_unix_connection(lambda: link, sock=dialled)
        except OSError as error:
            dialled.close()
            raise KeeperGone(pod.name) from error
        return link

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not of that class

    def data_received(self, data: bytes) -> None:
        """Something has arrived."""
        try:
            frames = self._frames.feed(data)
        except BadFrame:
            self.close()
            return
        for meta, tail in frames:
            if "tape" in meta:
                offset = meta["tape"]
                assert isinstance(offset, int)
                self._listener.tape_grew(offset, tail)
            elif "re" in meta:
                self._hear_answer(meta)
            elif "sealed" in meta:
                offset = meta["sealed"]
                assert isinstance(offset, int)
                self._listener.tape_sealed(offset)
            else:
                self._listener.told(meta)

    def _hear_answer(self, meta: Json) -> None:
        number = meta["re"]
        future = self._asked.pop(number, None) if isinstance(number, int) else None
        if future is None or future.done():
            return
        if meta.get("ok") is True:
            future.set_result(meta)
        else:
            future.set_exception(KeeperRefused(f"pod {self._pod.name!r}: {meta.get('error')}"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The connection has ended, by whichever side."""
        self._transport = None
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(KeeperGone(self._pod.name))
        self._listener.hung_up()

    # What the runner calls.

    def send(self, meta: Json, tail: bytes = b"") -> None:
        """Ask for something nobody waits for; KeeperGone if there is no connection."""
        if self._transport is None:
            raise KeeperGone(self._pod.name)
        self._transport.write(encode_frame(meta, tail))

    async def ask(self, meta: Json, tail: bytes = b"") -> Json:
        """Ask and wait for the answer, which for a change means that it is synced."""
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self.send(meta | {"id": number}, tail)
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                return await future
        except TimeoutError as error:
            raise KeeperRefused(
                f"the keeper of pod {self._pod.name!r} did not answer in {_ANSWER_WITHIN_S:g} s",
                hint="its disk may be full or slow: see 'scrubjay ps'",
            ) from error
        finally:
            self._asked.pop(number, None)

    def follow(self, offset: int) -> None:
        """Have the tape sent from an offset on, and be told how far it is synced."""
        self.send({"do": "follow", "from": offset, "synced": True})

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
