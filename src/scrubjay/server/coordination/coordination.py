"""All of it together, as the server has it."""

from __future__ import annotations

import asyncio

from scrubjay.server.coordination.bindings import Bindings
from scrubjay.server.coordination.channels import Channels
from scrubjay.server.coordination.courier import Courier
from scrubjay.server.coordination.handoffs import Handoffs
from scrubjay.server.coordination.lookout import Lookout
from scrubjay.server.coordination.permits import PodPermits
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.coordination.topology import Topology
from scrubjay.server.coordination.typist import Typist
from scrubjay.server.coordination.waits import Waits
from scrubjay.server.tower import Tower
from scrubjay.settings import Settings


class Coordination:
    """Who may do what to whom, who says what, and who waits."""

    def __init__(self, tower: Tower, settings: Settings) -> None:
        self.tower = tower
        self.reception = Reception(tower)
        self.permits = PodPermits(self.reception)
        self.lookout = Lookout(tower, starving_after_us=settings.starving_after_s * 1_000_000)
        self.bindings = Bindings(self.reception)
        self.channels = Channels(self.reception)
        self.waits = Waits(self.reception, self.channels, self.lookout)
        self.handoffs = Handoffs(self.reception)
        self.topology = Topology(self.reception, self.lookout)
        self.typist = Typist(tower)
        self.courier = Courier(self.reception, type_messages=settings.type_messages)

    async def begin(self) -> None:
        """Take up what the catalog knows."""
        await self.reception.begin()
        await self.lookout.begin()
        await self.courier.begin()

    async def run(self) -> None:
        """Look out, and bring messages, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lookout.run())
            tasks.create_task(self.courier.run())
