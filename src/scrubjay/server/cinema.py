"""Screens of recordings at any instant, made in a few threads that each have terminals of their own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from scrubjay.errors import ScrubjayError
from scrubjay.ids import PodId
from scrubjay.replay.reel import Reel, Source
from scrubjay.replay.workers import Workers
from scrubjay.tape.reader import Tape

LANES = 2
FILMS_PER_LANE = 12  # opened and kept for whoever looks next

T = TypeVar("T")


class _Lane:
    """One thread, its workers, and the recordings that are open in it."""

    def __init__(self, number: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"cinema-{number}")
        self._workers: Workers | None = None
        self._reels: OrderedDict[PodId, Reel] = OrderedDict()

    async def show(self, pod: PodId, open_: Callable[[], Source], body: Callable[[Reel], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._show, pod, open_, body)

    def _show(self, pod: PodId, open_: Callable[[], Source], body: Callable[[Reel], T]) -> T:
        reel = self._reels.get(pod)
        if reel is None:
            if self._workers is None:
                self._workers = Workers()
            reel = Reel([open_()], self._workers)
            self._reels[pod] = reel
            while len(self._reels) > FILMS_PER_LANE:
                self._reels.popitem(last=False)[1].free()
        else:
            self._reels.move_to_end(pod)
            reel.refresh()
        try:
            return body(reel)
        except ScrubjayError:
            raise  # what was asked for cannot be; nothing is wrong with the recording
        except BaseException:
            self._forget(pod)  # whatever it was, the next one begins anew
            raise

    def forget(self, pod: PodId) -> None:
        self._thread.submit(self._forget, pod)

    def _forget(self, pod: PodId) -> None:
        reel = self._reels.pop(pod, None)
        if reel is not None:
            reel.free()

    def close(self) -> None:
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _close(self) -> None:
        if self._workers is not None:
            self._workers.close()


class Cinema:
    """Where recordings are shown."""

    def __init__(self, open_tape: Callable[[PodId], Tape], is_growing: Callable[[PodId], bool]) -> None:
        self._open_tape, self._is_growing = open_tape, is_growing
        self._lanes = [_Lane(number) for number in range(LANES)]

    async def show(self, pod: PodId, body: Callable[[Reel], T]) -> T:
        """What ``body`` makes of a pod's recording; NotATape if there is none."""
        return await self._lane(pod).show(pod, lambda: self._source(pod), body)

    def forget(self, pod: PodId) -> None:
        """A recording was deleted."""
        self._lane(pod).forget(pod)

    def close(self) -> None:
        """End all threads and workers."""
        for lane in self._lanes:
            lane.close()

    def _lane(self, pod: PodId) -> _Lane:
        return self._lanes[sum(map(ord, pod)) % LANES]

    def _source(self, pod: PodId) -> Source:
        tape = self._open_tape(pod)
        return Source(tape, Path(tape.folder).parent, lambda: self._is_growing(pod))
