"""Lanes of live screens: each a thread with a worker process of its own.

A worker that hangs or dies holds up the screens of its lane and no others, and nobody outside ever waits for a lane.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from scrubjay.errors import EngineUnavailable, ScreenUnavailable
from scrubjay.replay.workers import Workers
from scrubjay.runner.live_screen import WAITING_MAX_BYTES, LiveKeyframe, LiveScreen
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record

SCREENS_PER_LANE = 16
GATHER_S = 0.003  # in which what arrives is fed together
STUCK_S = 2.0  # in one turn, after which a lane gets no more screens
_END_WITHIN_S = 2.0

Deliver = Callable[[LiveKeyframe | ScreenUnavailable], None]


@dataclass(slots=True, eq=False)
class Berth:
    """A screen's place in a lane, and what has arrived for it. The lane's lock is held by whoever touches it."""

    screen: LiveScreen
    records: list[Record] = field(default_factory=list[Record])
    record_bytes: int = 0
    unread_end: int = 0  #: up to where records came that were too many to keep
    wishes: list[tuple[bool, Deliver]] = field(default_factory=list[tuple[bool, Deliver]])
    due_s: float | None = None  #: when it is to be looked at; the lane's thread alone sets it
    begun: bool = False
    closed: bool = False
    queued: bool = False


class Lane:
    """A thread that keeps some screens up with their tapes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[Berth] = []
        self._berths: set[Berth] = set()
        self._ending = False
        self._turn_began: float | None = None
        self._thread = threading.Thread(target=self._run, name="screens", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether another screen may be put here."""
        began = self._turn_began
        stuck = began is not None and time.monotonic() - began > STUCK_S
        return not self._ending and len(self._berths) < SCREENS_PER_LANE and not stuck

    def add(self, screen: LiveScreen) -> Berth:
        """Keep a screen."""
        berth = Berth(screen)
        with self._changed:
            self._berths.add(berth)
            self._enqueue(berth)
        return berth

    def feed(self, berth: Berth, records: Sequence[Record]) -> None:
        """Records of its tape."""
        if not records:
            return
        with self._changed:
            berth.records += records
            berth.record_bytes += sum([len(record.payload) for record in records])
            if berth.record_bytes > WAITING_MAX_BYTES:
                berth.unread_end = berth.records[-1].end
                berth.records, berth.record_bytes = [], 0
            elif all(record.kind == Kind.INPUT for record in records):
                return  # keys change no screen, and their echo is on its way
            self._enqueue(berth)

    def ask(self, berth: Berth, *, history: bool, deliver: Deliver) -> None:
        """Deliver a keyframe after everything that was fed so far; from the lane's thread."""
        with self._changed:
            if not berth.closed and not self._ending:
                berth.wishes.append((history, deliver))
                self._enqueue(berth)
                return
        deliver(ScreenUnavailable(berth.screen.pod, "it was closed"))

    def remove(self, berth: Berth) -> bool:
        """Let go of a screen; whether the lane is empty."""
        with self._changed:
            berth.closed = True
            self._berths.discard(berth)
            self._enqueue(berth)
            return not self._berths

    def end(self) -> None:
        """End the thread and its worker, once the turn it is at is over."""
        with self._changed:
            self._ending = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for that, but not for a worker that hangs: it ends by itself."""
        self._thread.join(_END_WITHIN_S)

    def _enqueue(self, berth: Berth) -> None:
        if not berth.queued:
            berth.queued = True
            self._queue.append(berth)
            if len(self._queue) == 1:
                self._changed.notify()

    # In its thread.

    def _run(self) -> None:
        with Workers(terminals_each=SCREENS_PER_LANE) as workers:
            with suppress(EngineUnavailable):  # whoever comes is told
                _ = workers.identity
            while True:
                with self._changed:
                    while not self._queue and not self._ending and (wait_s := self._wait_s()) != 0:
                        self._changed.wait(wait_s)
                    if self._ending:
                        break
                    arrived = bool(self._queue)
                if arrived:
                    time.sleep(GATHER_S)
                with self._changed:
                    queue, self._queue = self._queue, []
                self._turn_began = time.monotonic()
                for berth in queue:
                    self._serve(berth, workers)
                self._tick()
                self._turn_began = None
            with self._changed:
                queue, self._queue = self._queue, []
            for berth in queue:
                _disappoint(berth.screen, berth.wishes)

    def _wait_s(self) -> float | None:
        """Until a screen is to be looked at; 0 if that is now, None if nobody knows when."""
        due = min((berth.due_s for berth in self._berths if berth.due_s is not None), default=None)
        return None if due is None else max(0.0, due - time.monotonic())

    def _tick(self) -> None:
        now = time.monotonic()
        with self._changed:
            due = [berth for berth in self._berths if berth.due_s is not None and berth.due_s <= now]
        for berth in due:
            berth.screen.tick()
            berth.due_s = berth.screen.due_s

    def _serve(self, berth: Berth, workers: Workers) -> None:
        with self._changed:
            berth.queued = False
            records, berth.records, berth.record_bytes = berth.records, [], 0
            unread_end, berth.unread_end = berth.unread_end, 0
            wishes, berth.wishes = berth.wishes, []  # with what was fed before them
        screen = berth.screen
        if berth.closed:
            screen.close()
            _disappoint(screen, wishes)
            return
        if not berth.begun:
            berth.begun = True
            screen.begin(workers)
        if unread_end:
            screen.add_unread(unread_end)
        screen.add(records)
        unfinished = screen.work()
        berth.due_s = screen.due_s
        if unfinished:
            with self._changed:
                berth.wishes[:0] = wishes
                self._enqueue(berth)
            return
        for history, deliver in wishes:
            try:
                deliver(screen.keyframe(history=history))
            except ScreenUnavailable as error:
                deliver(error)


def _disappoint(screen: LiveScreen, wishes: list[tuple[bool, Deliver]]) -> None:
    for _, deliver in wishes:
        deliver(ScreenUnavailable(screen.pod, "it was closed"))
