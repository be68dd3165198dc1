"""The short way between a WebSocket and the loop: without a queue, a task, or a turn of the loop in between.

Somebody waits for the echo of a key, and each of those takes as long as everything else that is done for it. The web
server offers it as an extension of the ASGI scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from starlette.websockets import WebSocket
from websockets.frames import Frame, Opcode

DIRECT = "scrubjay.direct"


class Direct(Protocol):
    """One connection."""

    on_bytes: Callable[[bytes], bool] | None
    """Called with a message of bytes that nothing is ahead of; what it does not take comes the ordinary way."""

    def write(self, frame: bytes) -> bool:
        """Send a whole frame at once; False if the other side has not taken what was sent before, or is gone."""
        ...

    async def until_writable(self) -> None:
        """Return when the other side has taken what was sent before; an OSError if it is gone."""
        ...


def direct_of(websocket: WebSocket) -> Direct:
    """The short way of a connection."""
    return cast(Direct, websocket.scope["extensions"][DIRECT])


def encode_ws_frame(message: str | bytes) -> bytes:
    """A message as it is on the wire, the same for everybody."""
    if isinstance(message, str):
        return Frame(Opcode.TEXT, message.encode()).serialize(mask=False)
    return Frame(Opcode.BINARY, message).serialize(mask=False)
