"""The live screens of all running pods, from any thread.

One terminal for each, in worker processes. It answers what its agent asks, tells of titles, bells and notifications,
and says what is on the screen at any moment.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from scrubjay.errors import ScreenUnavailable
from scrubjay.ids import PodId
from scrubjay.runner.lanes import Berth, Lane
from scrubjay.runner.live_screen import Heard, LiveKeyframe, LiveScreen
from scrubjay.status.rules import Rules
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Json, Record

__all__ = ["Heard", "LiveKeyframe", "LiveScreens"]

_NO_RULES = Rules()
_KEYFRAME_WITHIN_S = 30.0  # a worker that hangs is given ten seconds, and then its screens are made again


class LiveScreens:
    """The screens of the pods of one machine."""

    def __init__(
        self,
        *,
        heard: Callable[[PodId, Heard], None],
        changed: Callable[[PodId, Json], None] = lambda _pod, _status: None,
    ) -> None:
        """``heard`` and ``changed``, a status that begins, are called from threads of ours; they must neither wait nor
        raise."""
        self._told, self._changed = heard, changed
        self._lock = threading.Lock()
        self._lanes: list[Lane] = []
        self._places: dict[PodId, tuple[Lane, Berth]] = {}

    def warm_up(self) -> None:
        """Start a worker that the next pod need not wait for; the start of one takes longer than a program may."""
        with self._lock:
            self._find_room()

    def _find_room(self) -> Lane:
        lane = next((lane for lane in self._lanes if lane.has_room), None)
        if lane is None:
            lane = Lane()
            self._lanes.append(lane)
        return lane

    def open(self, pod: PodId, tape: Tape, folder: Path, *, answer_from: int, rules: Rules = _NO_RULES) -> None:
        """Keep the screen of a pod, from the end of its tape on, and watch what its agent does by these rules.

        What it asked up to ``answer_from`` is not answered. Opened again, it starts over: what was answered and not
        typed is answered again.
        """
        self.close(pod)
        screen = LiveScreen(
            pod, tape, folder, answer_from=answer_from, rules=rules, heard=self._hear, changed=self._change
        )
        with self._lock:
            lane = self._find_room()
            self._places[pod] = lane, lane.add(screen)
            self._find_room()

    def feed(self, pod: PodId, records: Sequence[Record]) -> None:
        """Records as they were added to the tape, of all kinds; of a pod that is not open they are ignored.

        Never waits. Records that were fed are ignored, those that are missing are read from the tape.
        """
        place = self._places.get(pod)
        if place is not None:
            place[0].feed(place[1], records)

    async def keyframe(self, pod: PodId, *, history: bool = False) -> LiveKeyframe:
        """The screen after everything that was fed so far, with what scrolled off if ``history`` is wanted.

        ScreenUnavailable if the pod is not open or the engine cannot say it.
        """
        place = self._places.get(pod)
        if place is None:
            raise ScreenUnavailable(pod, "the pod is not running here")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[LiveKeyframe | ScreenUnavailable] = loop.create_future()

        def deliver(found: LiveKeyframe | ScreenUnavailable) -> None:
            with suppress(RuntimeError):  # the loop is closed: there is nobody left to tell
                loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(found))

        place[0].ask(place[1], history=history, deliver=deliver)
        try:
            async with asyncio.timeout(_KEYFRAME_WITHIN_S):
                found = await answer
        except TimeoutError:
            raise ScreenUnavailable(pod, "the terminal engine does not answer") from None
        if isinstance(found, ScreenUnavailable):
            raise found
        return found

    def close(self, pod: PodId) -> None:
        """Let go of a pod's screen, if it is open."""
        with self._lock:
            place = self._places.pop(pod, None)
            if place is None:
                return
            lane, berth = place
            if lane.remove(berth) and any(other.has_room for other in self._lanes if other is not lane):
                self._lanes.remove(lane)
                lane.end()

    def shut_down(self) -> None:
        """Let go of all of them and end the workers."""
        with self._lock:
            lanes, self._lanes = self._lanes, []
            self._places.clear()
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.join()

    def _change(self, pod: PodId, status: Json) -> None:
        if pod in self._places:
            self._changed(pod, status)

    def _hear(self, pod: PodId, heard: Heard) -> None:
        if pod in self._places:
            self._told(pod, heard)
