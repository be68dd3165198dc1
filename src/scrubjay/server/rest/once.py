"""Requests that may come again and are carried out once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from scrubjay.fleet.access import Principal
from scrubjay.server.tower import Tower
from scrubjay.store.requests import remember, remembered
from scrubjay.tape.record import Json


async def once(tower: Tower, asker: Principal, key: str | None, carry_out: Callable[[], Awaitable[Json]]) -> Json:
    """The answer that was given to the same key before, or that of carrying it out now.

    Two at the same time wait for one another. A failure is not remembered: what failed may be tried again.
    """
    if key is None:
        return await carry_out()
    async with tower.one_at_a_time(asker.id, key):
        known = await tower.database.read(partial(remembered, principal=asker.id, key=key))
        if known is not None:
            return known
        answer = await carry_out()
        kept = {name: value for name, value in answer.items() if not isinstance(value, bytes)}
        body = partial(remember, principal=asker.id, key=key, answer=kept, wall_us=tower.clock.wall_us())
        await tower.database.write(body)
        return kept
