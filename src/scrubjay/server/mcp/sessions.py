"""What a client that began with a handshake names in each later request, good for every server of the same catalog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from scrubjay.errors import BadId, CatalogUnavailable
from scrubjay.fleet.access import Principal
from scrubjay.ids import WireSessionId, new_wire_session_id, parse_wire_session_id
from scrubjay.store.database import Database
from scrubjay.store.wire_sessions import (
    WireSession,
    add_wire_session,
    find_wire_session,
    is_unseen,
    remove_wire_session,
    see_wire_session,
)
from scrubjay.tape.record import Json

if TYPE_CHECKING:
    from scrubjay.clock import Clock

log = structlog.get_logger()


class WireSessions:
    """The wire sessions in one catalog."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def open(self, principal: Principal, *, client: Json, protocol: str) -> WireSessionId | None:
        """Begin a session; None if the disk is full, which is no reason not to serve: clients do without, too."""
        session = new_wire_session_id()
        body = partial(
            add_wire_session,
            id=session,
            principal=principal.id,
            client=client,
            protocol=protocol,
            wall_us=self._clock.wall_us(),
        )
        try:
            await self._database.write(body)
        except CatalogUnavailable as error:
            log.warning("wire_session.not_kept", error=str(error))
            return None
        return session

    async def find(self, principal: Principal, raw: str) -> WireSession | None:
        """Somebody's own session; None if it is anything else."""
        try:
            session = parse_wire_session_id(raw)
        except BadId:
            return None
        wall_us = self._clock.wall_us()
        found = await self._database.read(
            partial(find_wire_session, id=session, principal=principal.id, wall_us=wall_us)
        )
        if found is not None and is_unseen(found, wall_us=wall_us):
            await self._see(principal, found, wall_us)
        return found

    async def close(self, principal: Principal, raw: str) -> bool:
        """End somebody's own session; False if it is anything else."""
        try:
            session = parse_wire_session_id(raw)
        except BadId:
            return False
        return await self._database.write(partial(remove_wire_session, id=session, principal=principal.id))

    async def _see(self, principal: Principal, session: WireSession, wall_us: int) -> None:
        try:
            await self._database.write(
                partial(see_wire_session, id=session.id, principal=principal.id, wall_us=wall_us)
            )
        except CatalogUnavailable as error:
            log.warning("wire_session.not_kept", error=str(error))
