"""Walk a tape once and keep what makes it quick to look into: keyframes, and rows to search.

The walk can stop and go on at any record. It is one engine that sees everything in order, so that what a
keyframe holds is what a person would have seen, resizes and all.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, repeat
from typing import Protocol

from scrubjay.replay.keyframes import CannotKeep, Covered, Hole, Keyframe, Keyframes
from scrubjay.replay.rows import Row
from scrubjay.replay.workers import EngineRefused, Workers, WorkerTerminal
from scrubjay.screen.engine import SCROLLBACK_BYTES
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.screen.keyframe import stored_estimate
from scrubjay.screen.picture import DEFAULT_SIZE
from scrubjay.screen.snapshot import read_size
from scrubjay.tape.format import HEADER_BYTES, RECORD_OVERHEAD_BYTES, Kind
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record, decode_json
from scrubjay.tape.typed import TypedLines

KEYFRAME_BYTES = 256 << 10  # of output between two keyframes, if they stay within the budget
KEYFRAME_MAX_BYTES = 1 << 20  # a seek feeds no more than this, whatever the budget
KEYFRAME_RECORDS = 4096  # nor more records
KEYFRAME_BUDGET = 0.07  # of what the sealed tape takes, those with history not counted
WHOLE_BYTES = 16 << 20  # of output between two keyframes with history, from which a walk can go on
IDLE_US = 5_000_000  # nothing shown for so long is worth knowing

PAUSE_US = 150_000  # a screen that stood this long could be read
LOOK_US = 2_000_000  # while output flows without a pause, what stands is looked at so often
LOOK_BYTES = 32 << 10  # rows that scrolled off are taken after so much output
FEED_BYTES = 64 << 10
# What a pause separates is fed separately, if it is worth it: with bytes that crash the engine little else is lost.
APART_BYTES, APART_US = 4096, 100_000
_ERASE_HISTORY = b"\x1b[3J"
ENGINE_FAILED = "the terminal engine failed on what was shown"


class RowsProgress(Protocol):
    """How far rows were taken."""

    @property
    def offset(self) -> int: ...
    @property
    def state(self) -> bytes: ...


class RowSink(Protocol):
    """Where rows go."""

    def progress(self, tape: str) -> RowsProgress:
        """How far they went."""
        ...

    def add(self, tape: str, rows: Iterable[tuple[int, int, int, str, str]]) -> None:
        """Keep rows: at, offset, y, kind and text of each, as in ``Row``."""
        ...

    def finish_batch(self, tape: str, offset: int, state: bytes) -> None:
        """Commit what was added: it goes up to ``offset``, and goes on from ``state``."""
        ...


class Indexer:
    """One walk over one tape."""

    def __init__(self, tape: Tape, workers: Workers, keyframes: Keyframes, rows: RowSink | None = None) -> None:
        self._tape = tape
        self._keyframes = keyframes
        self._sink = rows
        self._terminal = WorkerTerminal(workers, *DEFAULT_SIZE)

    def run(
        self,
        *,
        until: int | None = None,
        now_us: int | None = None,
        over: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """Go on to the end of the tape as it is now, or just past an instant. False if another process is at it.

        ``now_us`` is the wall clock, which says how long a screen stands that nothing ended; ``over`` says that it
        stands for good, because nothing more will be recorded. ``progress`` is told how many bytes of the tape were
        walked since it was last told.
        """
        self._over = over
        try:
            return self._run(until, now_us, progress)
        except CannotKeep:
            # A full disk, or one that is not ours, is no reason not to look at what is on it.
            self._keyframes.keep_in_memory()
            return self._run(until, now_us, progress)

    def _run(self, until: int | None, now_us: int | None, progress: Callable[[int], None]) -> bool:
        with self._keyframes.writing() as ours:
            if not ours:
                return False
            try:
                self._begin()
                start = self._offset
                if self._sink is not None and start and start >= (self._rows_from or 0):
                    self._begin_settling()  # at the start of a tape after its head, which begins the screen
                self._walk(until, progress)
                if self._offset > start or self._settling:
                    self._finish(now_us)
            finally:
                self._keyframes.roll_back()
                self._terminal.close()
        return True

    def _begin(self) -> None:
        """Take up where keyframes and rows were left, whichever was left first."""
        covered = self._keyframes.covered()
        last = self._keyframes.nearest_offset(covered.offset, whole=True)
        if covered.offset and (last is None or last.offset != covered.offset):
            self._keyframes.reset()  # the one to go on from is gone or rotten
            covered = Covered()
        self._covered = covered
        self._keep_from = covered.offset
        rows = self._sink.progress(self._tape.id) if self._sink is not None else None
        self._rows_from = rows.offset if rows is not None else None
        self._rows_state = rows.state if rows is not None else b""
        start = covered.offset if rows is None else min(rows.offset, covered.offset)
        frame = self._keyframes.nearest_offset(start, whole=True) if start else None
        if frame is None:
            self._offset = self._at = 0
            self._terminal.begin(*DEFAULT_SIZE)
        else:
            self._offset, self._at = frame.offset, frame.at
            self._terminal.restore(frame.snapshot, offset=frame.offset)
        self._kept_offset = self._offset
        self._size = DEFAULT_SIZE if frame is None else read_size(frame.snapshot)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._settling = False
        self._unlooked = self._unlooked_rows = 0  # bytes and lines fed since rows were last taken
        self._lines = array("Q")  # where these lines end: of each record lines and offset before it, and after it
        self._looked_at = self._at
        self._output_at = self._at
        self._typed = TypedLines()
        self._typed_rows: list[Row] = []
        self._unweighed: list[bytes] = []
        self._since_bytes = self._since_records = 0
        self._ask_at_bytes = KEYFRAME_BYTES
        self._since_whole = 0
        self._keyframe_bytes = self._last_whole_bytes = 2048  # what the last ones took
        self._resized = False
        self._ended = False

    def _walk(self, until: int | None, progress: Callable[[int], None]) -> None:
        end = self._tape.end
        told = self._offset
        for item in self._tape.skim(self._offset):
            if isinstance(item, Damage):
                if item.end >= end:
                    break  # an unfinished record; it will be read when it is whole
                self._miss(Hole(item.offset, item.end, f"the tape is damaged there: {item.why}"))
                self._offset = item.end
                continue
            kind, at, payload, after = item
            if after > end or (until is not None and at > until):
                break
            if kind == Kind.OUTPUT:
                self._take_output(at, payload, after)
            else:
                self._take_other(kind, at, payload, after)
            self._offset, self._at = after, at
            if self._sink is not None and not self._settling and after >= (self._rows_from or 0):
                self._begin_settling()
            if self._is_keyframe_due():
                self._keep_keyframe()
            if after - told >= 1 << 20:
                progress(after - told)
                told = after
        progress(self._offset - told)

    def _begin_settling(self) -> None:
        self._flush()
        self._terminal.settle(self._rows_state, offset=self._offset)
        self._settling = True

    def _take_output(self, at: int, payload: bytes, after: int) -> None:
        if self._settling:
            self._look_before(at, payload)
        if self._pending_bytes >= APART_BYTES and at - self._output_at >= APART_US:
            self._flush()
        if self._settling and (self._is_much(payload) or _ERASE_HISTORY in payload):
            self._take_slices(payload, after)
        else:
            if self._settling:
                self._note_lines(payload, after)
            self._pending.append(payload)
            self._pending_bytes += len(payload)
        if self._pending_bytes >= FEED_BYTES:
            self._offset = after
            self._flush()
        if after > self._keep_from:
            covered = self._covered
            if at - covered.last_output_at >= IDLE_US:
                covered.idle.append((covered.last_output_at, at))
            covered.last_output_at = at
            covered.output_bytes += len(payload)
            covered.activity.add(at, len(payload))
            self._unweighed.append(payload)
            self._since_bytes += len(payload)
            self._since_records += 1
        self._output_at = at

    def _take_slices(self, payload: bytes, after: int) -> None:
        """Take the rows that scroll off within one record where they do, and before they are erased."""
        first = after - len(payload) - RECORD_OVERHEAD_BYTES + HEADER_BYTES
        self._flush()
        start = 0
        most = min(LOOK_BYTES, self._look_rows) if payload.count(b"\n") > self._look_rows else LOOK_BYTES
        while start < len(payload):
            erase = payload.find(_ERASE_HISTORY, start + 1, start + most)
            stop = erase if erase >= 0 else min(start + most, len(payload))
            self._note_lines(payload[start:stop], first + stop)
            self._offset = first + stop
            self._terminal.feed(payload[start:stop], offset=self._offset)
            self._look(whole=False)
            start = stop

    def _look_before(self, at: int, payload: bytes) -> None:
        """Take the rows that stand before this output changes them."""
        if at - self._output_at >= PAUSE_US or at - self._looked_at >= LOOK_US:
            self._look(whole=True, until=at)
        elif self._unlooked >= LOOK_BYTES or self._unlooked_rows + payload.count(b"\n") > self._look_rows:
            self._look(whole=False)

    def _note_lines(self, output: bytes, stop: int) -> None:
        """Remember where lines end: small records are mostly overhead, so bytes do not tell where a row was written."""
        lines = output.count(b"\n")
        if lines:
            self._lines += array("Q", (self._unlooked_rows, self._offset, self._unlooked_rows + lines, stop))
        self._unlooked += len(output)
        self._unlooked_rows += lines

    def _is_much(self, payload: bytes) -> bool:
        """Whether more may scroll off within it than a terminal keeps."""
        return len(payload) > LOOK_BYTES or payload.count(b"\n") > self._look_rows

    @property
    def _look_rows(self) -> int:
        """How many rows may scroll off before they are taken: half of what a terminal keeps."""
        return max(1, SCROLLBACK_BYTES // (16 * self._size[0]))

    def _look(self, *, whole: bool, until: int | None = None) -> None:
        self._flush()
        self._terminal.look(self._output_at, self._offset, self._lines.tobytes(), whole=whole, until=until)
        self._lines = array("Q")
        self._unlooked = self._unlooked_rows = 0
        if whole:
            self._looked_at = self._output_at

    def _take_other(self, kind: int, at: int, payload: bytes, after: int) -> None:
        self._flush()
        ours = after > self._keep_from
        match kind:
            case Kind.HEAD:
                head = decode_json(payload)
                cols, rows = head.get("cols"), head.get("rows")
                if isinstance(cols, int) and isinstance(rows, int):
                    self._size = cols, rows
                    self._terminal.begin(cols, rows, offset=after)
                self._note_wall(at, after, head.get("wall"))
                self._resized = self._resized or ours  # so that the beginning of the tape has a keyframe, too
            case Kind.RESIZE:
                if self._settling:
                    self._look(whole=True, until=at)
                self._size = Record(0, kind, at, payload, 0).size()
                self._terminal.resize(*self._size, offset=after)
                self._resized = self._resized or ours
            case Kind.CLOCK:
                clock = decode_json(payload)
                if clock.get("reason") != "minute":
                    self._note_wall(at, after, clock.get("wall"))
            case Kind.MARK if ours:
                mark = decode_json(payload)
                self._covered.marks.append((at, as_text(mark.get("label")), as_text(mark.get("author"))))
            case Kind.GAP:
                why = str(decode_json(payload).get("reason", "unknown"))
                self._miss(Hole(self._offset, after, f"output was not recorded: {why}"))
            case Kind.INPUT if self._sink is not None and after > (self._rows_from or 0):
                typed = Record(0, kind, at, payload, 0).typed()
                self._typed_rows += [
                    Row(at, after, -1, "typed", mask_keys(line)) for line in self._typed.feed(typed.author, typed.data)
                ]
            case Kind.EXIT | Kind.SEAL:
                self._ended = True
            case _:
                pass

    def _note_wall(self, at: int, after: int, wall: object) -> None:
        if isinstance(wall, int) and after > self._keep_from:
            self._covered.clocks.append((at, wall))

    def _miss(self, hole: Hole) -> None:
        if hole.stop > self._keep_from:
            self._covered.holes.append(hole)

    def _flush(self) -> None:
        if self._pending:
            self._terminal.feed(b"".join(self._pending), offset=self._offset)
            self._pending.clear()
            self._pending_bytes = 0

    def _is_keyframe_due(self) -> bool:
        if self._resized or self._since_records >= KEYFRAME_RECORDS:
            return True
        if self._since_bytes < self._ask_at_bytes:
            return False
        if self._since_bytes >= KEYFRAME_MAX_BYTES:
            return True
        if self._keyframes.small:
            return True  # they take no room on the disk
        self._ask_at_bytes += KEYFRAME_BYTES // 4
        self._weigh()
        return self._covered.kept_bytes + self._keyframe_bytes <= KEYFRAME_BUDGET * self._covered.stored_bytes

    def _weigh(self) -> None:
        """Find out how much of the sealed tape the output takes that has gathered."""
        self._covered.stored_bytes += stored_estimate(b"".join(self._unweighed))
        self._unweighed.clear()

    def _keep_keyframe(self) -> None:
        resized = self._resized
        if not self._keep():
            return
        # One with history is kept beside that of the screen, which is the one to seek from: a hundredth of the size.
        if self._since_whole >= WHOLE_BYTES:
            if self._keep_whole(spare=False):
                self._since_whole = 0
                self._commit()
        elif resized and self._can_afford_whole():
            self._keep_whole(spare=False)

    def _can_afford_whole(self) -> bool:
        """Whether what scrolled off, which a resize rewraps, can be kept as well."""
        budget = KEYFRAME_BUDGET * self._covered.stored_bytes
        return self._keyframes.small or self._covered.whole_bytes + self._last_whole_bytes <= budget

    def _keep(self) -> bool:
        """Keep the screen as it is now; False if the engine cannot say it here."""
        snapshot = self._snapshot(whole=False)
        if not snapshot:
            self._since_records = 0  # not again at once
            return False
        self._weigh()
        self._keyframe_bytes = self._keyframes.add(Keyframe(self._offset, self._at, snapshot, whole=False))
        self._covered.kept_bytes += self._keyframe_bytes
        self._since_whole += self._since_bytes
        self._since_bytes = self._since_records = 0
        self._ask_at_bytes = KEYFRAME_BYTES
        self._resized = False
        self._kept_offset = self._offset
        settling = None
        if self._settling:
            settling = self._rows_state = self._terminal.state()
            self._take_rows()
        self._terminal.checkpoint(snapshot, offset=self._offset, settling=settling)
        return True

    def _keep_whole(self, *, spare: bool) -> bool:
        """Keep everything to go on from here, what scrolled off included."""
        snapshot = self._snapshot(whole=True)
        if not snapshot:
            return False
        self._keyframes.drop_spare(self._offset)
        self._last_whole_bytes = self._keyframes.add(
            Keyframe(self._offset, self._at, snapshot, whole=True), spare=spare
        )
        self._covered.whole_bytes += self._last_whole_bytes * (not spare)
        return True

    def _snapshot(self, *, whole: bool) -> bytes:
        self._flush()
        try:
            snapshot = self._terminal.snapshot(history=whole, exact=True)
        except EngineRefused:
            self._start_over()
            return b""
        for left_out in self._terminal.left_out:
            self._miss(Hole(left_out.start, left_out.stop, ENGINE_FAILED))
        self._terminal.left_out.clear()
        return snapshot

    def _start_over(self) -> None:
        """Go on with an empty screen: what was shown since the last keyframe cannot be."""
        self._miss(Hole(self._kept_offset, self._offset, ENGINE_FAILED))
        self._terminal.begin(*self._size, offset=self._offset)
        if self._settling:
            self._terminal.settle(self._rows_state, offset=self._offset)
        self._kept_offset = self._offset
        self._since_bytes = self._since_records = 0

    def _take_rows(self) -> None:
        assert self._sink is not None
        with suppress(EngineRefused):
            shown = self._terminal.rows()
            rows = zip(shown.ats, shown.offsets, shown.ys, repeat("shown"), shown.texts, strict=False)
            self._sink.add(self._tape.id, chain(rows, self._typed_rows))
            self._typed_rows = []

    def _stands_until(self, now_us: int | None) -> int:
        """The instant it is now, as far as the tape can tell."""
        clocks = self._covered.clocks
        if now_us is None or not clocks:
            return self._at
        at, wall = clocks[-1]
        return max(self._at, at + now_us - wall)

    def _commit(self) -> None:
        """Make this the place that the next walk goes on from."""
        if self._offset > self._keep_from:
            self._covered.offset, self._covered.at = self._offset, self._at
            self._keyframes.commit(self._covered)
        if self._settling and self._sink is not None:
            with suppress(EngineRefused):
                self._sink.finish_batch(self._tape.id, self._offset, self._terminal.state())

    def _finish(self, now_us: int | None) -> None:
        if self._settling:
            self._look(whole=True, until=None if self._ended or self._over else self._stands_until(now_us))
        if self._settling:
            self._take_rows()
        if self._keep_whole(spare=True):
            self._commit()


def as_text(value: object) -> str:
    """Text that can be stored: what JSON can say and UTF-8 cannot is replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
