"""Which pods wait at their prompts, and whether somebody is typing there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from scrubjay.fleet.process import SURE
from scrubjay.ids import PodId
from scrubjay.server.coordination.turns import inputs_between
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.store.events import Event
from scrubjay.tape.record import Json
from scrubjay.tape.typed import TypedLines

RESTED_S = 1.0  # for which it must have waited: some agents rest for a moment within a turn
QUIET_S = 2.0  # after somebody's last key, before anything else is typed
AUTHOR = "scrubjay:message"  # who types messages, as the tape names them
_READ_BACK_BYTES = 4 << 20  # of a tape, at most; who has begun a line before that does not go on with it


class Prompts:
    """What pods do, as far as it matters to who wants to type something."""

    def __init__(self, tower: Tower) -> None:
        self._tower = tower
        self._began_s = time.monotonic()
        self._idle_since: dict[PodId, float] = {}
        self._told_at: dict[PodId, float] = {}  # when it was given something to do
        self._linked_since: dict[str, float] = {}  # runners: what one says first may be what it knew before
        self._worked: dict[PodId, int] = {}  # where on the tape a pod was last seen at work
        self._keys: dict[PodId, tuple[int, float]] = {}  # the last that somebody pressed, and when we saw that

    def observe(self, events: list[Event]) -> None:
        """Take in what has happened."""
        for event in events:
            if event.kind == "pod.status" and event.pod is not None:
                self._take_status(event.pod, event.data)
            elif event.kind == "pod.removed" and event.pod is not None:
                for known in (self._idle_since, self._told_at, self._worked, self._keys):
                    known.pop(event.pod, None)
            elif event.kind == "runner.connected":
                self._linked_since[str(event.data["runner"])] = time.monotonic()

    def _take_status(self, pod: PodId, status: Json) -> None:
        if status.get("activity") == "idle":
            self._idle_since.setdefault(pod, time.monotonic())
            return
        self._idle_since.pop(pod, None)
        evidence = cast(Json, status.get("evidence", {}))
        if status.get("activity") is not None and _is_seen(cast("list[Json]", evidence.get("signals", []))):
            offset = evidence.get("offset")
            self._worked[pod] = offset if isinstance(offset, int) else 0

    def is_idle(self, known: KnownPod) -> bool:
        """Whether a pod waits for a prompt, as far as is known; of a program that is no agent, whether it reads a line.

        Nobody can tell what such a program will do with the line.
        """
        report = known.report
        status = report.status
        if report.process != "running" or status is None or status.activity != "idle":
            return False
        return status.confidence >= SURE or (report.agent is None and _reads_line(status.evidence))

    def has_rested(self, known: KnownPod) -> bool:
        """Whether it has done so for a moment."""
        pod = PodId(known.report.id)
        since_s = max(
            self._began_s,
            self._linked_since.get(known.runner, 0.0),
            self._idle_since.get(pod, 0.0),
            self._told_at.get(pod, 0.0),
        )
        return self.is_idle(known) and time.monotonic() - since_s >= RESTED_S

    def begin_rest(self, pod: PodId) -> None:
        """It was given something to do: until that is seen, let a moment pass."""
        self._told_at[pod] = time.monotonic()

    def worked_since(self, known: KnownPod, offset: int) -> bool:
        """Whether it was seen at work behind an offset of its tape; that a line was entered is not enough."""
        status = known.report.status
        if status is not None and status.activity != "idle" and status.offset > offset and _is_seen(status.evidence):
            return True
        return self._worked.get(PodId(known.report.id), 0) > offset

    async def is_disturbed(self, known: KnownPod, *, until: int | None = None) -> bool:
        """Whether somebody is typing there: a line is begun and not ended, or a key was pressed just now.

        By the tape up to an offset, or as far as it is here.
        """
        pod, status = PodId(known.report.id), known.report.status
        if status is None:
            return True
        begin, end = await asyncio.to_thread(self._span, pod, status.offset, until)
        lines, last = TypedLines(), 0
        for record in await inputs_between(self._tower, pod, begin, end):
            typed = record.typed()
            if record.offset >= status.offset and typed.author != AUTHOR and typed.answers is None:
                lines.feed("", typed.data)
                last = record.end
        return lines.unfinished or self._is_recent(pod, last)

    def _span(self, pod: PodId, since: int, until: int | None) -> tuple[int, int]:
        """What to read of a tape, from a record on."""
        tape = self._tower.open_tape(pod)
        here = tape.end
        end = here if until is None else until
        begin = max(since, end - _READ_BACK_BYTES)
        return tape.align(begin) if begin < here else begin, max(begin, end)

    def _is_recent(self, pod: PodId, key: int) -> bool:
        # By when we first saw it: clocks of other machines may be wrong.
        if not key:
            return False
        now = time.monotonic()
        known = self._keys.get(pod)
        if known is None or known[0] != key:
            self._keys[pod] = key, now
            return True
        return now - known[1] < QUIET_S


def _reads_line(signals: Sequence[Json]) -> bool:
    return any(signal.get("signal") in ("process", "paste") for signal in signals)


def _is_seen(signals: Sequence[Json]) -> bool:
    """Whether something shows it, and not only that somebody pressed Enter, and something was drawn then."""
    return any(signal.get("signal") not in ("typed", "output") for signal in signals)
