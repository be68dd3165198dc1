"""What everybody has open, so that it can be closed when they may no longer be here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog
from starlette.types import Message, Send

from scrubjay.fleet.access import Action, Principal
from scrubjay.ids import PodId

_CLOSE_S = 1.0  # for a close to be taken by a connection that may be full
_GOODBYE_S = 2.0  # for the other side to answer it

log = structlog.get_logger()


class HungUp(OSError):
    """A WebSocket that the guard has closed; Starlette makes it a disconnect."""


class OpenConnection:
    """One request or WebSocket of somebody."""

    def __init__(self, principal: Principal, send: Send, abort: Callable[[], None], *, websocket: bool) -> None:
        self.principal = principal
        self._send, self._abort, self._websocket = send, abort, websocket
        self._closed = False
        self.over = False  #: nothing will be sent on it any more
        self.needs: list[tuple[Action, PodId]] = []  #: what its owner must be allowed for as long as it is open

    @property
    def closed(self) -> bool:
        """Whether either the application or the guard has closed it."""
        return self._closed

    async def send(self, message: Message) -> None:
        """Send for the application; HungUp if the guard has closed it."""
        if self._closed:
            raise HungUp("the guard has closed this connection")
        if message["type"] == "websocket.close":
            self._closed = True
        await self._send(message)

    async def close(self, code: int, reason: str) -> None:
        """Close it: a WebSocket politely if its other side reads, a response if it does not end by itself."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        if not self._websocket:
            # It may be the very request that asked for this.
            loop.call_later(_CLOSE_S, self._hang_up)
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (TimeoutError, OSError, RuntimeError):  # the last says that it was closed by its other side meanwhile
            self._abort()
            return
        loop.call_later(_GOODBYE_S, self._hang_up)

    def _hang_up(self) -> None:
        if not self.over:
            self._abort()


class OpenConnections:
    """All of them, by who they belong to."""

    def __init__(self) -> None:
        self._open: dict[str, set[OpenConnection]] = {}

    @contextmanager
    def holding(self, connection: OpenConnection) -> Generator[None]:
        """Keep a connection among the open ones."""
        owner = connection.principal.id
        self._open.setdefault(owner, set()).add(connection)
        try:
            yield
        finally:
            connection.over = True
            self._open[owner].discard(connection)
            if not self._open[owner]:
                del self._open[owner]

    def principals(self) -> list[Principal]:
        """Everybody who has something open, each once."""
        return [next(iter(connections)).principal for connections in self._open.values()]

    async def close(self, principal_id: str, *, code: int, reason: str) -> int:
        """Close all that somebody has open; returns how many."""
        return len(await _close(list(self._open.get(principal_id, ())), code, reason))

    async def close_where(
        self, condition: Callable[[OpenConnection], bool], *, code: int, reason: str
    ) -> list[OpenConnection]:
        """Close all of which something is so and that are not closed yet; returns them."""
        everything = [connection for connections in self._open.values() for connection in connections]
        found = [connection for connection in everything if not connection.closed and condition(connection)]
        return await _close(found, code, reason)


async def _close(connections: list[OpenConnection], code: int, reason: str) -> list[OpenConnection]:
    closing = (connection.close(code, reason) for connection in connections)
    outcomes = await asyncio.gather(*closing, return_exceptions=True)
    for connection, outcome in zip(connections, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            log.warning("connection.not_closed", principal=connection.principal.id, error=str(outcome))
    return connections
