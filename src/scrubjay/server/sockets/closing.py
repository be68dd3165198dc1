"""What every socket has at hand."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from starlette.websockets import WebSocket, WebSocketDisconnect

from scrubjay.fleet.access import Principal
from scrubjay.ids import PodId
from scrubjay.server.gate import Gate
from scrubjay.server.guard import pod_of as guard_pod_of
from scrubjay.server.guard import principal_of as guard_principal_of
from scrubjay.server.listeners import CALLER, Caller
from scrubjay.server.tower import Tower

_REASON_MAX_BYTES = 120  # a close frame holds no more than 123


def tower_of(websocket: WebSocket) -> Tower:
    """The server behind a socket."""
    return cast(Tower, websocket.app.state.tower)


def gate_of(websocket: WebSocket) -> Gate:
    """Who may come in."""
    return cast(Gate, websocket.app.state.gate)


def principal_of(websocket: WebSocket) -> Principal:
    """Who is at a socket; the guard has let nobody else in."""
    return guard_principal_of(websocket.scope)


def pod_of(websocket: WebSocket) -> PodId:
    """Which pod a socket is about."""
    return guard_pod_of(websocket.scope)


async def close_quietly(websocket: WebSocket, code: int, reason: str) -> None:
    """Close, unless the other side has."""
    short = reason.encode(errors="replace")[:_REASON_MAX_BYTES].decode(errors="ignore")
    with suppress(WebSocketDisconnect, RuntimeError):
        await websocket.close(code, short)


def hang_up(websocket: WebSocket) -> None:
    """End a connection whose other side may be gone without having said so: it would not answer a close."""
    caller = websocket.scope["state"].get(CALLER)
    assert isinstance(caller, Caller)
    caller.abort()
