"""A connection to one keeper."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Self

from scrubjay.errors import KeeperGone, KeeperRefused
from scrubjay.keeper.protocol import BadFrame, FrameReader, encode_frame
from scrubjay.tape.record import Json
from scrubjay.unix_sockets import dial

_RECEIVE_BYTES = 64 << 10  # a larger buffer is mapped and unmapped anew for every key that is echoed
_CONNECT_TIMEOUT_S = 2.0


class Connection:
    """One client's side of the keeper's protocol; opened when first used."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._socket: socket.socket | None = None
        self._frames = FrameReader()
        self._early: list[tuple[Json, bytes]] = []
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def socket(self) -> socket.socket:
        """The socket, for those who wait for it together with other things."""
        if self._socket is None:
            self._socket = self._dial()
        return self._socket

    def _dial(self) -> socket.socket:
        try:
            dialled = dial(self._folder / "keeper.sock", timeout_s=_CONNECT_TIMEOUT_S)
        except OSError as error:
            raise KeeperGone(self.name) from error
        dialled.settimeout(None)  # with one, every call would poll first
        return dialled

    def send(self, meta: Json, tail: bytes = b"") -> None:
        """Send a request nobody waits for."""
        try:
            self.socket.sendall(encode_frame(meta, tail))
        except OSError as error:
            raise KeeperGone(self.name) from error

    def receive(self) -> list[tuple[Json, bytes]]:
        """What has arrived, waiting for the first of it; KeeperGone at the end of the connection."""
        if self._early:
            early, self._early = self._early, []
            return early
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
            if not data:
                raise KeeperGone(self.name)
            return self._frames.feed(data)
        except TimeoutError:
            return []
        except (OSError, BadFrame) as error:
            raise KeeperGone(self.name) from error

    def ask(self, meta: Json, tail: bytes = b"", *, timeout_s: float = 10.0) -> Json:
        """Send a request and return its answer, which for a change means that it is synced."""
        self._last_id += 1
        self.send(meta | {"id": self._last_id}, tail)
        deadline = time.monotonic() + timeout_s
        others: list[tuple[Json, bytes]] = []
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                for answer, data in self.receive():
                    if answer.get("re") != self._last_id:
                        others.append((answer, data))
                    elif answer.get("ok") is True:
                        return answer
                    else:
                        raise KeeperRefused(f"pod {self.name!r}: {answer.get('error')}")
        finally:
            self._early = others + self._early
            self.socket.settimeout(None)
        raise KeeperRefused(
            f"the keeper of pod {self.name!r} did not answer in {timeout_s:g} s",
            hint="its disk may be full or slow: see 'scrubjay ps'",
        )

    def status(self, *, timeout_s: float) -> Json | None:
        """What the keeper says of itself; None if it does not answer."""
        try:
            answer = self.ask({"do": "status"}, timeout_s=timeout_s)
        except (KeeperGone, KeeperRefused):
            return None
        status = answer.get("status")
        return status if isinstance(status, dict) else None  # pyright: ignore[reportUnknownVariableType]

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
