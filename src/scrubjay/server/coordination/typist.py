"""Typing for those who may ask twice: what is asked for by the same key is typed once, whatever dies in between."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from scrubjay.errors import BadInput
from scrubjay.fleet.access import Principal
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.turns import Turn, last_inputs, take_turn
from scrubjay.server.rest.once import once
from scrubjay.server.tower import KnownPod, Tower, author_of
from scrubjay.store.typed_requests import Intent, intend, intended
from scrubjay.tape.record import Json, Record

ENTER_AFTER_S = 0.1  # programs that take a burst for a paste do not take an Enter in it for one
ENTER = b"\r"


@dataclass(frozen=True, slots=True)
class _Stroke:
    """Bytes that are typed at once, and the key of just these."""

    key: str
    data: bytes


class Typist:
    """Types what agents ask for."""

    def __init__(self, tower: Tower) -> None:
        self._tower = tower

    async def type(self, actor: Actor, known: KnownPod, data: bytes, *, enter: bool, takeover: bool = False) -> Json:
        """Type into a pod, then Enter by itself; the answer is as that of ``type_once``."""
        _require_something(data, enter=enter)
        self._tower.require_running(known)
        async with self._turn(actor, known, takeover=takeover) as turn:
            if data:
                await turn.type(data)
            if enter:
                await asyncio.sleep(ENTER_AFTER_S if data else 0)
                await turn.type(ENTER)
            return {"offset": turn.offset, "typed": True}

    async def type_once(
        self, actor: Actor, known: KnownPod, data: bytes, *, enter: bool, key: str, takeover: bool = False
    ) -> Json:
        """Type into a pod, then Enter by itself; the same key for the same pod again has the same answer, and no more.

        The answer is ``offset``, where the tape ends behind what was typed, and ``typed``. An error leaves it to the
        next try to find out on the tape what was typed, and to type only the rest.
        """
        _require_something(data, enter=enter)
        named = f"type {known.report.id} {key}"
        strokes = [_Stroke(f"{named} text", data)] if data else []
        if enter:
            strokes.append(_Stroke(f"{named} enter", ENTER))
        carry_out = partial(self._type, actor, known, strokes, takeover=takeover)
        return await once(self._tower, actor.principal, named, carry_out)

    async def _type(self, actor: Actor, known: KnownPod, strokes: list[_Stroke], *, takeover: bool) -> Json:
        if known.over:
            return await self._recall(actor.principal, known, strokes)
        offset = 0
        async with self._turn(actor, known, takeover=takeover) as turn:
            for number, stroke in enumerate(strokes):
                if number:
                    await asyncio.sleep(ENTER_AFTER_S)
                offset = await self._strike(turn, actor.principal, stroke)
        return {"offset": offset, "typed": True}

    def _turn(self, actor: Actor, known: KnownPod, *, takeover: bool) -> AbstractAsyncContextManager[Turn]:
        principal = actor.principal
        return take_turn(self._tower, known, principal, author=author_of(principal), takeover=takeover)

    async def _strike(self, turn: Turn, principal: Principal, stroke: _Stroke) -> int:
        """Type something unless it is on the tape; where it ends there."""
        intent = await self._intended(principal, stroke)
        if intent is not None:
            end = _find(intent, await turn.inputs_since(intent.offset))
            if end is not None:
                return end
        intent = Intent(turn.pod, turn.author, turn.offset, turn.epoch)
        wall_us = self._tower.clock.wall_us()
        await self._tower.database.write(
            partial(intend, principal=principal.id, key=stroke.key, intent=intent, wall_us=wall_us)
        )
        return await turn.type(stroke.data)

    async def _recall(self, principal: Principal, known: KnownPod, strokes: list[_Stroke]) -> Json:
        """The answer of a pod that has ended: all of it was typed before; or PodNotRunning."""
        offset = 0
        for stroke in strokes:
            intent = await self._intended(principal, stroke)
            end = None if intent is None else _find(intent, await last_inputs(self._tower, known, intent.offset))
            if end is None:
                self._tower.require_running(known)
                raise AssertionError("a pod that is over does not run")
            offset = end
        return {"offset": offset, "typed": True}

    async def _intended(self, principal: Principal, stroke: _Stroke) -> Intent | None:
        wall_us = self._tower.clock.wall_us()
        return await self._tower.database.read(
            partial(intended, principal=principal.id, key=stroke.key, wall_us=wall_us)
        )


def _require_something(data: bytes, *, enter: bool) -> None:
    if not data and not enter:
        raise BadInput("there is nothing to type", hint="give text, data or enter")


def _find(intent: Intent, inputs: list[Record]) -> int | None:
    """Where something ends that was to be typed, if it was."""
    ends = [
        record.end
        for record in inputs
        if (typed := record.typed()).author == intent.author and typed.epoch == intent.epoch
    ]
    return ends[-1] if ends else None
