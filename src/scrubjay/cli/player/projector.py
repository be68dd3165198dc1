"""Which frame is to be seen now: playing, following and stepping, without a window.

Playing is tied to the clock, not to the frames: however long one takes, the next is the one that belongs to its
moment. Where the screen stays the same for longer than the idle limit, the rest of that stretch is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from scrubjay.cli.player.film import Film
from scrubjay.cli.player.lane import Lane
from scrubjay.cli.player.transport import Transport
from scrubjay.errors import ScrubjayError
from scrubjay.replay.frame import Frame, Idle, Mark, Timeline
from scrubjay.replay.instants import SECOND_US, format_span
from scrubjay.replay.replay import looks_different
from scrubjay.screen.picture import Picture

_PATIENCE_S = 0.5
_EDGE_EVERY_S = 0.1  # how often a running pod is looked at while it is followed
_TOLD_US = 2 * SECOND_US  # a skip shorter than this is not worth a word
_AHEAD_US = 10 * SECOND_US  # to look for the next change
_PORTIONS = 50  # in which a film is indexed while it plays
_GROWN_US = 10 * SECOND_US  # of a running pod that are not worth indexing
_BACK_US = SECOND_US  # while it plays, the mark just passed is not the previous one

_Result = TypeVar("_Result")


class View(NamedTuple):
    """A frame with everything around it, read where the film may be used."""

    frame: Frame
    picture: Picture
    time: int  #: that was asked for, in microseconds on the reel
    wall_us: int | None
    duration: int
    live: bool
    still_until: int | None = None  #: when the screen changes next, if that was asked


class Audience(Protocol):
    """Whoever watches."""

    def show(self, view: View) -> None:
        """Draw it."""
        ...

    def say(self, text: str) -> None:
        """Tell the person."""
        ...

    def spawn(self, task: Callable[[], Coroutine[None, None, None]]) -> None:
        """Have it run; what Scrubjay cannot do is said, and any other failure is the player's."""
        ...


class _Wanted(NamedTuple):
    time: int | None  #: None for the live edge
    history: int = 0


class Projector:
    """Shows the frame that belongs to the moment."""

    def __init__(
        self, film: Film, transport: Transport, audience: Audience, clock: Callable[[], float], *, idle_limit_us: int
    ) -> None:
        self._film, self._transport, self._audience, self._clock = film, transport, audience, clock
        self._idle_limit_us = idle_limit_us
        self._lane = Lane()
        self._steps = asyncio.Lock()
        self._wanted: _Wanted | None = None
        self._seeking = False
        self._edge_due_s = 0.0
        self._asked, self._asked_since_s = 0, 0.0  # jobs that are not done
        self._idle: tuple[Idle, ...] = ()
        self._still_since = 0
        self._still_until: int | None = None
        self.view: View | None = None
        self.following = False
        self.duration = 0
        self.live = False
        self._is_indexing, self._indexed_to = False, 0
        self.indexing: float | None = None  #: how much of the film can be reached quickly, 0 to 1; None for all

    @property
    def playing(self) -> bool:
        """Whether the picture moves by itself."""
        return self._transport.playing or self.following

    @property
    def speed(self) -> float:
        """Of playing."""
        return 1.0 if self.following else self._transport.speed

    @property
    def position(self) -> int:
        """Where we are, in microseconds on the reel."""
        return self.duration if self.following else min(self._transport.position(self._clock()), self.duration)

    @property
    def wall_us(self) -> int | None:
        """What the wall clock showed there."""
        if self.view is None or self.view.wall_us is None:
            return None
        return self.view.wall_us + self.position - self.view.time

    @property
    def busy(self) -> bool:
        """Whether something takes so long that a person wonders."""
        return self._asked > 0 and self._clock() - self._asked_since_s >= _PATIENCE_S

    async def ask(self, job: Callable[[], _Result]) -> _Result:
        """Do something with the film, in its turn."""
        if not self._asked:
            self._asked_since_s = self._clock()
        self._asked += 1
        try:
            return await self._lane.do(job)
        finally:
            self._asked -= 1

    def close(self) -> None:
        """Leave the film alone."""
        self._lane.close()

    def tick(self) -> None:
        """Show what belongs to this moment. A frame that is still on its way is waited for."""
        if self._seeking:
            return
        if self.following:
            if self._clock() >= self._edge_due_s:
                self._edge_due_s = self._clock() + _EDGE_EVERY_S
                self._want(_Wanted(None))
        elif self._transport.playing:
            self._play_on()

    def go(self, time: int) -> None:
        """Be at an instant, and play on from there if it plays."""
        time = min(max(0, time), self.duration)
        self._place(time)
        self._want(_Wanted(time))

    def play(self) -> None:
        """Play on; at the end, from the start or what is being recorded."""
        if self.position < self.duration:
            self._transport.play(self._clock())
        elif self.live:
            self.follow()
        else:
            self._transport.play(self._clock())
            self.go(0)

    def pause(self) -> None:
        """Stay here."""
        if self.following:
            self.following = False
            self._transport.go(self.duration, self._clock())
        self._transport.pause(self._clock())
        self._transport.go(self.position, self._clock())

    def follow(self) -> None:
        """Be at the end and, while more is recorded, stay there."""
        self.pause()
        self.go(self.duration)
        self.following = self.live

    def change_speed(self, *, faster: bool) -> None:
        """The next speed."""
        change = self._transport.faster if faster else self._transport.slower
        change(self._clock())

    def look_back(self, rows: int) -> None:
        """Show the same instant with up to ``rows`` of what scrolled off."""
        self._want(_Wanted(self.position, rows))

    async def step(self, *, forward: bool) -> None:
        """Go to the next or previous change of the screen. Each call counts, however fast they come."""
        async with self._steps:
            self.pause()
            position = self.position
            frame = await self.ask(lambda: self._film.step(self._film.seek(position), forward=forward))
            if frame is None:
                self._audience.say("nothing changes after this" if forward else "nothing changed before this")
            else:
                await self._go_and_see(frame.time)

    async def to_mark(self, *, forward: bool) -> None:
        """Go to the next or previous mark."""
        async with self._steps:
            position = self.position
            if forward:
                mark = await self.ask(lambda: self._film.next_mark(position))
            else:
                before = position - _BACK_US if self.playing else position
                mark = await self.ask(lambda: self._film.previous_mark(before))
            if mark is None:
                self._audience.say("no mark after this" if forward else "no mark before this")
            else:
                await self._go_and_see(mark.time)
                self._audience.say(_describe(mark))

    async def survey(self, parts: int) -> Timeline:
        """The whole film at a glance, as it is by now."""

        def look() -> tuple[Timeline, int, bool]:
            live = self._refresh()
            return self._film.timeline(parts), self._film.duration, live

        timeline, self.duration, self.live = await self.ask(look)
        self._idle = timeline.idle
        return timeline

    @property
    def outgrown(self) -> bool:
        """Whether there is so much that is not indexed that it is worth doing so; what has ended is worth it once."""
        # A share of the whole, so that a pod that is watched all night is indexed a few hundred times and no more.
        grown = self.duration - self._indexed_to
        return not self._is_indexing and (grown > max(_GROWN_US, self.duration // 20) or (grown > 0 and not self.live))

    async def index(self, survey: Callable[[], Awaitable[None]]) -> None:
        """Have all of it indexed, in portions between which the person's wishes are granted."""
        self._is_indexing = True
        self._indexed_to = self.duration
        for portion in range(1, _PORTIONS + 1):
            if await self.ask(lambda: self._film.indexed):
                break
            self.indexing = (portion - 1) / _PORTIONS
            time = self.duration // _PORTIONS * portion
            await self.ask(partial(self._film.seek, time))  # which indexes what comes before it
            await survey()
        self.indexing = None
        await self.ask(self._film.index)
        await survey()
        self._is_indexing = False

    async def _go_and_see(self, time: int) -> None:
        self._place(time)
        self._arrive(await self.ask(lambda: self._load(_Wanted(time), look_ahead=False)))

    def _place(self, time: int) -> None:
        self.following = False
        self._transport.go(time, self._clock())
        self._still_since, self._still_until = time, None

    def _play_on(self) -> None:
        position = self._transport.position(self._clock())
        if position >= self.duration:
            self.follow()
            return
        if self._still_until is None or position >= self._still_until:
            self._want(_Wanted(position))
        elif self._idle_limit_us and position - self._still_since >= self._idle_limit_us:
            if self._still_until - position >= _TOLD_US:
                self._audience.say(f"skipped {format_span(self._still_until - position, digits=0)} without a change")
            self._transport.go(self._still_until, self._clock())
            self._want(_Wanted(self._still_until))

    def _want(self, wanted: _Wanted) -> None:
        """Only the newest wish is granted."""
        self._wanted = wanted
        if not self._seeking:
            self._seeking = True
            self._audience.spawn(self._grant)

    async def _grant(self) -> None:
        try:
            while self._wanted is not None:
                wanted, self._wanted = self._wanted, None
                load = partial(self._load, wanted, look_ahead=self._transport.playing)
                try:
                    view = await self.ask(load)
                except ScrubjayError as error:
                    self.pause()
                    self._audience.say(str(error))
                    continue
                self._arrive(view)
        finally:
            self._seeking = False

    def _load(self, wanted: _Wanted, *, look_ahead: bool) -> View:
        film = self._film
        live = self._refresh() if wanted.time is None else self.live
        time = film.duration if wanted.time is None else min(wanted.time, film.duration)
        frame = film.seek(time, history=wanted.history)
        still_until = None
        if look_ahead and self.view is not None and not _differs(self.view.frame, frame):
            still_until = self._look_ahead(time)
        return View(frame, frame.picture, time, film.wall_us(time), film.duration, live, still_until)

    def _look_ahead(self, time: int) -> int:
        """Up to when nothing changes: at least until then."""
        for idle in self._idle:
            if idle.start <= time < idle.stop:
                return idle.stop
        # Within bounds, for a program that is busy without a change to be seen could keep us looking for minutes.
        stop = min(time + _AHEAD_US, self._film.duration)
        return next((frame.time for frame in islice(self._film.frames(time, stop), 1, None)), stop)

    def _refresh(self) -> bool:
        """Take in what was recorded, and whether more will be."""
        # Asked before, or what is recorded in between could be taken for the last there is.
        live = self._film.live
        if live or self.live:
            self._film.refresh()
        return live

    def _arrive(self, view: View) -> None:
        if self.view is None or _differs(self.view.frame, view.frame):
            self._still_since = max(self._still_since, view.frame.time)
        self._still_until = view.still_until
        self.view, self.duration, self.live = view, view.duration, view.live
        if self.following and not self.live:
            self.pause()
            self._audience.say("the pod has ended")
        self._audience.show(view)


def _differs(one: Frame, other: Frame) -> bool:
    return (one.unavailable, one.doubtful) != (other.unavailable, other.doubtful) or looks_different(one, other)


def _describe(mark: Mark) -> str:
    return f"mark: {mark.label} ({mark.author})"
