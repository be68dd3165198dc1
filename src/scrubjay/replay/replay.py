"""One tape at any instant: seek, step, play.

The nearest keyframe before an instant, and what was shown since, fed to the engine: what a seek costs does not
grow with the tape. Not safe for threads: one Replay is one terminal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import NamedTuple

from scrubjay.replay.frame import Frame
from scrubjay.replay.indexer import (
    APART_BYTES,
    APART_US,
    ENGINE_FAILED,
    FEED_BYTES,
    KEYFRAME_MAX_BYTES,
    Indexer,
    as_text,
)
from scrubjay.replay.keyframes import Hole, Keyframe, Keyframes
from scrubjay.replay.workers import EngineRefused, Workers, WorkerTerminal
from scrubjay.screen.picture import DEFAULT_SIZE
from scrubjay.screen.snapshot import read_size
from scrubjay.tape.format import HEADER_BYTES, RECORD_OVERHEAD_BYTES, Kind, Skimmed
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record, decode_json

NEAR_BYTES = 4 << 20  # of tape that may be fed without keyframes; more is worth making some on the way
MOMENT_US = 40_000  # what is shown within it is one change to a person
_GAP_US = 10_000  # a pause that ends a change
_NEXT_BYTES = 64 << 10
_TAIL_BYTES = 1 << 20  # of a tape, in which its last record is found

Progress = Callable[[int, int], None]  # bytes done and of how many


class Replay:
    """A tape, and the place in it that is on the screen."""

    def __init__(
        self, tape: Tape, keyframes: Keyframes, workers: Workers, *, progress: Progress = lambda _done, _all: None
    ) -> None:
        """``progress`` is told when a seek takes long because keyframes must be made first."""
        self.tape = tape
        self._keyframes = keyframes
        self._workers = workers
        self._progress = progress
        self._terminal = WorkerTerminal(workers, *DEFAULT_SIZE)
        self._offset: int | None = None  # of the record after what is on the screen; None if that is no record's end
        self._at = 0
        self._has_scrollback = True  # or what scrolls off is gone
        self._restored = 0  # where the keyframe was that it went on from
        self._shown_end = 0  # after the last output that is on the screen
        self._size = DEFAULT_SIZE
        self._reading: _Reading | None = None
        self.slow = False  #: whether there was no keyframe where one was needed
        self.refresh()
        if keyframes.small:
            self.index()

    def refresh(self) -> None:
        """Take in what was recorded since."""
        self._covered = self._keyframes.covered()
        self._holes = self._covered.holes
        self.duration = self._last_at()  #: microseconds up to the last record
        self._clocks = self._covered.clocks or self._head_clock()

    def _last_at(self) -> int:
        at = self._covered.at
        start = max(self._covered.offset, self.tape.end - _TAIL_BYTES)
        if start < self.tape.end:
            offset = start if start == self._covered.offset else self.tape.align(start)
            for record in self.tape.records(offset):
                at = max(at, record.at)
        return at

    def _head_clock(self) -> list[tuple[int, int]]:
        for record in self.tape.records():
            wall = record.json().get("wall") if record.kind == Kind.HEAD else None
            return [(record.at, wall)] if isinstance(wall, int) else []
        return []

    def wall_us(self, at: int) -> int | None:
        """The wall clock at an instant; None if the tape does not say."""
        number = bisect_right(self._clocks, at, key=lambda clock: clock[0]) - 1
        if not self._clocks:
            return None
        then, wall = self._clocks[max(0, number)]
        return wall + at - then

    @property
    def clocks(self) -> list[tuple[int, int]]:
        """At and wall clock, wherever the latter was set anew."""
        return self._clocks

    @property
    def indexed(self) -> bool:
        """Whether keyframes reach close to the end."""
        return self.tape.end - self._covered.offset < NEAR_BYTES

    def index(self, until: int | None = None) -> None:
        """Make the keyframes that are missing, up to an instant or the end."""
        total = self.tape.end - self._covered.offset
        done = 0

        def tell(count: int) -> None:
            nonlocal done
            done += count
            self._progress(done, total)

        Indexer(self.tape, self._workers, self._keyframes).run(until=until, progress=tell)
        self.refresh()

    def close(self) -> None:
        """Free the terminal."""
        self._terminal.close()

    def seek(self, at: int, *, history: int = 0) -> Frame:
        """The screen after everything up to ``at``; before the first and after the last record those stand."""
        self._come_near(at)
        frame = self._keyframes.nearest(at, whole=history > 0)
        if not self._is_on_the_way(frame, self._at <= at, history):
            self._restore(frame, scrollback=history > 0)
        if not self._advance(at=at):
            self._restore(self._keyframes.nearest(at, whole=True), scrollback=True)
            self._advance(at=at)
        return self._frame(history)

    def seek_offset(self, offset: int, *, history: int = 0) -> Frame:
        """The screen after the bytes of the tape up to ``offset``, be it in the middle of a record."""
        self._come_near_offset(offset)
        if history or not self._is_next(offset):
            frame = self._keyframes.nearest_offset(offset, whole=history > 0)
            if not self._is_on_the_way(frame, self._offset is not None and self._offset <= offset, history):
                self._restore(frame, scrollback=history > 0)
        if not self._advance(offset=offset):
            self._restore(self._keyframes.nearest_offset(offset, whole=True), scrollback=True)
            self._advance(offset=offset)
        return self._frame(history)

    def _come_near(self, at: int) -> None:
        if at > self._covered.at and not self.indexed:
            self.slow = True
            self.index(min(at, self.duration))

    def _come_near_offset(self, offset: int) -> None:
        if offset - self._covered.offset > NEAR_BYTES:
            self.slow = True
            self.index()

    def _is_next(self, offset: int) -> bool:
        """Whether a place is so close behind what is on the screen that no keyframe is worth looking for."""
        return self._offset is not None and self._offset <= offset <= min(
            self._offset + _NEXT_BYTES, self._restored + KEYFRAME_MAX_BYTES
        )

    def _is_on_the_way(self, frame: Keyframe | None, ahead: bool, history: int) -> bool:  # noqa: FBT001
        """Whether to go on from what is on the screen rather than from a keyframe."""
        if self._offset is None or not ahead or history:
            return False
        return frame is None or frame.offset <= self._offset

    def _restore(self, frame: Keyframe | None, *, scrollback: bool) -> None:
        self._has_scrollback = scrollback or frame is None
        if frame is None:
            self._offset, self._at, self._restored, self._shown_end = 0, 0, 0, 0
            self._size = DEFAULT_SIZE
            self._terminal.begin(*DEFAULT_SIZE)
        else:
            self._offset, self._at = frame.offset, frame.at
            self._size = read_size(frame.snapshot)
            self._restored = self._shown_end = frame.offset
            self._terminal.restore(frame.snapshot, offset=frame.offset, scrollback=scrollback)

    def _advance(self, *, at: int | None = None, offset: int | None = None) -> bool:
        """Feed the records up to an instant, or the bytes up to an offset.

        False at a resize that needs what scrolled off before, because lines are rewrapped, where there is none of it.
        """
        assert self._offset is not None
        shown = _Shown(self._terminal)
        position = self._offset
        held, rest = self._read_on(position)
        self._reading = None
        for item in chain(held, rest):
            if isinstance(item, Damage):
                continue
            kind, then, payload, end = item
            if at is not None and then > at:
                self._reading = _Reading(position, item, rest)
                break
            if offset is not None and end > offset:
                part = offset - (end - len(payload) - (RECORD_OVERHEAD_BYTES - HEADER_BYTES))
                if kind == Kind.OUTPUT and part > 0:
                    self._shown_end = offset
                    shown.add(payload[:part], offset)
                    shown.flush()
                    self._at, self._offset = then, None
                    return True
                self._reading = _Reading(position, item, rest)
                break
            if kind == Kind.OUTPUT:
                if then - self._at >= APART_US:
                    shown.part()
                shown.add(payload, end)
                self._shown_end = end
            elif kind in (Kind.RESIZE, Kind.HEAD):
                shown.flush()
                if not self._take_size(kind, payload, end):
                    return False
            position, self._at = end, then
        shown.flush()
        self._offset = position
        return True

    def _read_on(self, offset: int) -> tuple[Sequence[Skimmed | Damage], Iterator[Skimmed | Damage]]:
        """What is on the tape from an offset: where the last walk stopped, what it had come to and the rest of it."""
        last = self._reading
        return ([last.item], last.rest) if last is not None and last.offset == offset else ([], self.tape.skim(offset))

    def _take_size(self, kind: int, payload: bytes, end: int) -> bool:
        if kind == Kind.RESIZE:
            self._size = Record(0, kind, 0, payload, 0).size()
            if self._has_scrollback:
                self._terminal.resize(*self._size, offset=end)
                return True
            frame = self._keyframes.nearest_offset(end)
            if frame is None or frame.offset != end:
                return False  # the engine could not say there what it would need to go on
            self._terminal.restore(frame.snapshot, offset=end, scrollback=False)
            return True
        head = decode_json(payload)
        cols, rows = head.get("cols"), head.get("rows")
        if isinstance(cols, int) and isinstance(rows, int):
            self._size = cols, rows
            self._terminal.begin(cols, rows, offset=end)
            self._has_scrollback = True
        return True

    def _frame(self, history: int) -> Frame:
        """What is on the screen."""
        # Between two records the place is the end of the one before.
        offset = self._offset if self._offset is not None else self._terminal.offset
        snapshot, text, trouble = b"", "", None
        try:
            snapshot = self._terminal.snapshot(history=history > 0)
            if not snapshot:
                text = self._terminal.text()
        except EngineRefused as error:
            trouble = str(error)
        holes = self._holes + [Hole(left.start, left.stop, ENGINE_FAILED) for left in self._terminal.left_out]
        # What was recorded after a hole and shows nothing does not make the screen there again.
        inside = next((hole for hole in holes if hole.start < self._shown_end <= hole.stop), None)
        before = next((hole for hole in reversed(holes) if hole.stop < self._shown_end), None)
        return Frame(
            tape=self.tape.id,
            at=self._at,
            offset=offset,
            time=self._at,
            wall_us=self.wall_us(self._at),
            cols=self._size[0],
            rows=self._size[1],
            snapshot=snapshot,
            text=text,
            history=history,
            unavailable=trouble or (inside.why if inside is not None else None),
            doubtful=f"{before.why} (before offset {before.stop})" if before is not None else None,
        )

    def step(self, frame: Frame, *, forward: bool) -> Frame | None:
        """The next or the previous screen that looks different; None if there is none."""
        return self._step_forward(frame) if forward else self._step_back(frame)

    def _step_forward(self, frame: Frame) -> Frame | None:
        for end, _ in self._moments(frame.offset, MOMENT_US):
            after = self.seek_offset(end)
            if looks_different(frame, after):
                return after
        return None

    def _step_back(self, frame: Frame) -> Frame | None:
        stop = frame.offset
        while stop > 0:
            start = self._keyframes.nearest_offset(stop - 1)
            first = start.offset if start is not None else 0
            ends = [end for end, _ in self._moments(first, MOMENT_US) if end < stop] if first < stop else []
            # What the keyframe itself shows comes before the first moment after it.
            for end in [*reversed(ends), *([first] if first else [])]:
                before = self.seek_offset(end)
                if looks_different(frame, before):
                    return before
            if not first:
                break
            stop = first
        empty = self.seek(0)
        return empty if empty.offset < frame.offset and looks_different(frame, empty) else None

    def _moments(self, offset: int, within_us: int) -> Iterator[tuple[int, int]]:
        """Offset and at of where each change of the screen is complete, from ``offset`` on."""
        began: int | None = None
        end = last = 0
        for item in self.tape.skim(self._record_end(offset)):
            if isinstance(item, Damage) or item[0] not in (Kind.OUTPUT, Kind.RESIZE):
                continue
            _, at, _, after = item
            if began is not None and (at - began >= within_us or at - last >= _GAP_US):
                yield end, last
                began = None
            began = at if began is None else began
            end, last = after, at
        if began is not None:
            yield end, last

    def _record_end(self, offset: int) -> int:
        """Where the record that ``offset`` may lie in ends."""
        frame = self._keyframes.nearest_offset(offset)
        end = frame.offset if frame is not None else 0
        for item in self.tape.skim(end):
            if end >= offset:
                break
            end = item.end if isinstance(item, Damage) else item[3]
        return end

    def frames(self, start: int, stop: int, *, every_us: int = MOMENT_US) -> Iterator[Frame]:
        """The screen at ``start``, then each that looks different up to ``stop``, at most one per ``every_us``."""
        last = self.seek(start)
        yield replace(last, at=start, time=start, wall_us=self.wall_us(start))
        for end, at in self._moments(last.offset, every_us):
            if at > stop:
                return
            after = self.seek_offset(end)
            if looks_different(last, after):
                yield after
                last = after

    def play(
        self, start: int, *, speed: float = 1.0, idle_limit_us: int | None = None
    ) -> Iterator[tuple[float, Frame]]:
        """Frames from ``start`` on, each with the seconds to wait before it is shown."""
        first = True
        for last, frame in pairwise([None, *self.frames(start, self.duration)]):
            assert frame is not None
            pause = 0 if first or last is None else frame.at - last.at
            first = False
            if idle_limit_us is not None:
                pause = min(pause, idle_limit_us)
            yield pause / 1e6 / speed, frame

    def marks(self) -> list[tuple[int, str, str]]:
        """At, label and author of each mark, those after the keyframes too."""
        found = list(self._covered.marks)
        for record in self.tape.records(self._covered.offset):
            if record.kind == Kind.MARK:
                mark = record.json()
                found.append((record.at, as_text(mark.get("label")), as_text(mark.get("author"))))
        return found

    def next_mark(self, at: int) -> int | None:
        """The instant of the first mark after ``at``."""
        return next((mark[0] for mark in self.marks() if mark[0] > at), None)

    def activity(self) -> tuple[int, list[int]]:
        """How much was shown in equal parts of the tape, as far as keyframes reach, and how long a part is."""
        return self._covered.activity.width_us, self._covered.activity.counts

    def idle(self) -> list[tuple[int, int]]:
        """Stretches in which nothing was shown."""
        return self._covered.idle


class _Reading(NamedTuple):
    """A walk over a tape that stopped before an item."""

    offset: int
    item: Skimmed | Damage
    rest: Iterator[Skimmed | Damage]


class _Shown:
    """Output that gathers on its way to a terminal."""

    def __init__(self, terminal: WorkerTerminal) -> None:
        self._terminal = terminal
        self._parts: list[tuple[bytes, int]] = []
        self._gathered: list[bytes] = []
        self._bytes = self._end = 0

    def add(self, data: bytes, end: int) -> None:
        """More of it, up to an offset of the tape."""
        self._gathered.append(data)
        self._bytes += len(data)
        self._end = end
        if self._bytes >= FEED_BYTES:
            self.flush()

    def part(self) -> None:
        """What comes now comes after a pause: if it crashes the engine, what came before shall be there."""
        if self._bytes >= APART_BYTES:
            self._parts.append((b"".join(self._gathered), self._end))
            self._gathered = []
            self._bytes = 0

    def flush(self) -> None:
        """Let the terminal have it."""
        if self._gathered:
            self._parts.append((b"".join(self._gathered), self._end))
        if self._parts:
            self._terminal.feed_parts(self._parts)
        self._parts, self._gathered, self._bytes = [], [], 0


def looks_different(one: Frame, other: Frame) -> bool:
    """Whether a person could tell two screens apart."""
    if one.snapshot and one.snapshot == other.snapshot:
        return False
    a, b = one.picture, other.picture
    return (a.lines, a.cursor, a.cols, a.rows, a.palette) != (b.lines, b.cursor, b.cols, b.rows, b.palette)
