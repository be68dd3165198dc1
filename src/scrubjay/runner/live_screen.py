"""The screen of one running pod, kept up with its tape.

What it is fed has an offset in the tape, and so has everything it tells: a reply belongs to the end of the record that
asked, however records were put together on the way. So whoever feeds the same tape again gives the same replies the
same offsets, and none needs to be typed twice. Not safe for threads: a lane has it to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scrubjay.errors import EngineUnavailable, NotATape, ScreenUnavailable
from scrubjay.ids import PodId
from scrubjay.pods.status_file import StatusFile
from scrubjay.replay.keyframes import Keyframe, open_keyframes
from scrubjay.replay.workers import EngineRefused, Workers, WorkerTerminal
from scrubjay.screen.engine import Effect
from scrubjay.screen.glance import Glance
from scrubjay.screen.picture import DEFAULT_SIZE
from scrubjay.screen.queries import CallWatch
from scrubjay.screen.snapshot import read_size
from scrubjay.status.detector import Detector
from scrubjay.status.rows import decode_change, encode_change
from scrubjay.status.rules import Rules
from scrubjay.status.watching import Change, Watching
from scrubjay.tape.format import Kind, Skimmed
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Json, Record, decode_json

WAITING_MAX_BYTES = 4 << 20  # of records that cannot be fed yet; beyond, they are read from the tape again
SLICE_BYTES = 1 << 20  # read from a tape before other screens of the lane have their turn
CHECKPOINT_BYTES = 1 << 20  # fed since one, after which another is taken: what a worker that died costs
CHECKPOINT_MAX_BYTES = 16 << 20  # after which one is taken even if it is not exact
_CHECKPOINT_AGAIN_BYTES = 256 << 10
_FAST = 8  # times as far apart while a tape is caught up with, when they would take half the time
RESTARTS_MAX, RESTARTS_S = 3, 60.0  # of its worker within a while; more would only take the time of the others
REST_S = 10.0  # for which a screen that the engine keeps failing on is let alone
_WATCH_AGAIN_BYTES = 8 << 20  # before the end; what happened earlier is not looked for again
_LASTING = frozenset({"title", "cwd", "progress", "unknown"})  # the last of each holds until the next


@dataclass(frozen=True, slots=True)
class Heard:
    """What output did besides drawing, up to an offset of the tape."""

    offset: int
    at: int  #: of the record that ends there
    replies: bytes  #: to be typed as the terminal's answer; empty if nothing was asked
    effects: tuple[Effect, ...]  #: titles, notifications, bells, progress and so on, in order


@dataclass(frozen=True, slots=True)
class LiveKeyframe:
    """The screen after everything that was fed, and what follows it goes on from there."""

    offset: int
    at: int
    cols: int
    rows: int
    snapshot: bytes
    doubtful: str | None  #: why it may differ from what the agent drew


class LiveScreen:
    """One pod's terminal."""

    def __init__(
        self,
        pod: PodId,
        tape: Tape,
        folder: Path,
        *,
        answer_from: int,
        rules: Rules,
        heard: Callable[[PodId, Heard], None],
        changed: Callable[[PodId, Json], None],
    ) -> None:
        """``folder`` is the pod's, with the tape's keyframes and its statuses so far; replies to what was asked up to
        ``answer_from`` are dropped. ``changed`` is told of each status by which the pod's file of them grows."""
        self.pod = pod
        self.offset = 0  #: of the tape, after what was fed
        self._tape, self._folder = tape, folder
        self._answer_from, self._heard = answer_from, heard
        self._at = 0
        self._size = DEFAULT_SIZE
        self._terminal: WorkerTerminal | None = None
        self._parts: list[tuple[bytes, int]] = []
        self._calls = CallWatch()
        self._goal = 0  # up to where the tape must be read before what was fed follows
        self._reading: Iterator[Skimmed | Damage] | None = None
        self._given_up = 0  # what there is no more to be read of before
        self._waiting: list[Record] = []  # for the goal to be reached
        self._past = True  # whether what is fed is only to be drawn
        self._before: dict[tuple[str, bytes], Effect] = {}  # what was told in the past and still holds
        self._since_checkpoint = 0
        self._checkpoint_due = CHECKPOINT_BYTES
        self._doubtful: str | None = None
        self._unavailable: str | None = None
        self._rest_until = 0.0
        self._restarts: list[float] = []
        self._known_restarts = 0
        self._last: tuple[bool, LiveKeyframe] | None = None
        self._statuses, self._changed = StatusFile(folder), changed
        self._watching = Watching(Detector(rules), glance=self._glance, changed=self._note_status)
        self._watch_from = 0  # what is before has been watched
        # When the tape did, by the monotonic clock. Of a silent one that was found it is later than the truth, never
        # earlier: what waits for time to pass waits for it from here on, and no record comes from the past.
        self._began_s = time.monotonic()

    def begin(self, workers: Workers) -> None:
        """Stand at the nearest keyframe; ``work`` goes on to the end of the tape from there."""
        terminal = self._terminal = WorkerTerminal(workers, *DEFAULT_SIZE)
        terminal.listen(answering=True)
        try:
            self._goal = self._tape.end
            known = decode_change(self._statuses.last() or {})
            frame = self._nearest(workers, known)
            if frame is not None:
                self.offset, self._at, self._size = frame.offset, frame.at, read_size(frame.snapshot)
                terminal.restore(frame.snapshot, offset=frame.offset)
            self._watch_from = self.offset
            if self.offset > (known.offset if known is not None else 0):
                self._statuses.note_gap(self._at, self.offset)
            if known is not None:
                self._watch_from = max(self.offset, known.offset)
                self._watching.resume(known)
            self._began_s = time.monotonic() - max(self._at, known.at if known is not None else 0) / 1e6
            terminal.effects()  # now: a worker takes longer to start than a program may wait
        except (EngineUnavailable, NotATape) as error:
            self._unavailable = str(error)
        except (EngineRefused, OSError) as error:
            self._rest(str(error))

    def _nearest(self, workers: Workers, known: Change | None) -> Keyframe | None:
        keyframes = open_keyframes(self._folder, self._tape, workers.identity)
        # Not after what is to be answered, or what was asked in between would be missed.
        start = min(self._goal, self._answer_from)
        if known is not None and known.offset > start - _WATCH_AGAIN_BYTES:
            start = min(start, known.offset)  # nor after what was last seen to happen
        try:
            return keyframes.nearest_offset(start, whole=True)
        finally:
            keyframes.close()

    def close(self) -> None:
        """Free the terminal."""
        self._reading = None
        if self._terminal is not None:
            self._terminal.close()

    # What is shown.

    def add(self, records: Sequence[Record]) -> None:
        """Records of the tape, in order; ``work`` feeds them. What was fed is ignored, what is missing is read."""
        if records:
            self._began_s = time.monotonic() - records[-1].at / 1e6
        self._waiting += records
        if self.offset < self._goal and sum([len(record.payload) for record in self._waiting]) > WAITING_MAX_BYTES:
            self.add_unread(self._waiting[-1].end)

    def add_unread(self, end: int) -> None:
        """More records than are worth being kept in memory; they are read from the tape up to here."""
        self._waiting.clear()
        self._goal = max(self._goal, end)

    def work(self) -> bool:
        """Feed what there is, but not for long; whether there is more."""
        if self._terminal is None or self._unavailable is not None:
            self._skip_all()
            return False
        try:
            return self._work()
        except (EngineRefused, OSError) as error:  # of the engine, its process, or the tape's files
            self._rest(str(error))
            return False

    def _work(self) -> bool:
        if not self._rested():
            self._skip_all()
            return False
        if self.offset < self._goal:
            self._read_slice()
            if self.offset < self._goal:
                return True
        self._end_past(self.offset)
        for number, record in enumerate(self._waiting):
            if record.end <= self.offset:
                continue
            if record.offset > self.offset:
                if record.offset > self._given_up:
                    del self._waiting[:number]
                    self._goal = record.offset
                    self._flush()
                    return True
                self._doubtful = "a part of the tape cannot be read"
            self._show(record.kind, record.at, record.payload, record.end)
        self._waiting.clear()
        self._flush()
        self._checkpoint(CHECKPOINT_BYTES)
        return False

    def _read_slice(self) -> None:
        """Feed some of the tape on the way to the goal, which is given up where there is no more of it."""
        left = SLICE_BYTES
        if self._reading is None:
            self._reading = self._tape.skim(self.offset)
        for item in self._reading:
            end = item.end if isinstance(item, Damage) else item[3]
            if end > self._goal:
                self._give_up()  # a record that is being written
                break
            if isinstance(item, Damage):
                self._doubtful = f"the tape is damaged: {item.why}"
                self.offset = end
            else:
                kind, at, payload, end = item
                self._show(kind, at, payload, end)
                left -= len(payload)
            if end == self._goal:
                self._reading = None
                break
            if left <= 0:
                break
        else:
            self._give_up()
        self._began_s = time.monotonic() - self._at / 1e6
        if self._past:
            self._ask()
        self._flush()
        self._checkpoint(_FAST * CHECKPOINT_BYTES)

    def _give_up(self) -> None:
        self._given_up, self._goal, self._reading = self._goal, self.offset, None

    def _show(self, kind: int, at: int, payload: bytes, end: int) -> None:
        assert self._terminal is not None
        self._end_past(end - 1)
        watched = end > self._watch_from
        if watched:
            self._watching.pass_time(at)
        self._last = None
        if kind == Kind.OUTPUT:
            self._parts.append((payload, end))
            self._since_checkpoint += len(payload)
            calls = self._calls.feed(payload)
        elif kind in (Kind.RESIZE, Kind.HEAD):
            self._flush()
            self._take_size(kind, payload, end)
            calls = kind == Kind.RESIZE  # there are programs that ask to be told
        else:
            calls = False
        self.offset, self._at = end, at
        if watched:
            self._watching.recorded(kind, at, payload, end)
            if kind == Kind.EXIT:
                with suppress(OSError):
                    self._statuses.note_end(at, end)
        if calls and (watched or not self._past):
            self._ask()

    def _take_size(self, kind: int, payload: bytes, end: int) -> None:
        assert self._terminal is not None
        if kind == Kind.RESIZE:
            self._size = Record(0, kind, 0, payload, 0).size()
            self._terminal.resize(*self._size, offset=end)
            return
        head = decode_json(payload)
        cols, rows = head.get("cols"), head.get("rows")
        if isinstance(cols, int) and isinstance(rows, int):
            self._size = cols, rows
            self._terminal.begin(cols, rows, offset=end)

    def _flush(self) -> None:
        if self._parts:
            assert self._terminal is not None
            parts, self._parts = self._parts, []
            self._terminal.feed_parts(parts)

    def _ask(self) -> None:
        """Tell what the output up to here did besides drawing."""
        assert self._terminal is not None
        self._flush()
        effects = self._terminal.effects()
        self._count_restarts()
        if self.offset > self._watch_from:
            self._watching.heard(effects)
        if self._past:
            for effect in effects:
                if effect.kind in _LASTING:
                    self._before[effect.kind, effect.data.partition(b";")[0] * (effect.kind == "unknown")] = effect
            return
        replies = b"".join(effect.data for effect in effects if effect.kind == "reply")
        others = tuple(effect for effect in effects if effect.kind != "reply")
        if replies or others:
            self._heard(self.pod, Heard(self.offset, self._at, replies, others))

    def _end_past(self, offset: int) -> None:
        """What comes after ``answer_from`` is the present: what was asked before is not answered, and of what was
        told only the last that still holds."""
        if not self._past or offset < self._answer_from:
            return
        self._ask()
        self._past = False
        lasting = tuple(self._before.values())
        self._before.clear()
        if lasting:
            self._heard(self.pod, Heard(self.offset, self._at, b"", lasting))

    # What the agent is doing.

    @property
    def due_s(self) -> float | None:
        """When ``tick`` is wanted, by the monotonic clock, if nothing is fed before; None if not."""
        due = self._watching.due
        if due is None or self._terminal is None or self._unavailable is not None or self._rest_until:
            return None
        return self._began_s + due / 1e6

    def tick(self) -> None:
        """Look at what is on the screen, if that is due."""
        if self._terminal is None or self._unavailable is not None or not self._rested():
            return
        try:
            self._watching.pass_time(max(self._at, int((time.monotonic() - self._began_s) * 1e6)))
        except (EngineRefused, OSError) as error:
            self._rest(str(error))

    def _glance(self) -> Glance:
        assert self._terminal is not None
        self._flush()
        return self._terminal.glance()

    def _note_status(self, change: Change) -> None:
        row = encode_change(change)
        if not self._past and self._reading is None:  # what is read from the tape was a while ago
            row["wall_us"] = time.time_ns() // 1000
        with suppress(OSError):  # a disk that is full; the tape has it all
            self._statuses.append(row)
        self._changed(self.pod, row)

    # What may go wrong.

    def _checkpoint(self, every: int) -> None:
        """Forget what was fed; another worker would go on from here."""
        if self._since_checkpoint < max(every, self._checkpoint_due):
            return
        assert self._terminal is not None
        self._ask()  # what it has to tell is not in a snapshot
        exact = self._since_checkpoint < CHECKPOINT_MAX_BYTES
        snapshot = self._terminal.snapshot(history=True, exact=exact)
        if not snapshot:
            if not exact:
                raise EngineRefused("the terminal engine cannot say what is on this screen")
            self._checkpoint_due = self._since_checkpoint + _CHECKPOINT_AGAIN_BYTES
            return
        self._terminal.checkpoint(snapshot, offset=self.offset, packed=True)
        self._since_checkpoint, self._checkpoint_due = 0, CHECKPOINT_BYTES

    def _count_restarts(self) -> None:
        assert self._terminal is not None
        if self._terminal.left_out:
            self._doubtful = "the terminal engine failed on something that was shown"
        if self._terminal.restarts == self._known_restarts:
            return
        self._known_restarts = self._terminal.restarts
        now = time.monotonic()
        self._restarts = [then for then in self._restarts if now - then < RESTARTS_S] + [now]
        if len(self._restarts) > RESTARTS_MAX:
            raise EngineRefused("the terminal engine keeps failing")

    def _rest(self, why: str) -> None:
        """Leave it alone for a while: others share the lane."""
        self._rest_until = time.monotonic() + REST_S
        self._doubtful = why
        self._restarts.clear()
        self._skip_all()

    def _rested(self) -> bool:
        if not self._rest_until:
            return True
        if time.monotonic() < self._rest_until:
            return False
        self._rest_until = 0.0
        assert self._terminal is not None
        # With an empty screen: most programs draw theirs anew before long.
        self._terminal.begin(*self._size, offset=self.offset)
        self._calls = CallWatch()
        self._since_checkpoint, self._checkpoint_due = 0, CHECKPOINT_BYTES
        return True

    def _skip_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._parts.clear()
        self._reading = None
        self._last = None
        for record in waiting:
            if record.kind == Kind.RESIZE and record.end > self.offset:
                self._size = record.size()
        end, at = (waiting[-1].end, waiting[-1].at) if waiting else (0, 0)
        self.offset, self._at = max(self.offset, self._goal, end), max(self._at, at)

    # What is asked of it.

    def keyframe(self, *, history: bool) -> LiveKeyframe:
        """The screen after everything that was fed; ScreenUnavailable if the engine cannot say it."""
        if self._last is not None and self._last[0] == history:
            return self._last[1]
        if self._terminal is None or self._unavailable is not None:
            raise ScreenUnavailable(self.pod, self._unavailable or "it was not opened")
        if not self._rested():
            raise ScreenUnavailable(self.pod, self._doubtful or "the terminal engine keeps failing")
        try:
            snapshot = self._terminal.snapshot(history=history)
        except (EngineRefused, OSError) as error:
            self._rest(str(error))
            raise ScreenUnavailable(self.pod, str(error)) from error
        if not snapshot:
            raise ScreenUnavailable(self.pod, "the terminal engine cannot say what is on it at this point")
        with suppress(EngineRefused):
            self._count_restarts()
        frame = LiveKeyframe(self.offset, self._at, *self._size, snapshot, self._doubtful)
        self._last = history, frame
        return frame
