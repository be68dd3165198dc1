"""What replay shows: frames, marks, and the line of time they stand on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from scrubjay.screen.key_shapes import mask_keys
from scrubjay.screen.masked import mask_picture, mask_snapshot
from scrubjay.screen.picture import Picture, plain_picture
from scrubjay.screen.snapshot import Snapshot, read_snapshot


@dataclass(frozen=True)
class Frame:
    """A screen at one instant of a tape."""

    tape: str  #: the tape's id, which is its pod's
    at: int  #: microseconds since the tape began: of the last record that is shown
    offset: int  #: in the tape, after the last byte that is shown
    time: int  #: microseconds on the reel the frame was asked of; for one tape alone the same as ``at``
    wall_us: int | None  #: microseconds since 1970; None if the tape does not say
    cols: int
    rows: int
    snapshot: bytes = b""  #: the engine's own; empty if it could not make one here
    text: str = ""  #: of the screen, where there is no snapshot
    history: int = 0  #: how many rows of what scrolled off are wanted
    unavailable: str | None = None  #: why there is no screen here, for people
    doubtful: str | None = None  #: why it may differ from what was shown, for people

    def placed(self, time: int) -> Frame:
        """The same frame at a time of another line, with what was already made of it."""
        moved = replace(self, time=time)
        moved.__dict__.update({name: self.__dict__[name] for name in ("state", "picture") if name in self.__dict__})
        return moved

    def masked(self) -> Frame:
        """The same frame for other people: with keys hidden in everything but ``snapshot``."""
        masked = replace(self, text=mask_keys(self.text))
        masked.__dict__["state"] = None if self.state is None else mask_snapshot(self.state)
        masked.__dict__["picture"] = mask_picture(self.picture)
        return masked

    @cached_property
    def state(self) -> Snapshot | None:
        """Everything the screen knows."""
        return read_snapshot(self.snapshot, history=self.history) if self.snapshot else None

    @cached_property
    def picture(self) -> Picture:
        """What is to be seen, with as much history as was wanted."""
        if self.state is None:
            return plain_picture(self.text, self.cols, self.rows)
        return self.state.picture(self.history)


@dataclass(frozen=True, slots=True)
class Mark:
    """A label somebody put on an instant."""

    time: int  #: microseconds on the reel
    label: str
    author: str


@dataclass(frozen=True, slots=True)
class Idle:
    """A stretch in which nothing was shown."""

    start: int  #: microseconds on the reel
    stop: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole reel at a glance."""

    duration: int  #: microseconds
    density: tuple[float, ...]  #: how much was shown in each equal part of it, 0 to 1
    marks: tuple[Mark, ...]
    idle: tuple[Idle, ...]  #: those of five seconds or more
    seams: tuple[int, ...]  #: where one tape ends and the next begins
    away: tuple[int | None, ...] = ()  #: how long there was nobody at each seam, in microseconds; None if unknown
