"""What the guard and the routes of tokens and logins share: who may come in, who is in, who failed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from scrubjay.server.credentials import Credentials
from scrubjay.server.limits import Failures
from scrubjay.server.open_connections import OpenConnections
from scrubjay.server.origins import Addresses
from scrubjay.store.database import Database
from scrubjay.wire.viewer import LOGGED_OUT

if TYPE_CHECKING:
    from scrubjay.clock import Clock

log = structlog.get_logger()


class Gate:
    """One server's own: the guard stands in it, and the routes ask it."""

    def __init__(self, database: Database, clock: Clock, addresses: Addresses) -> None:
        self.clock, self.addresses = clock, addresses
        self.credentials = Credentials(database, clock)
        self.failures = Failures(clock)
        self.connections = OpenConnections()

    async def put_out(self, principal_id: str, *, reason: str) -> int:
        """Close what somebody has open and believe nothing about them any more; returns how many connections."""
        self.credentials.forget(principal_id)
        closed = await self.connections.close(principal_id, code=LOGGED_OUT, reason=reason)
        if closed:
            log.info("guard.closed", principal=principal_id, reason=reason, connections=closed)
        return closed
