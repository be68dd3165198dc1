"""Turns of agents whose hooks tell of them, remembered without the agent's help.

The tape is the truth: what is remembered is what its events say, in their order. How far a tape was looked through
moves in the transaction that remembers what was found, so a server that is killed goes on where it was, and no turn is
lost or there twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial

import structlog

from scrubjay.errors import NotATape, ScrubjayError
from scrubjay.fleet.memories import Memory
from scrubjay.fleet.turns import Captured, ClockRead, Heard, Underway, finish, hear, read_heard
from scrubjay.ids import PodId
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.store.capture import Progress, capture_turns, read_progress
from scrubjay.store.events import Event
from scrubjay.tape.format import RECORD_OVERHEAD_BYTES, Kind
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import decode_json

LOOK_EVERY_S = 2.0  # at tapes that have grown; a pod that becomes idle is looked at sooner
BUSY_ROUNDS = 8  # those who work are looked at so much less often: their turn has not ended, as far as is known
SETTLE_S = 0.3  # what a hook tells comes a moment after what the screen shows, and is synced another one later
PORTION_BYTES = 4 << 20  # of a tape, looked through at a time
SAVE_EVERY_BYTES = 64 << 20  # without anything found; so much is looked through again after a crash

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Portion:
    """What a part of a tape tells."""

    heard: list[Heard | ClockRead]
    offset: int  #: where it ends
    more: bool  #: follows at once
    sealed: bool


class Capture:
    """Looks through tapes for turns."""

    def __init__(self, tower: Tower, *, enabled: bool = True) -> None:
        self._tower, self._enabled = tower, enabled
        self._saved: dict[PodId, Progress] = {}
        self._places: dict[PodId, Progress] = {}  # further on than what is saved, with nothing found in between
        self._looked: dict[PodId, int] = {}  # how far a tape went that grows when all of it was looked through
        self._sealed: dict[PodId, int] = {}  # where the last seal ends that was read
        self._due: set[PodId] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Remember what there is and what comes, until cancelled."""
        if not self._enabled:
            return
        self._saved = await self._tower.database.read(read_progress)
        self._tower.changes.listeners.append(self._observe)
        self._due.update(self._tower.pods)
        rounds = 0
        try:
            while True:
                rounds += 1
                due, self._due = self._due | self._grown(busy=rounds % BUSY_ROUNDS == 0), set()
                for pod in due:
                    await self._try_look(pod)
                await self._wait()
        finally:
            self._tower.changes.listeners.remove(self._observe)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(LOOK_EVERY_S):
                await self._woken.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(SETTLE_S)
        self._woken.clear()

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            if event.pod is not None and event.kind.startswith("pod."):
                self._due.add(event.pod)
                self._woken.set()

    def _grown(self, *, busy: bool) -> set[PodId]:
        """Those whose tape has grown or is not done although nothing else is new; with ``busy`` also those who work."""
        return {
            pod
            for pod, known in self._tower.pods.items()
            if (busy or not _is_busy(known))
            and self._is_wanted(pod, known)
            # A pod's end is announced a moment before it is known, and the rest of a copy may come long after it.
            and (known.report.complete or self._looked.get(pod, 0) != self._end(pod))
        }

    def _is_wanted(self, pod: PodId, known: KnownPod) -> bool:
        """Whether there may be turns on a tape that are not remembered: without an agent nobody tells of any."""
        report = known.report
        tells = report.agent is not None or report.conversation is not None
        return tells and not report.imported and not self._place(pod).done

    def _place(self, pod: PodId) -> Progress:
        return self._places.get(pod) or self._saved.get(pod) or Progress()

    def _end(self, pod: PodId) -> int:
        return self._tower.tape_end(pod) or 0

    async def _try_look(self, pod: PodId) -> None:
        known = self._tower.pods.get(pod)
        if known is None:
            for kept in (self._saved, self._places, self._looked, self._sealed):
                kept.pop(pod, None)
        elif self._is_wanted(pod, known):
            try:
                await self.look(pod)
            except NotATape:
                pass  # none of it has come yet, or it is being deleted
            except (OSError, ScrubjayError) as error:
                self._places.pop(pod, None)  # what was found after what is saved is to be found again
                log.warning("turns.not_captured", pod=pod, error=str(error))

    async def look(self, pod: PodId) -> None:
        """Remember the turns that have come to a tape since it was last looked through; NotATape if there is none."""
        report, end = self._tower.pods[pod].report, self._end(pod)
        # What is not synced may still be lost in a power cut, and then be something else.
        kept = None if report.complete else (await asyncio.to_thread(self._tower.tapes.have, pod)).kept
        tape = await asyncio.to_thread(self._tower.open_tape, pod)
        while not self._place(pod).done:
            place = self._place(pod)
            portion = await asyncio.to_thread(read_portion, tape, place.offset, kept)
            underway, turns = place.underway, list[Captured]()
            for heard in portion.heard:
                underway, ended = hear(underway, heard)
                turns += ended
            if portion.sealed:
                self._sealed[pod] = portion.offset
            # A seal is the last record of a tape that is complete, also where its end was not reported.
            whole = self._sealed.get(pod) == portion.offset or (
                0 < report.end <= await asyncio.to_thread(lambda: tape.end)
            )
            done = report.complete and not portion.more and whole
            if done:
                turns += finish(underway, portion.offset)
                underway = Underway()
            await self._move(pod, turns, Progress(portion.offset, underway, done))
            if not portion.more:
                break
        if self._place(pod).offset >= end:
            self._looked[pod] = end

    async def _move(self, pod: PodId, turns: list[Captured], to: Progress) -> list[Memory]:
        saved = self._saved.get(pod, Progress())
        if not turns and not to.done and to.offset - saved.offset < SAVE_EVERY_BYTES:
            self._places[pod] = to
            return []
        body = partial(capture_turns, pod=pod, turns=turns, before=saved, after=to, wall_us=self._tower.clock.wall_us())
        self._saved[pod], memories = await self._tower.database.write(body)
        self._places.pop(pod, None)
        return memories


def _is_busy(known: KnownPod) -> bool:
    status = known.report.status
    return status is not None and status.activity == "executing"


def read_portion(tape: Tape, offset: int, kept: int | None) -> _Portion:
    """What the events of a tape tell from an offset on, up to what is kept."""
    heard: list[Heard | ClockRead] = []
    position, sealed = offset, False
    for item in tape.skim(offset):
        if isinstance(item, Damage):
            continue  # or a record that is being written: then nothing follows it, and it is read the next time
        kind, at, payload, end = item
        if kept is not None and end > kept:
            break
        position = end
        if kind == Kind.EVENT and b'"source"' in payload:
            told = read_heard(end - len(payload) - RECORD_OVERHEAD_BYTES, end, at, decode_json(payload))
            if told is not None:
                heard.append(replace(told, said=mask_keys(told.said)))  # it can be searched from now on
        elif kind == Kind.CLOCK and isinstance(wall_us := decode_json(payload).get("wall"), int):
            heard.append(ClockRead(at, wall_us))
        sealed = kind == Kind.SEAL
        if end - offset >= PORTION_BYTES:
            return _Portion(heard, position, more=True, sealed=sealed)
    return _Portion(heard, position, more=False, sealed=sealed)
