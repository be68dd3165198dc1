"""One message on its way into the terminal of one pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from scrubjay.errors import NoSuchPod
from scrubjay.fleet.access import Principal
from scrubjay.fleet.errand import PARTS, Sight, Step, next_step
from scrubjay.fleet.typed_message import Screen, find_line, typed_line
from scrubjay.ids import PodId
from scrubjay.screen.picture import Picture
from scrubjay.screen.snapshot import read_picture
from scrubjay.server.coordination.prompts import AUTHOR, Prompts
from scrubjay.server.coordination.turns import Turn, last_inputs, take_turn
from scrubjay.server.coordination.typist import ENTER
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.store.messages import Queued, begin_typing, deliver, give_up_typing
from scrubjay.tape.record import Record
from scrubjay.wire.messages import Keyframe

LOOK_EVERY_S = 0.1
_KNOWN_WITHIN_S = 2.0  # what the runner has reported before it answered
_BACKSPACE = b"\x7f"
_TYPIST = Principal("scrubjay", "operator", "scrubjay")  # who has the keyboard meanwhile, for people


class Delivering:
    """What ``fleet.errand`` decides, done."""

    def __init__(
        self,
        tower: Tower,
        prompts: Prompts,
        queued: Queued,
        pod: PodId,
        *,
        channel: str,
        failures: int,
        is_queued: Callable[[], bool],
    ) -> None:
        """``channel`` is what the reader calls the place where it was said."""
        self._tower, self._prompts = tower, prompts
        self._delivery, self._pod = queued.delivery, pod
        self._line = typed_line(queued.delivery.message, channel)
        self._is_queued = is_queued
        self.resumes = queued.typing_pod is not None  #: whether it was begun before
        self._from_offset = queued.typing_offset or 0
        self.sight = Sight(claimed=self.resumes, attempts=queued.delivery.attempts, failures=failures)
        self._turn: Turn | None = None
        self._turns = AsyncExitStack()
        self._disturbed = False
        self._entered_at = 0  # where on the tape Enter was pressed behind it
        self._screen: Screen | None = None
        self._before: Screen | None = None  # Enter was pressed
        self._since_s = asyncio.get_running_loop().time()

    async def run(self) -> Step:
        """Go as far as can be gone now; the last step says how far that is."""
        async with self._turns:
            while True:
                self.sight = self._now()
                step = next_step(self.sight)
                match step:
                    case "claim":
                        await self._claim()
                    case "trace":
                        await self._trace()
                    case "type":
                        await self._type()
                    case "look":
                        await self._look()
                    case "enter":
                        await self._enter()
                    case "erase":
                        await self._erase()
                    case "deliver":
                        body = partial(deliver, how="typed", wall_us=self._tower.clock.wall_us())
                        await self._tower.database.write(partial(body, delivery=self._delivery))
                        self._prompts.begin_rest(self._pod)
                        return step
                    case "release" | "abandon":
                        await self._tower.database.write(
                            partial(give_up_typing, delivery=self._delivery, counts=step == "abandon")
                        )
                        return step
                    case "rest" | "leave":
                        return step

    def _now(self) -> Sight:
        """What is known now: by us, and of the pod."""
        known = self._tower.pods.get(self._pod)
        seen = replace(self.sight, queued=self._is_queued(), over=known is None or known.over)
        if known is None or known.over:
            return seen
        return replace(
            seen,
            idle=self._prompts.is_idle(known),
            ready=self._prompts.has_rested(known) and not self._disturbed,
            worked=seen.entered and self._prompts.worked_since(known, self._entered_at),
            since_s=asyncio.get_running_loop().time() - self._since_s,
        )

    def _known(self) -> KnownPod:
        known = self._tower.pods.get(self._pod)
        if known is None:
            raise NoSuchPod(self._pod)
        return known

    async def _take_turn(self) -> Turn:
        if self._turn is None:
            taking = take_turn(self._tower, self._known(), _TYPIST, author=AUTHOR)
            self._turn = await self._turns.enter_async_context(taking)
        return self._turn

    # What is done.

    async def _claim(self) -> None:
        if self._turn is None and await self._prompts.is_disturbed(self._known()):
            self._disturbed = True  # that may be so for hours, and no reason to take the keyboard each time
            return
        turn = await self._take_turn()
        await self._see()  # without a screen nobody could tell what becomes of it
        self._disturbed = await self._prompts.is_disturbed(self._known(), until=turn.offset)
        body = partial(begin_typing, delivery=self._delivery, pod=self._pod, offset=turn.offset)
        if not self._now().ready or not await self._tower.database.write(body):
            self._disturbed = True  # so there is nothing to be typed for now
            return
        self._from_offset, self._entered_at, self._before = turn.offset, 0, None
        attempts = self.sight.attempts + 1
        self.sight = Sight(claimed=True, attempts=attempts, failures=self.sight.failures, traced=True)

    async def _trace(self) -> None:
        """Find out how far it had come before we came."""
        known = self._tower.pods.get(self._pod)
        if known is None:
            inputs: list[Record] = []  # its tape was deleted with it
        elif known.over:
            inputs = await last_inputs(self._tower, known, self._from_offset)
        else:
            turn = await self._take_turn()
            inputs = await turn.inputs_since(self._from_offset)
            await self._see()
            self._disturbed = await self._prompts.is_disturbed(self._known(), until=turn.offset)
        parts, enter = _traces(inputs)
        if enter is not None:
            self._entered_at, self._before = enter.end, await self._screen_at(enter.offset)
        self.sight = replace(self.sight, traced=True, parts=parts, found=parts > 0, entered=enter is not None)
        self._since_s = asyncio.get_running_loop().time()

    async def _type(self) -> None:
        await self._strike(self._line.strokes[self.sight.parts].encode())
        self.sight = replace(self.sight, parts=self.sight.parts + 1, found=False)

    async def _enter(self) -> None:
        self._before = self._screen
        offset = await self._strike(ENTER)
        self._entered_at = self._entered_at or offset
        self.sight = replace(self.sight, entered=True, presses=self.sight.presses + 1)

    async def _erase(self) -> None:
        typed = "".join(self._line.strokes[: 1 if self.sight.shown == "begun" else PARTS])
        await self._strike(_BACKSPACE * len(typed))
        self.sight = replace(self.sight, erased=True)

    async def _strike(self, data: bytes) -> int:
        turn = await self._take_turn()
        offset = await turn.type(data)
        self.sight = replace(self.sight, shown=None)
        self._since_s = asyncio.get_running_loop().time()
        return offset

    # What is seen.

    async def _look(self) -> None:
        if self.sight.shown is not None:
            await asyncio.sleep(LOOK_EVERY_S)
        known = self._tower.pods.get(self._pod)
        shown = find_line(
            await self._see(),
            self._line,
            entered=self.sight.entered,
            before=self._before,
            reads_lines=known is not None and known.report.agent is None,
        )
        self.sight = replace(self.sight, shown=shown)

    async def _see(self) -> Screen:
        """The screen now, with all that is known of the pod up to there."""
        known = self._known()
        if known.over:
            frame = await self._tower.cinema.show(self._pod, lambda reel: reel.seek(reel.duration))
            self._screen = _screen_of(frame.picture)
            return self._screen
        answer = await self._tower.ask(known, Keyframe(pod=self._pod))
        snapshot = answer["snapshot"]
        assert isinstance(snapshot, bytes)
        self._screen = _screen_of(await asyncio.to_thread(read_picture, snapshot))
        await self._catch_up(known)
        return self._screen

    async def _screen_at(self, offset: int) -> Screen | None:
        frame = await self._tower.cinema.show(self._pod, lambda reel: reel.seek_offset(offset))
        return None if frame.unavailable is not None else _screen_of(frame.picture)

    async def _catch_up(self, known: KnownPod) -> None:
        """What the runner saw before it answered is on its way into the catalog."""
        deadline = asyncio.get_running_loop().time() + _KNOWN_WITHIN_S
        while not self._tower.peer_of(known).caught_up and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)


def _traces(inputs: list[Record]) -> tuple[int, Record | None]:
    """How many parts of the line were typed, and the Enter behind all of them."""
    parts = 0
    for record in inputs:
        said = record.typed()
        if said.answers is not None or (said.data and not said.data.strip(_BACKSPACE)):
            continue
        if parts == PARTS and (b"\r" in said.data or b"\n" in said.data):
            return parts, record
        parts = min(PARTS, parts + (said.author == AUTHOR))
    return parts, None


def _screen_of(picture: Picture) -> Screen:
    lines = [line.text for line in picture.lines]
    cursor = picture.cursor
    until = "\n".join([*lines[: cursor.y], lines[cursor.y][: cursor.x] if cursor.y < len(lines) else ""])
    return Screen("\n".join(lines), until)
