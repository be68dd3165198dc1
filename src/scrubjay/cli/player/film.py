"""What the player plays, and what it may ask to be done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from scrubjay.replay.frame import Frame, Mark, Timeline
from scrubjay.replay.instants import Moment


class Film(Protocol):
    """A reel, as far as the player needs it; only one thread at a time may use it."""

    @property
    def duration(self) -> int:
        """Microseconds; grows while a pod runs."""
        ...

    @property
    def live(self) -> bool:
        """Whether more of it is being recorded."""
        ...

    @property
    def indexed(self) -> bool:
        """Whether every instant can be reached quickly."""
        ...

    def seek(self, time: int, *, history: int = 0) -> Frame:
        """The screen at an instant."""
        ...

    def seek_offset(self, offset: int) -> Frame:
        """The screen after so many bytes of the newest tape."""
        ...

    def step(self, frame: Frame, *, forward: bool) -> Frame | None:
        """The next or previous change of the screen."""
        ...

    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        """The screen at ``start``, then each that looks different up to ``stop``."""
        ...

    def next_mark(self, time: int) -> Mark | None:
        """The first mark after an instant."""
        ...

    def previous_mark(self, time: int) -> Mark | None:
        """The last mark before an instant."""
        ...

    def timeline(self, parts: int) -> Timeline:
        """All of it at a glance."""
        ...

    def locate(self, raw: str) -> Moment:
        """The instant a person means."""
        ...

    def wall_us(self, time: int) -> int | None:
        """What the wall clock showed."""
        ...

    def refresh(self) -> None:
        """Take in what was recorded since."""
        ...

    def index(self) -> None:
        """Make what is missing to reach every instant quickly, and to draw all of the timeline."""
        ...


class Found(NamedTuple):
    """Something that was searched for."""

    time: int  #: microseconds on the reel
    text: str  #: the line it is in


class Doing(NamedTuple):
    """What the agent does from an instant on."""

    time: int  #: microseconds on the reel
    words: str  #: empty where nobody knows
    asks: bool = False  #: whether it waits for a person


@dataclass(frozen=True, slots=True)
class Tools:
    """What else the person can do; None is said to be impossible. All run in the thread that uses the film."""

    find: Callable[[str], list[Found]] | None = None  #: every place of a text, oldest first
    mark: Callable[[int, str], Mark] | None = None  #: label an instant, or the live one; where the label is
    export: Callable[[int, int, Path], str] | None = None  #: write a part to a file; what was written, for people
    doings: Callable[[], list[Doing]] | None = None  #: all that is known of its agent, oldest first
