"""What the guard and the routes of tokens and logins share: who may come in, who is in, who failed to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import structlog

from scrubjay.errors import CatalogError, CatalogUnavailable
from scrubjay.fleet.access import Action, Principal
from scrubjay.ids import PodId
from scrubjay.server.credentials import Credentials, NewPass
from scrubjay.server.limits import Failures
from scrubjay.server.open_connections import OpenConnection, OpenConnections
from scrubjay.server.origins import Addresses
from scrubjay.store.database import Database
from scrubjay.wire.messages import MCP_PATH
from scrubjay.wire.viewer import FORBIDDEN, LOGGED_OUT

if TYPE_CHECKING:
    from scrubjay.clock import Clock

TIDY_EVERY_S = 600.0  # passes wait for their pods six times as long

log = structlog.get_logger()


class Permits(Protocol):
    """Who may do what to which pod."""

    async def find(self, principal: Principal, action: Action, raw: str) -> PodId:
        """The pod somebody means by a name, id or beginning, if they may do this to it; a ScrubjayError if not."""
        ...

    def allows(self, principal: Principal, action: Action, pod: PodId) -> bool:
        """Whether they may do this to a pod as of now; asked again and again of what is open."""
        ...


class Gate:
    """One server's own: the guard stands in it, and the routes ask it."""

    def __init__(self, database: Database, clock: Clock, addresses: Addresses, permits: Permits) -> None:
        self.clock, self.addresses, self.permits = clock, addresses, permits
        self.credentials = Credentials(database, clock)
        self.failures = Failures(clock)
        self.connections = OpenConnections()
        self.on_pass: Callable[[], None] = lambda: None  #: told when an agent is about to come

    @property
    def mcp_url(self) -> str:
        """Where agents on the server's own machine find its tools."""
        return f"{self.addresses.nearest}{MCP_PATH}"

    async def put_out(self, principal_id: str, *, reason: str) -> int:
        """Close what somebody has open and believe nothing about them any more; returns how many connections."""
        self.credentials.forget(principal_id)
        closed = await self.connections.close(principal_id, code=LOGGED_OUT, reason=reason)
        if closed:
            log.info("guard.closed", principal=principal_id, reason=reason, connections=closed)
        return closed

    async def close_lapsed(self) -> None:
        """Close what is open for something that its owner may not do any more."""
        reason = "no longer allowed"
        for connection in await self.connections.close_where(self._is_lapsed, code=FORBIDDEN, reason=reason):
            log.info("guard.closed", principal=connection.principal.id, reason=reason, connections=1)

    def _is_lapsed(self, connection: OpenConnection) -> bool:
        who = connection.principal
        try:
            return not all(self.permits.allows(who, action, pod) for action, pod in connection.needs)
        except Exception:  # whatever it is, nobody stays for it
            log.exception("guard.not_rechecked", principal=who.id)
            return True

    async def make_pass(self) -> NewPass:
        """The id and token of a pod that is about to be started."""
        made = await self.credentials.create_pass()
        self.on_pass()
        return made

    async def take_back_pass(self, pod: PodId) -> None:
        """End the pass of a pod that was not started; what it has open is closed."""
        await self._put_out_all(await self.credentials.revoke_pass(pod))

    async def offer_pass(self) -> NewPass | None:
        """The same; None if the disk is full, which is no reason not to start a pod."""
        try:
            return await self.make_pass()
        except CatalogUnavailable as error:
            log.warning("pass.not_made", error=str(error))
            return None

    async def withdraw_pass(self, pod: PodId) -> None:
        """End a pass that ``offer_pass`` gave; if the disk is full, when its hour is over."""
        try:
            await self.take_back_pass(pod)
        except CatalogUnavailable as error:
            log.warning("passes.not_revoked", error=str(error))

    async def run(self) -> None:
        """Take back passes whose pods have never come, until cancelled."""
        while True:
            try:
                await self._put_out_all(await self.credentials.revoke_lost_passes())
            except CatalogError as error:
                log.warning("passes.not_revoked", error=str(error))
            await asyncio.sleep(TIDY_EVERY_S)

    async def _put_out_all(self, tokens: list[str]) -> None:
        for token in tokens:
            await self.put_out(f"token:{token}", reason="revoked")
