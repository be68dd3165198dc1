"""Requests that may come again and are carried out once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import structlog
from fastapi import Depends, Header, Request

from scrubjay.errors import CatalogUnavailable
from scrubjay.fleet.access import Principal
from scrubjay.server.tower import Tower
from scrubjay.store.requests import KEEP_US, remember, remembered
from scrubjay.tape.record import Json

_UNKEPT_MAX = 1000  # answers in memory while the catalog takes none

log = structlog.get_logger()


def _key(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(max_length=200, description="The same request with the same key is carried out once within a day."),
    ] = None,
) -> str | None:
    # Of this request: who counts up keys for each kind of request must not get the answer to another.
    return None if idempotency_key is None else f"{request.method} {request.url.path} {idempotency_key}"


IdempotencyKey = Annotated[str | None, Depends(_key)]


async def once(tower: Tower, asker: Principal, key: str | None, carry_out: Callable[[], Awaitable[Json]]) -> Json:
    """The answer that was given to the same key before, or that of carrying it out now.

    Two at the same time wait for one another. A failure is not remembered: what failed may be tried again.
    """
    if key is None:
        return await carry_out()
    async with tower.one_at_a_time(asker.id, key):
        known = await _recall(tower, asker.id, key)
        if known is not None:
            return known
        answer = await carry_out()
        kept = {name: value for name, value in answer.items() if not isinstance(value, bytes)}
        await _keep(tower, asker.id, key, kept)
        return kept


async def _recall(tower: Tower, principal: str, key: str) -> Json | None:
    wall_us = tower.clock.wall_us()
    unkept = tower.unkept.get((principal, key))
    if unkept is not None and unkept[0] > wall_us - KEEP_US:
        return unkept[1]
    return await tower.database.read(partial(remembered, principal=principal, key=key, wall_us=wall_us))


async def _keep(tower: Tower, principal: str, key: str, answer: Json) -> None:
    wall_us = tower.clock.wall_us()
    try:
        await tower.database.write(partial(remember, principal=principal, key=key, answer=answer, wall_us=wall_us))
    except CatalogUnavailable as error:
        # It was carried out. Who is told otherwise tries again, and has it done twice.
        log.warning("answer.not_kept", error=str(error))
        tower.unkept[principal, key] = wall_us, answer
        if len(tower.unkept) > _UNKEPT_MAX:
            tower.unkept.popitem(last=False)
