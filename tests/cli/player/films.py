"""Films for tests: real screens of the real engine, from output that is given as it is."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from scrubjay.replay.frame import Frame, Idle, Mark, Timeline
from scrubjay.replay.instants import SECOND_US, Moment, Span, parse_instant, resolve
from scrubjay.replay.replay import looks_different
from scrubjay.screen.ghostty import Terminal

WALL_US = 1_763_172_847 * SECOND_US
IDLE_US = 5 * SECOND_US


class FakeFilm:
    """A reel of one tape: output by microsecond."""

    def __init__(
        self,
        output: Sequence[tuple[int, bytes]],
        *,
        cols: int = 80,
        rows: int = 24,
        tail_us: int = 0,
        marks: Sequence[Mark] = (),
        seams: Sequence[int] = (),
        live: bool = False,
        unavailable: str | None = None,
    ) -> None:
        self._output, self._cols, self._rows, self._unavailable = list(output), cols, rows, unavailable
        self._marks, self._seams = tuple(marks), tuple(seams)
        self._times = [time for time, _ in self._output]
        self._pending: list[tuple[int, bytes]] = []
        self.duration = (self._times[-1] if self._times else 0) + tail_us
        self.live = live
        self.indexed, self.indexed_times = True, 0
        self.seeks: list[int] = []

    def record(self, time: int, output: bytes) -> None:
        """Have more recorded, to be seen after the next refresh."""
        self._pending.append((time, output))

    def seek(self, time: int, *, history: int = 0) -> Frame:
        time = min(max(0, time), self.duration)
        self.seeks.append(time)
        return self._frame(bisect_right(self._times, time), history)

    def step(self, frame: Frame, *, forward: bool) -> Frame | None:
        shown = bisect_right(self._times, frame.time) if frame.offset else 0
        while (shown := shown + (1 if forward else -1)) in range(len(self._times) + 1):
            found = self._frame(shown, 0)
            if looks_different(frame, found):
                return found
        return None

    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        frame: Frame | None = self.seek(start)
        while frame is not None and frame.time <= stop:
            yield frame
            frame = self.step(frame, forward=True)

    def seek_offset(self, offset: int) -> Frame:
        return self._frame(min(offset, len(self._output)), 0)

    def index(self) -> None:
        self.indexed = True
        self.indexed_times += 1

    def next_mark(self, time: int) -> Mark | None:
        return next((mark for mark in self._marks if mark.time > time), None)

    def previous_mark(self, time: int) -> Mark | None:
        return next((mark for mark in reversed(self._marks) if mark.time < time), None)

    def timeline(self, parts: int) -> Timeline:
        sizes = [0] * parts
        for time, output in self._output:
            sizes[min(parts - 1, time * parts // max(1, self.duration))] += len(output)
        most = max(sizes, default=0) or 1
        ends = [*self._times, self.duration]
        idle = [Idle(a, b) for a, b in zip([0, *self._times], ends, strict=True) if b - a >= IDLE_US]
        density = tuple(size / most for size in sizes)
        return Timeline(self.duration, density, self._marks, tuple(idle), self._seams)

    def locate(self, raw: str) -> Moment:
        return resolve(parse_instant(raw), [Span(0, self.duration, WALL_US)], None)

    def wall_us(self, time: int) -> int | None:
        return WALL_US + time

    def refresh(self) -> None:
        for time, output in self._pending:
            self._output.append((time, output))
            self._times.append(time)
            self.duration = max(self.duration, time)
        self._pending.clear()

    def add_mark(self, time: int, label: str) -> Mark:
        mark = Mark(time, label, "person:test")
        self._marks = tuple(sorted([*self._marks, mark], key=lambda mark: mark.time))
        return mark

    def find(self, text: str) -> list[int]:
        """The times at which output with a text was shown."""
        return [time for time, output in self._output if text.encode() in output]

    def _frame(self, shown: int, history: int) -> Frame:
        terminal = Terminal(self._cols, self._rows)
        for _, output in self._output[:shown]:
            terminal.feed(output)
        snapshot = terminal.snapshot(history=bool(history)) or b""
        terminal.close()
        time = self._times[shown - 1] if shown else 0
        missing = self._unavailable
        return Frame(
            tape="a" * 26,
            at=time,
            offset=shown,
            time=time,
            wall_us=WALL_US + time,
            cols=self._cols,
            rows=self._rows,
            snapshot=b"" if missing else snapshot,
            history=history,
            unavailable=missing,
        )


def read_cast(path: Path) -> FakeFilm:
    """The output of an asciicast of version 2."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    head, *events = [json.loads(line) for line in text.splitlines() if line]
    output = [(round(at * SECOND_US), data.encode()) for at, kind, data in events if kind == "o"]
    return FakeFilm(output, cols=head["width"], rows=head["height"])
