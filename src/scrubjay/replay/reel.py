"""The tapes of one pod name or session as one line of time, with the gaps between them left out.

A time on the reel is microseconds of recording since its first tape began. Not safe for threads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scrubjay.replay.frame import Frame, Idle, Mark, Timeline
from scrubjay.replay.instants import Moment, Span, parse_instant, resolve
from scrubjay.replay.keyframes import open_keyframes
from scrubjay.replay.replay import MOMENT_US, Progress, Replay
from scrubjay.replay.workers import Workers
from scrubjay.tape.reader import Tape


@dataclass(frozen=True, slots=True)
class Source:
    """A tape and where its keyframes are kept."""

    tape: Tape
    folder: Path
    is_alive: Callable[[], bool]  #: whether it is still being recorded


class Reel:
    """Tapes that follow one another."""

    def __init__(
        self, sources: list[Source], workers: Workers, *, progress: Progress = lambda _done, _all: None
    ) -> None:
        """The reel of ``sources``, oldest first. It takes the workers over and ends them when it is closed."""
        self._workers = workers
        self._sources = sources
        self._keyframes = [open_keyframes(source.folder, source.tape, workers.identity) for source in sources]
        self._replays = [
            Replay(source.tape, keyframes, workers, progress=progress)
            for source, keyframes in zip(sources, self._keyframes, strict=True)
        ]
        self._count_up()

    def _count_up(self) -> None:
        self._starts: list[int] = []
        time = 0
        for replay in self._replays:
            self._starts.append(time)
            time += replay.duration
        self.duration = time  #: microseconds

    @property
    def tapes(self) -> list[str]:
        """The ids of the tapes, oldest first."""
        return [source.tape.id for source in self._sources]

    @property
    def newest(self) -> int:
        """Where the newest tape begins."""
        return self._starts[-1]

    @property
    def live(self) -> bool:
        """Whether the newest tape is still being recorded."""
        return self._sources[-1].is_alive()

    @property
    def slow(self) -> bool:
        """Whether keyframes were missing where they were needed."""
        return any(replay.slow for replay in self._replays)

    @property
    def indexed(self) -> bool:
        """Whether every instant can be found at once."""
        return all(replay.indexed for replay in self._replays)

    def index(self) -> None:
        """Make the keyframes that are missing."""
        for replay in self._replays:
            replay.index()
        self._count_up()

    def refresh(self) -> None:
        """Take in what was recorded since."""
        self._replays[-1].refresh()
        self._count_up()

    def free(self) -> None:
        """Free the terminals and files; the workers stay for others."""
        for replay, keyframes in zip(self._replays, self._keyframes, strict=True):
            replay.close()
            keyframes.close()

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def locate(self, raw: str) -> Moment:
        """The instant a person means; BadInstant if it cannot be understood."""
        return resolve(parse_instant(raw), [self._span(number) for number in range(len(self._replays))], None)

    def _span(self, number: int) -> Span:
        start, replay = self._starts[number], self._replays[number]
        anchors = tuple((start + at, wall) for at, wall in replay.clocks)
        return Span(start, start + replay.duration, replay.wall_us(0), anchors)

    def show(self, raw: str, *, history: int = 0) -> tuple[Frame, str | None]:
        """The screen at the instant a person means, and what to tell them if it is another one."""
        moment = self.locate(raw)
        if moment.offset is None:
            return self.seek(moment.time, history=history), moment.clamped
        return self.seek_offset(moment.offset, history=history), moment.clamped

    def seek(self, time: int, *, history: int = 0) -> Frame:
        """The screen at a time, or at the nearest there is."""
        time = min(max(0, time), self.duration)
        number = self._number_at(time)
        frame = self._replays[number].seek(time - self._starts[number], history=history)
        return self._placed(frame, number)

    def seek_offset(self, offset: int, *, tape: str | None = None, history: int = 0) -> Frame:
        """The screen after the bytes of a tape, by default the newest, up to an offset."""
        number = self.tapes.index(tape) if tape is not None else len(self._replays) - 1
        return self._placed(self._replays[number].seek_offset(offset, history=history), number)

    def _number_at(self, time: int) -> int:
        return max(0, bisect_right(self._starts, time) - 1)

    def _placed(self, frame: Frame, number: int) -> Frame:
        return frame.placed(self._starts[number] + frame.at)

    def wall_us(self, time: int) -> int | None:
        """The wall clock at a time."""
        number = self._number_at(time)
        return self._replays[number].wall_us(time - self._starts[number])

    def time_of(self, tape: str, at: int) -> int:
        """Where an instant of one of the tapes is."""
        return self._starts[self.tapes.index(tape)] + at

    def step(self, frame: Frame, *, forward: bool) -> Frame | None:
        """The next or previous screen that looks different; None at either end."""
        number = self.tapes.index(frame.tape)
        found = self._replays[number].step(frame, forward=forward)
        if found is not None:
            return self._placed(found, number)
        number += 1 if forward else -1
        if not 0 <= number < len(self._replays):
            return None
        at = 0 if forward else self._replays[number].duration
        return self._placed(self._replays[number].seek(at), number)

    def frames(self, start: int, stop: int, *, every_us: int = MOMENT_US) -> Iterator[Frame]:
        """The screen at ``start``, then each that looks different up to ``stop``, at most one per ``every_us``."""
        for number in range(self._number_at(start), len(self._replays)):
            begin, replay = self._starts[number], self._replays[number]
            if begin > stop:
                return
            for frame in replay.frames(max(0, start - begin), min(stop - begin, replay.duration), every_us=every_us):
                yield self._placed(frame, number)

    def marks(self) -> list[Mark]:
        """All marks."""
        return [
            Mark(start + at, label, author)
            for start, replay in zip(self._starts, self._replays, strict=True)
            for at, label, author in replay.marks()
        ]

    def next_mark(self, time: int) -> Mark | None:
        """The first mark after a time."""
        return next((mark for mark in self.marks() if mark.time > time), None)

    def previous_mark(self, time: int) -> Mark | None:
        """The last mark before a time."""
        return next((mark for mark in reversed(self.marks()) if mark.time < time), None)

    def timeline(self, parts: int) -> Timeline:
        """The whole reel at a glance, its density in so many parts."""
        totals = [0.0] * parts
        for start, replay in zip(self._starts, self._replays, strict=True):
            width, counts = replay.activity()
            for number, count in enumerate(counts):
                if count:
                    _spread(totals, count, start + number * width, start + (number + 1) * width, self.duration)
        most = max(totals, default=0.0)
        return Timeline(
            duration=self.duration,
            # The square root: beside a flood a single prompt must still be seen.
            density=tuple((total / most) ** 0.5 if most else 0.0 for total in totals),
            marks=tuple(self.marks()),
            idle=tuple(
                Idle(start + begin, start + end)
                for start, replay in zip(self._starts, self._replays, strict=True)
                for begin, end in replay.idle()
            ),
            seams=tuple(self._starts[1:]),
            away=tuple(self._away_before(number) for number in range(1, len(self._replays))),
        )

    def _away_before(self, number: int) -> int | None:
        """How long nothing was recorded before a tape; None if one of them does not know the time."""
        ended, began = self._replays[number - 1], self._replays[number].wall_us(0)
        left = ended.wall_us(ended.duration)
        return max(0, began - left) if began is not None and left is not None else None


def _spread(totals: list[float], count: int, start: int, stop: int, duration: int) -> None:
    """Add what was shown from start to stop to the parts it was shown in."""
    if not duration:
        return
    parts = len(totals)
    first, last = min(start * parts // duration, parts - 1), min((stop - 1) * parts // duration, parts - 1)
    for part in range(first, last + 1):
        totals[part] += count / (last - first + 1)
