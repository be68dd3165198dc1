"""All of it together, as the server has it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

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
from scrubjay.server.sessions.capture import Capture
from scrubjay.server.sessions.memories import Memories
from scrubjay.server.sessions.pod_resume import PodResume
from scrubjay.server.sessions.resuming import Resuming
from scrubjay.server.sessions.sessions import Sessions
from scrubjay.server.sessions.summaries import Summaries
from scrubjay.server.sessions.summing_up import SummingUp
from scrubjay.server.tower import Tower
from scrubjay.settings import Settings


class Coordination:
    """Who may do what to whom, who says what, and who waits."""

    def __init__(self, tower: Tower, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        """``environ`` is where a summariser finds its key, and what one that is a program runs in."""
        self.tower = tower
        self.reception = Reception(tower)
        self.permits = PodPermits(self.reception)
        self.lookout = Lookout(tower, starving_after_us=settings.starving_after_s * 1_000_000)
        self.bindings = Bindings(self.reception)
        self.channels = Channels(self.reception)
        self.waits = Waits(self.reception, self.channels, self.lookout)
        self.sessions = Sessions(self.reception, settings)
        self.memories = Memories(self.reception, self.sessions)
        self.resuming = Resuming(self.reception, self.sessions, self.memories, self.channels)
        self.pod_resume = PodResume(self.reception, self.sessions)
        self.summaries = Summaries(self.reception, settings, environ)
        self.summing_up = SummingUp(self.reception, self.sessions, self.summaries)
        self.capture = Capture(tower, enabled=settings.capture_turns)
        self.handoffs = Handoffs(self.reception, self.sessions)
        self.topology = Topology(self.reception, self.lookout)
        self.typist = Typist(tower)
        self.courier = Courier(self.reception, type_messages=settings.type_messages)

    async def begin(self) -> None:
        """Take up what the catalog knows."""
        await self.reception.begin()
        await self.lookout.begin()
        await self.courier.begin()

    async def run(self) -> None:
        """Look out, bring messages, remember turns and sum them up, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lookout.run())
            tasks.create_task(self.sessions.run())
            tasks.create_task(self.courier.run())
            tasks.create_task(self.summaries.run())
            tasks.create_task(self.capture.run())
