"""A turn at a pod's keyboard, and what the tape says of those before it.

Whether something was typed is on the tape, and there alone: an answer can get lost, and a server die before it comes.
A turn begins by telling the keeper its epoch; what was sent in an earlier one is on the tape by then, or never will be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from scrubjay.errors import NotATape, TapeDamaged
from scrubjay.fleet.access import Principal
from scrubjay.ids import PodId, new_record_id
from scrubjay.server.errors import TapeBehind
from scrubjay.server.tower import KnownPod, Tower
from scrubjay.tape.format import RECORD_OVERHEAD_BYTES, Kind
from scrubjay.tape.reader import Damage
from scrubjay.tape.record import Record
from scrubjay.wire.messages import Type

TAPE_WITHIN_S = 10.0  # for a copy to have what its runner has
_LOOK_EVERY_S = 0.05


class Turn:
    """The right to type into a pod, for a while."""

    def __init__(self, tower: Tower, known: KnownPod, author: str, holder: str, *, epoch: int, offset: int) -> None:
        self.pod, self.author, self.epoch = PodId(known.report.id), author, epoch
        self.offset = offset  #: where the tape ends, as far as we have typed: what comes next is behind it
        self._tower, self._known, self._holder = tower, known, holder

    async def type(self, data: bytes) -> int:
        """Type; where the tape ends then. NotHolder if somebody has taken over.

        If another error comes instead, the tape alone says whether it was typed.
        """
        self._tower.keyboards.require_holder(self.pod, self._holder)
        typed = Type(pod=self.pod, data=data, author=self.author, epoch=self.epoch)
        self.offset = _offset(await self._tower.ask(self._known, typed))
        return self.offset

    async def inputs_since(self, offset: int) -> list[Record]:
        """What was typed by anybody from an offset up to where this turn has come."""
        return await inputs_between(self._tower, self.pod, offset, self.offset)


@asynccontextmanager
async def take_turn(
    tower: Tower, known: KnownPod, principal: Principal, *, author: str, takeover: bool = False
) -> AsyncGenerator[Turn]:
    """Have the keyboard of a pod while inside; KeyboardHeld if somebody else has."""
    pod, holder = PodId(known.report.id), f"turn-{new_record_id()}"
    epoch = await tower.take_keyboard(known, principal, holder, takeover=takeover)
    try:
        # To type nothing changes nothing, but from then on the keeper takes nothing of a lower epoch, however late.
        begun = await tower.ask(known, Type(pod=pod, data=b"", author=author, epoch=epoch))
        yield Turn(tower, known, author, holder, epoch=epoch, offset=_offset(begun))
    finally:
        tower.give_keyboard(pod, holder)


async def inputs_between(tower: Tower, pod: PodId, start: int, end: int) -> list[Record]:
    """The input records of a tape from one offset up to another, both ends of records.

    TapeBehind if the server does not have it that far in time, TapeDamaged if it cannot be told.
    """
    deadline = asyncio.get_running_loop().time() + TAPE_WITHIN_S
    while (found := await asyncio.to_thread(_read_inputs, tower, pod, start, end)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise TapeBehind(pod, end)
        await asyncio.sleep(_LOOK_EVERY_S)
    return found


async def last_inputs(tower: Tower, known: KnownPod, start: int) -> list[Record]:
    """The input records from an offset on of a pod that has ended; TapeBehind, too, if nobody knows where it ends."""
    pod, end = PodId(known.report.id), known.report.end
    if not end:  # it is known from the catalog only, until its runner is back
        raise TapeBehind(pod, start)
    return await inputs_between(tower, pod, start, end)


def _read_inputs(tower: Tower, pod: PodId, start: int, end: int) -> list[Record] | None:
    try:
        tape = tower.open_tape(pod)
    except NotATape:
        return None  # nothing of it has come yet
    if tape.end < end:
        return None
    inputs: list[Record] = []
    reached = start
    for item in tape.skim(start):
        if reached >= end:
            break
        if not isinstance(item, Damage):
            kind, at, payload, reached = item
            if kind == Kind.INPUT:
                inputs.append(Record(reached - len(payload) - RECORD_OVERHEAD_BYTES, kind, at, payload, 0))
        elif item.end > item.offset:
            raise TapeDamaged(pod, item.offset, item.why)
    return inputs


def _offset(answer: dict[str, object]) -> int:
    offset = answer["offset"]
    assert isinstance(offset, int)
    return offset
