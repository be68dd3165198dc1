"""The fleet's changes over a WebSocket: every one, in order, from the number the listener has."""

from __future__ import annotations

import asyncio

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from scrubjay.errors import CatalogUnavailable
from scrubjay.server.sockets.closing import close_quietly, tower_of
from scrubjay.wire import viewer as wire

RETRY_S = 1.0  # until a catalog that cannot be read is asked again

log = structlog.get_logger()


async def fleet(websocket: WebSocket) -> None:
    """``/api/v1/fleet``: ``after=N`` begins with change N+1; without it with the next one."""
    tower = tower_of(websocket)
    raw = websocket.query_params.get("after")
    if raw is not None and not (raw.isdecimal() and len(raw) < 19):
        await websocket.accept()
        await close_quietly(websocket, 1007, "after must be a number")
        return
    number = int(raw) if raw is not None else tower.changes.number
    await websocket.accept()
    if number > tower.changes.number:
        await close_quietly(
            websocket, wire.UNFIT, f"there are only {tower.changes.number} changes: this is another fleet"
        )
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(_tell(websocket, number))
            while (await websocket.receive())["type"] != "websocket.disconnect":
                continue  # it has nothing to say
            telling.cancel()
    except* (WebSocketDisconnect, WebSocketDisconnected):
        pass


async def _tell(websocket: WebSocket, number: int) -> None:
    tower = tower_of(websocket)
    begun = False
    while True:
        if not begun and number >= tower.changes.number:
            begun = True
            await websocket.send_text(wire.encode(wire.Caught(number=number)))
        try:
            events = await tower.changes.after(number)
        except CatalogUnavailable as error:
            log.warning("changes.not_read", error=str(error))
            await asyncio.sleep(RETRY_S)  # nothing is lost: it goes on from the same number
            continue
        for event in events:
            number = event.number
            change = wire.Change(number=number, wall_us=event.wall_us, kind=event.kind, pod=event.pod, data=event.data)
            await websocket.send_text(wire.encode(change))
