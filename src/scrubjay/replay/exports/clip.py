"""A stretch of a reel, for whoever writes it down in another format."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scrubjay.replay.frame import Frame, Mark
from scrubjay.replay.reel import Reel
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.screen.masked import mask_picture
from scrubjay.screen.picture import Picture, plain_picture
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record


@dataclass(frozen=True, slots=True)
class Part:
    """What a clip has of one tape."""

    tape: Tape
    begin: int  #: when the tape began, in microseconds since the clip did; negative if it was before
    first: int  #: the offset of the first record that belongs to the clip


@dataclass(frozen=True, slots=True)
class Clip:
    """Everything after ``start`` up to ``stop``, and the screen at ``start``; of a reel's start also what is at it."""

    reel: Reel
    tapes: list[Tape]  #: of the reel
    name: str
    start: int  #: microseconds on the reel
    stop: int
    step: Callable[[int], None] = lambda _: None  #: told how many microseconds more were written
    on_damage: Callable[[Damage], None] = lambda _: None
    doubts: set[str] = field(default_factory=set[str])  #: why what was written may differ from what was shown

    def seek(self, time: int, *, history: int = 0) -> Frame:
        """The screen at a time of the reel."""
        return self.noted(self.reel.seek(time, history=history))

    def noted(self, frame: Frame) -> Frame:
        """A frame that is about to be written."""
        why = frame.unavailable or frame.doubtful
        if why is not None:
            self.doubts.add(why)
        return frame

    @property
    def duration(self) -> int:
        """Microseconds."""
        return self.stop - self.start

    def parts(self) -> list[Part]:
        """Its tapes, oldest first."""
        begins = [self.reel.time_of(tape.id, 0) for tape in self.tapes]
        first = max(0, bisect_right(begins, self.start) - 1)
        return [
            Part(tape, begin - self.start, 0 if begin >= self.start else self.reel.seek(self.start).offset)
            for tape, begin in list(zip(self.tapes, begins, strict=True))[first:]
            if begin <= self.stop
        ]

    def records(self) -> Iterator[Record]:
        """Its records as they are on their tapes."""
        for part in self.parts():
            yield from self.records_of(part)

    def records_of(self, part: Part) -> Iterator[Record]:
        """Those of one tape."""
        told = 0
        end, last = part.tape.end, self.duration - part.begin
        for item in part.tape.scan(part.first):
            if isinstance(item, Damage):
                if item.end < end:  # what ends an unfinished tape is not damage to what is there
                    self.on_damage(item)
                continue
            if item.at > last or item.end > end:
                break
            yield item
            if item.at + part.begin - told >= 1_000_000:
                self.step(item.at + part.begin - told)
                told = item.at + part.begin

    def shots(self, every_us: int) -> Iterator[tuple[int, Picture, Frame]]:
        """Every screen with the time since the start at which it came up."""
        told = 0
        for frame in self.reel.frames(self.start, self.stop, every_us=every_us):
            time = max(0, frame.time - self.start)
            yield time, picture_of(self.noted(frame)), frame
            if time - told >= 1_000_000:
                self.step(time - told)
                told = time
        self.seek(self.stop)  # a screen that was lost looks like the one before, and did not come up

    def marks(self) -> list[Mark]:
        """The labels within it, with their times counted from its start."""
        return [
            Mark(mark.time - self.start, mask_keys(mark.label), mark.author)
            for mark in self.reel.marks()
            if self.start <= mark.time <= self.stop
        ]


def picture_of(frame: Frame) -> Picture:
    """What to show other people of a frame: where there is no screen, the reason."""
    if frame.unavailable is None:
        return mask_picture(frame.picture)
    return plain_picture(f"screen unavailable: {frame.unavailable}", frame.cols, frame.rows)
