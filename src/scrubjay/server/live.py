"""The present of one pod, for any number of viewers.

There is no queue per viewer: each has a cursor, an offset of the tape, and is sent what lies between it and the end
as soon as it takes it. One that falls too far behind is given a keyframe. So a slow viewer costs what its connection
holds, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scrubjay.ids import PodId
from scrubjay.server.direct import encode_ws_frame
from scrubjay.tape.format import BadRecord, Kind
from scrubjay.tape.record import Record
from scrubjay.tape.stream import RecordStream
from scrubjay.wire import viewer as wire

TICK_S = 0.016  # output of a busy pod is sent so often
SMALL_BYTES = 1024  # within a tick: an echo, which is sent at once
SMALL_SENDS = 8
KEPT_BYTES = 1 << 20  # of the newest output, while somebody looks
UNWATCHED_BYTES = 64 << 10
BEHIND_BYTES = 256 << 10  # a viewer that is further behind gets a keyframe, which is smaller
FRAME_MAX_BYTES = 128 << 10
REUSE_BYTES = 32 << 10  # after a keyframe within which another viewer is given the same one

_SHOWN = frozenset({Kind.OUTPUT, Kind.RESIZE, Kind.MARK, Kind.GAP})


@dataclass(frozen=True, slots=True)
class LiveKeyframe:
    """A screen to begin with, ready to be sent."""

    offset: int
    message: bytes


class PodUnwatchable(Exception):
    """There is no live screen of this pod now."""


class LivePod:
    """The newest part of one pod's tape, and who waits for more."""

    def __init__(self, pod: PodId, take_keyframe: Callable[[], Awaitable[LiveKeyframe]]) -> None:
        self.pod = pod
        self.viewers = 0
        self.resyncs = 0
        self._take_keyframe = take_keyframe
        self._raw: deque[tuple[int, bytes]] = deque()  # while nobody looks: bytes as they came, with their offsets
        self._raw_bytes = 0
        self._stream: RecordStream | None = None  # while somebody does
        self._records: list[Record] = []
        self._ends: list[int] = []
        self._kept_bytes = 0
        self._first = 0  # viewers whose cursor is before this have missed something
        self.end = 0  #: after the last record, or byte, that has come
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._batches: dict[int, tuple[int, list[bytes]]] = {}
        self._keyframe: LiveKeyframe | None = None
        self._taking: asyncio.Task[LiveKeyframe] | None = None
        self._tick_began = 0.0
        self._tick_bytes = self._tick_sends = 0
        self._tick: asyncio.TimerHandle | None = None

    # What comes from the runner.

    def show(self, offset: int, data: bytes, *, jump: bool = False) -> None:
        """Bytes of the tape from an offset on; with ``jump``, or where they do not follow, everybody begins anew."""
        if jump or (offset > self.end and self.end):
            self._begin_anew(offset)
        elif offset + len(data) <= self.end:
            return
        if self._stream is None:
            self._keep_raw(offset, data)
        else:
            self._decode(offset, data)
        self.end = offset + len(data)
        if self._waiting:
            self._wake_soon(len(data))

    def rewind(self, offset: int) -> None:
        """What was shown beyond an offset may have been lost with the runner: whoever looks begins anew."""
        if self.end > offset:
            self.show(offset, b"", jump=True)

    def _keep_raw(self, offset: int, data: bytes) -> None:
        self._raw.append((offset, data))
        self._raw_bytes += len(data)
        limit = KEPT_BYTES if self.viewers else UNWATCHED_BYTES
        while self._raw_bytes - len(self._raw[0][1]) > limit:
            self._raw_bytes -= len(self._raw.popleft()[1])

    def _decode(self, offset: int, data: bytes) -> bool:
        """Take records out of what came; False if there are none, and everybody begins anew."""
        assert self._stream is not None
        wanted = self._stream.wanted
        if offset + len(data) <= wanted:
            return True
        try:
            records = self._stream.feed(data[wanted - offset :] if offset < wanted else data)
        except BadRecord:
            self._begin_anew(offset + len(data))
            return False
        for record in records:
            if record.kind in _SHOWN:
                self._records.append(record)
                self._ends.append(record.end)
                self._kept_bytes += len(record.payload)
        if records:
            self._batches.clear()
        if self._kept_bytes > KEPT_BYTES * 5 // 4:
            self._drop_old()
        return True

    def _drop_old(self) -> None:
        count = 0
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._records[count].payload)
            count += 1
        self._first = self._ends[count - 1]
        del self._records[:count]
        del self._ends[:count]

    def _begin_anew(self, offset: int) -> None:
        """Go on from an offset that does not follow; who looks gets a keyframe."""
        self._raw.clear()
        self._raw_bytes = 0
        self._forget_records(offset)

    def _forget_records(self, offset: int) -> None:
        self._stream = None
        self._records.clear()
        self._ends.clear()
        self._kept_bytes = 0
        self._first = offset
        self._keyframe = None
        self._batches.clear()

    # Waking those who wait, at once for an echo and once per tick for a flood.

    def _wake_soon(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._tick_began >= TICK_S:
            self._tick_began, self._tick_bytes, self._tick_sends = now, 0, 0
        self._tick_bytes += size
        self._tick_sends += 1
        if self._tick_bytes <= SMALL_BYTES and self._tick_sends <= SMALL_SENDS:
            self._offer()
        elif self._tick is None:
            self._tick = loop.call_at(self._tick_began + TICK_S, self._wake_on_tick)

    def _wake_on_tick(self) -> None:
        self._tick = None
        self._tick_began, self._tick_bytes, self._tick_sends = asyncio.get_running_loop().time(), SMALL_BYTES, 0
        self._offer()

    def _offer(self) -> None:
        """Let everybody who waits take what is new at once, or look."""
        for future, take in list(self._waiting.items()):
            if not take():
                del self._waiting[future]
                if not future.done():
                    future.set_result(None)

    def wake(self) -> None:
        """Let everybody who waits look."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, cursor: int, take: Callable[[], bool]) -> None:
        """Return when there may be something after a cursor that ``take``, called for all that is new, does not."""
        if self._stream is None or cursor < self._first or (self._ends and self._ends[-1] > cursor):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = take
        try:
            await future
        finally:
            self._waiting.pop(future, None)  # who leaves is not woken, for ever perhaps

    # What viewers ask.

    def enter(self) -> None:
        """Somebody begins to look."""
        self.viewers += 1

    def leave(self) -> None:
        """Somebody has looked enough."""
        self.viewers -= 1
        if not self.viewers:
            self._begin_anew(self.end)

    def since(self, cursor: int, *, catching_up: bool) -> tuple[int, list[bytes]] | None:
        """Where the next cursor is and the frames up to it, ready to be sent to anybody; None if a keyframe is due.

        Who is ``catching_up`` has just been given one, and takes what came meanwhile, a portion at a time: while a
        busy pod's screen is drawn more may come than anybody else is allowed to be behind.
        """
        if self._stream is None or cursor < self._first:
            return None
        start = bisect_right(self._ends, cursor)
        if start == len(self._ends):
            return cursor, []
        known = self._batches.get(cursor)
        if known is None:
            known = self._batches[cursor] = self._batch(start)
        return known if catching_up or known[0] == self._ends[-1] else None

    def _batch(self, start: int) -> tuple[int, list[bytes]]:
        """A portion of the records from one on, and where it ends."""
        stop, size = start, 0
        while stop < len(self._records) and size <= BEHIND_BYTES:
            size += len(self._records[stop].payload)
            stop += 1
        messages = encode_records(self._records[start:stop])
        return self._ends[stop - 1], [encode_ws_frame(message) for message in messages]

    async def keyframe(self) -> LiveKeyframe:
        """The screen to begin with; a recent one is given to all. PodUnwatchable if there is none."""
        known = self._keyframe
        if known is not None and self._first <= known.offset and self.end - known.offset <= REUSE_BYTES:
            return known
        if self._taking is None:
            self._taking = asyncio.create_task(self._take())
            self._taking.add_done_callback(_heed)
        return await asyncio.shield(self._taking)

    async def _take(self) -> LiveKeyframe:
        try:
            for _ in range(4):
                frame = await self._take_keyframe()
                if self._begin_at(frame.offset):
                    self._keyframe = frame
                    return frame
                await asyncio.sleep(TICK_S)
            raise PodUnwatchable("more is shown than can be followed")
        finally:
            self._taking = None

    def _begin_at(self, offset: int) -> bool:
        """Have records from an offset on; False if what came after it is gone."""
        if self._stream is not None:
            return self._first <= offset
        if offset < (self._raw[0][0] if self._raw else self.end):
            return False
        self._stream = RecordStream(self.pod, offset)
        self._first = offset
        raw = list(self._raw)
        self._raw.clear()
        self._raw_bytes = 0
        return all(self._decode(start, data) for start, data in raw)


def _heed(taking: asyncio.Task[LiveKeyframe]) -> None:
    """Take note of why there is no keyframe: every viewer that asked may have left by now."""
    if not taking.cancelled():
        taking.exception()


def encode_records(records: list[Record]) -> list[str | bytes]:
    """Records as messages: output that follows one another in one, up to a limit."""
    messages: list[str | bytes] = []
    parts: list[bytes] = []
    size = 0
    last: Record | None = None

    def flush() -> None:
        nonlocal size
        if last is not None and parts:
            messages.append(wire.encode_screen(wire.OUTPUT, b"".join(parts), offset=last.end, at=last.at))
        parts.clear()
        size = 0

    for record in records:
        if record.kind == Kind.OUTPUT:
            if size + len(record.payload) > FRAME_MAX_BYTES:
                flush()
            parts.append(record.payload)
            size += len(record.payload)
            last = record
            continue
        flush()
        messages.append(_encode_other(record))
    flush()
    return messages


def _encode_other(record: Record) -> str:
    if record.kind == Kind.RESIZE:
        cols, rows = record.size()
        return wire.encode(wire.Resized(cols=cols, rows=rows, offset=record.end, at=record.at))
    facts = record.json()
    if record.kind == Kind.MARK:
        label, author = str(facts.get("label", "")), str(facts.get("author", ""))
        return wire.encode(wire.Marked(label=label, author=author, offset=record.end, at=record.at))
    reason = str(facts.get("reason", "unknown"))
    return wire.encode(wire.Missing(reason=reason, offset=record.end, at=record.at))
