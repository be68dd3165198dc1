"""A runner over a WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from scrubjay.errors import BadId, CatalogError, KeeperRefused, ScrubjayError
from scrubjay.server.errors import TokenBound
from scrubjay.server.peer import Peer, PeerRefused
from scrubjay.server.sockets.closing import close_quietly, gate_of, hang_up, principal_of, tower_of
from scrubjay.wire.messages import Ask, BadMessage, FromServer, Hello, Refused, decode_from_runner, encode
from scrubjay.wire.viewer import UNFIT

HELLO_WITHIN_S = 10.0
SILENCE_S = 15.0  # after which a runner that says nothing, asked every third of it, is taken for gone
OUTGOING_MAX_BYTES = 16 << 20  # said to a runner and not taken yet

log = structlog.get_logger()


async def runner(websocket: WebSocket) -> None:
    """``/api/v1/runner``: messages of ``scrubjay.wire.messages`` as MessagePack."""
    tower = tower_of(websocket)
    await websocket.accept()
    outgoing, dismissal = _Outgoing(), _Dismissal()

    def send(message: FromServer) -> None:
        if not outgoing.put(message):
            dismissal.give(f"it has not taken {OUTGOING_MAX_BYTES >> 20} MiB that were said to it")

    try:
        async with asyncio.timeout(HELLO_WITHIN_S):
            hello = decode_from_runner(await websocket.receive_bytes())
        if not isinstance(hello, Hello):
            raise BadMessage("the first word of a runner is hello")
        peer = Peer(tower, hello, send, lambda: dismissal.give("another connection took over, or the server ends"))
        await gate_of(websocket).credentials.bind_runner(principal_of(websocket), peer.id)
    except (PeerRefused, BadId, TokenBound) as error:
        log.warning("runner.refused", principal=principal_of(websocket).id, reason=str(error))
        hint = error.hint if isinstance(error, ScrubjayError) else None
        reason = str(error) if hint is None else f"{error}; {hint}"
        with suppress(WebSocketDisconnect):
            await websocket.send_bytes(encode(Refused(reason=reason)))
        await close_quietly(websocket, UNFIT, str(error)[:100])
        return
    except CatalogError:
        await close_quietly(websocket, 1013, "the catalog cannot be used now: come back")
        return
    except (BadMessage, KeyError, TimeoutError, WebSocketDisconnect) as error:
        await close_quietly(websocket, 1007, str(error)[:100])
        return
    reason = "its connection ended"
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(peer.run())
            tasks.create_task(_send(websocket, outgoing))
            tasks.create_task(dismissal.heed())
            await _hear(websocket, peer)
    except* _Lost as group:
        reason = str(group.exceptions[0])
        hang_up(websocket)
    except* (WebSocketDisconnect, BadMessage, BadId, KeyError, RuntimeError) as group:
        log.info("runner.connection_ended", runner=peer.id, errors=[str(error) for error in group.exceptions])
    finally:
        peer.end()
        await tower.farewell(peer, reason)
        await close_quietly(websocket, 1000, reason)


class _Lost(Exception):
    """Nobody is on the other side any more, and why that is believed."""


async def _hear(websocket: WebSocket, peer: Peer) -> None:
    while True:
        for _ in range(3):
            try:
                async with asyncio.timeout(SILENCE_S / 3):
                    data = await websocket.receive_bytes()
                break
            except TimeoutError:
                peer.ping()
        else:
            raise _Lost(f"it said nothing for {SILENCE_S:g} s")
        peer.hear(decode_from_runner(data))


async def _send(websocket: WebSocket, outgoing: _Outgoing) -> None:
    while True:
        await websocket.send_bytes(await outgoing.get())


class _Outgoing:
    """What was said to a runner and not taken by its connection yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = 0

    def put(self, message: FromServer) -> bool:
        """Say something; False if there is no room. Who asks for something is told so, or that it cannot be sent."""
        data = encode(message)
        wanted = self._bytes + len(data)
        if isinstance(message, Ask) and wanted > OUTGOING_MAX_BYTES // 2:
            # The other half is for what must be said: nobody who types can use up the link.
            raise KeeperRefused("the pod's machine takes nothing more now", hint="its connection is slow: try again")
        if wanted > OUTGOING_MAX_BYTES:
            return False
        self._bytes = wanted
        self._queue.put_nowait(data)
        return True

    async def get(self) -> bytes:
        """The next message, once there is one; the one before has been taken."""
        data = await self._queue.get()
        self._bytes -= len(data)
        return data


class _Dismissal:
    """That a runner shall go, and why."""

    def __init__(self) -> None:
        self._reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def give(self, reason: str) -> None:
        """Let it go; the first reason counts."""
        if not self._reason.done():
            self._reason.set_result(reason)

    async def heed(self) -> None:
        """Raise _Lost at once, so that nothing it has said before is believed after what its next connection says."""
        raise _Lost(await self._reason)
