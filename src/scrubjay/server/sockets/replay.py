"""A recording over a WebSocket: a keyframe for each seek, and records at their pace while it plays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from math import isfinite

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from scrubjay.errors import BadInput, NotATape, ScrubjayError
from scrubjay.ids import PodId
from scrubjay.replay.frame import Frame
from scrubjay.replay.reel import Reel
from scrubjay.server.live import PodUnwatchable, encode_records
from scrubjay.server.sockets.closing import close_quietly, pod_of, tower_of
from scrubjay.server.tower import Tower, encode_frame
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record
from scrubjay.wire import viewer as wire

SPEED_MAX = 1000.0
TICK_US = 16_000  # of playing: what falls into one is sent together
BEHIND_US = 1_000_000  # of playing: a viewer that is further behind gets a keyframe
POSITION_EVERY_S = 0.25
_READ_RECORDS = 256
_SHOWN = frozenset({Kind.OUTPUT, Kind.RESIZE, Kind.MARK, Kind.GAP})


async def replay(websocket: WebSocket) -> None:
    """``/api/v1/pods/{pod}/replay``: seek, step, play and pause, as often and as fast as one likes."""
    tower = tower_of(websocket)
    pod = pod_of(websocket)
    await websocket.accept()
    audience = _Audience(websocket, tower, pod)
    try:
        async with asyncio.TaskGroup() as tasks:
            showing = tasks.create_task(audience.show())
            try:
                await audience.listen()
            finally:
                showing.cancel()
    except* (WebSocketDisconnect, WebSocketDisconnected):
        pass
    except* NotATape as group:
        await close_quietly(websocket, wire.GONE, str(group.exceptions[0])[:100])


class _Audience:
    """One who looks at one recording."""

    def __init__(self, websocket: WebSocket, tower: Tower, pod: PodId) -> None:
        self._socket, self._tower, self._pod = websocket, tower, pod
        self._wishes: asyncio.Queue[wire.FromAudience] = asyncio.Queue(maxsize=1024)
        self._frame: Frame | None = None
        self._playing: _Playing | None = None
        self._duration = 0
        self._told_at = 0.0

    async def listen(self) -> None:
        """Take wishes until it leaves."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                wish = wire.decode_from_audience(message.get("text") or "")
            except wire.BadMessage as error:
                await close_quietly(self._socket, 1007, str(error)[:100])
                return
            if self._wishes.full():
                await close_quietly(self._socket, 1008, "more was asked for than can be shown")
                return
            self._wishes.put_nowait(wish)

    async def show(self) -> None:
        """Show what is wished for."""
        await self._introduce()
        while True:
            try:
                wish = await self._next_wish()
                if wish is None:
                    await self._play_on()
                else:
                    await self._fulfil(wish)
            except (ScrubjayError, PodUnwatchable) as error:
                self._playing = None
                hint = error.hint if isinstance(error, ScrubjayError) else None
                await self._socket.send_text(wire.encode(wire.Refusal(what="replay", message=str(error), hint=hint)))

    async def _introduce(self) -> None:
        def look(reel: Reel) -> tuple[int, int | None, bool]:
            return reel.duration, reel.wall_us(0), reel.live

        self._duration, wall_us, live = await self._tower.cinema.show(self._pod, look)
        await self._socket.send_text(
            wire.encode(wire.Recording(pod=self._pod, duration=self._duration, wall_us=wall_us, live=live))
        )

    async def _next_wish(self) -> wire.FromAudience | None:
        """The next wish; of seeks that wait the last one. None when the next records are due first."""
        timeout_s = self._playing.due_s(asyncio.get_running_loop().time()) if self._playing is not None else None
        try:
            async with asyncio.timeout(timeout_s):
                wish = await self._wishes.get()
        except TimeoutError:
            return None
        while isinstance(wish, wire.Seek) and not self._wishes.empty():
            wish = self._wishes.get_nowait()  # scrubbing: nobody sees the ones in between
        return wish

    async def _fulfil(self, wish: wire.FromAudience) -> None:
        match wish:
            case wire.Seek():
                await self._seek(wish.at)
            case wire.Step():
                self._playing = None
                await self._step(forward=wish.forward)
            case wire.Pause():
                self._playing = None
                await self._tell_position()
            case wire.Play():
                if not (isfinite(wish.speed) and 0 < wish.speed <= SPEED_MAX):
                    raise BadInput(f"cannot play at {wish.speed} times", hint=f"from 0.01 to {SPEED_MAX:g} works")
                if self._frame is None:
                    await self._seek(0)
                assert self._frame is not None
                await self._begin_playing(self._frame, wish)
                await self._tell_position()

    async def _seek(self, at: int | str) -> None:
        def find(reel: Reel) -> tuple[Frame, int]:
            frame = reel.seek(at) if isinstance(at, int) else reel.show(at)[0]
            return frame, reel.duration

        frame, self._duration = await self._tower.cinema.show(self._pod, find)
        await self._put_up(frame)
        if self._playing is not None:
            await self._begin_playing(frame, self._playing.wish)
        await self._tell_position(at if isinstance(at, int) else None)

    async def _step(self, *, forward: bool) -> None:
        before = self._frame

        def find(reel: Reel) -> Frame | None:
            return reel.seek(0) if before is None else reel.step(before, forward=forward)

        frame = await self._tower.cinema.show(self._pod, find)
        if frame is not None:
            await self._put_up(frame)
        await self._tell_position()

    async def _put_up(self, frame: Frame) -> None:
        message = (await asyncio.to_thread(encode_frame, frame, history=0)).message
        self._frame = frame
        await self._socket.send_bytes(message)

    # Playing.

    async def _begin_playing(self, frame: Frame, wish: wire.Play) -> None:
        tape = await asyncio.to_thread(self._tower.open_tape, self._pod)
        self._playing = _Playing(wish, tape.records(frame.offset), frame.at, asyncio.get_running_loop().time())

    async def _play_on(self) -> None:
        playing = self._playing
        assert playing is not None
        loop = asyncio.get_running_loop()
        if playing.behind_us(loop.time()) > BEHIND_US:
            await self._catch_up(playing)
            return
        records, over = await asyncio.to_thread(playing.take, loop.time())
        for message in encode_records([record for record in records if record.kind in _SHOWN]):
            if isinstance(message, bytes):
                await self._socket.send_bytes(message)
            else:
                await self._socket.send_text(message)
        if over:
            self._playing = None
            await self._stand_at_end()
        elif loop.time() - self._told_at >= POSITION_EVERY_S:
            await self._tell_position(playing.at(loop.time()), offset=playing.offset)

    async def _stand_at_end(self) -> None:
        """The screen after everything, to step back from."""
        self._frame, self._duration = await self._tower.cinema.show(
            self._pod, lambda reel: (reel.seek(reel.duration), reel.duration)
        )
        await self._tell_position()

    async def _catch_up(self, playing: _Playing) -> None:
        """More is shown than can be sent at this speed: go on from a keyframe."""
        at = playing.at(asyncio.get_running_loop().time())
        frame = await self._tower.cinema.show(self._pod, lambda reel: reel.seek(at))
        await self._put_up(frame)
        await self._begin_playing(frame, playing.wish)

    async def _tell_position(self, at: int | None = None, *, offset: int | None = None) -> None:
        self._told_at = asyncio.get_running_loop().time()
        frame = self._frame
        if frame is None:
            return
        shown = frame.at if at is None else at
        wall_us = None if frame.wall_us is None else frame.wall_us + shown - frame.at
        playing = self._playing
        await self._socket.send_text(
            wire.encode(
                wire.Position(
                    at=shown,
                    offset=frame.offset if offset is None else offset,
                    wall_us=wall_us,
                    playing=playing is not None,
                    speed=playing.wish.speed if playing is not None else 1.0,
                )
            )
        )


class _Playing:
    """Records and when each is due."""

    def __init__(self, wish: wire.Play, records: Iterator[Record], at: int, now_s: float) -> None:
        self.wish = wish
        self.offset = 0
        self._records = records
        self._ahead: list[Record] = []
        self._base_at, self._base_s = at, now_s
        self._idle_us = None if wish.idle_limit_s is None else max(0, int(wish.idle_limit_s * 1e6))
        self._last_at = at

    def at(self, now_s: float) -> int:
        """The instant that is due now."""
        return int(self._base_at + (now_s - self._base_s) * 1e6 * self.wish.speed)

    def due_s(self, now_s: float) -> float:
        """How long until the next records are due."""
        if not self._ahead:
            return 0.0
        self._shorten_pause(self._ahead[0])
        return max(0.0, (self._ahead[0].at - self.at(now_s)) / 1e6 / self.wish.speed)

    def behind_us(self, now_s: float) -> float:
        """How long the next records have been due, on the viewer's clock."""
        return (self.at(now_s) - self._ahead[0].at) / self.wish.speed if self._ahead else 0.0

    def take(self, now_s: float) -> tuple[list[Record], bool]:
        """The records that are due by the end of this tick, and whether they are the last; reads from a disk."""
        due = self.at(now_s) + int(TICK_US * self.wish.speed)
        taken: list[Record] = []
        while self._ahead or self._fill():
            if self._ahead[0].at > due:
                break
            record = self._ahead.pop(0)
            self._last_at, self.offset = record.at, record.end
            taken.append(record)
        return taken, not self._ahead

    def _fill(self) -> bool:
        self._ahead = list(islice(self._records, _READ_RECORDS))
        return bool(self._ahead)

    def _shorten_pause(self, following: Record) -> None:
        pause = following.at - self._last_at
        if self._idle_us is not None and pause > self._idle_us:
            self._base_at += pause - self._idle_us
            self._last_at = following.at - self._idle_us
