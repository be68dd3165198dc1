"""Tells people what they should hear: follows the fleet's changes, and sends what is news to every place once.

What a person is told has been claimed in the catalog first, so that a restart does not say it again; in exchange,
what was claimed and not yet sent when the server ends is not said at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.notices import Call, Notice, Watch, fold
from scrubjay.ids import PodId
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.server.changes import Changes
from scrubjay.server.drop_oldest import DropOldest
from scrubjay.server.outlet import Outlet, Pace
from scrubjay.settings import Settings
from scrubjay.store.database import Database
from scrubjay.store.events import last_number
from scrubjay.store.notices import claim_notice, mute_of
from scrubjay.store.pods import PodFacts, list_pods
from scrubjay.store.status import Status

if TYPE_CHECKING:
    from scrubjay.clock import Clock

GATHER_S = 2.0  # from the first notice until it is sent: what comes meanwhile may become one message with it
_FOLD_ABOVE = 3  # of a kind at once that are told one by one
_WAITING_MAX = 1000
_TROUBLE_S = 5.0  # until the catalog is asked again

log = structlog.get_logger()


class Notifier:
    """Everything between a change of the fleet and a person's pocket."""

    def __init__(
        self,
        database: Database,
        changes: Changes,
        clock: Clock,
        settings: Settings,
        *,
        attended: Callable[[PodId], bool],
        random: Random | None = None,
        pace: Pace | None = None,
        gather_s: float = GATHER_S,
    ) -> None:
        """``attended`` says whether somebody looks at a pod."""
        self._database, self._changes, self._clock, self._attended = database, changes, clock, attended
        self._quiet_us = settings.notify_quiet_s * 1_000_000
        # What agents say leaves the machine here, and goes to services of others.
        self._watch = Watch(settings.notify_on, done_after_us=settings.notify_done_after_s * 1_000_000, mask=mask_keys)
        self._gather_s = gather_s
        random, pace = random or Random(), pace or Pace()
        self._outlets = [Outlet(url, random=random, pace=pace) for url in settings.notify_urls]
        self._notices: DropOldest[Notice] = DropOldest(_WAITING_MAX)
        self._postponed: dict[str, tuple[int, Notice]] = {}  #: by key: when to look again, and at what
        self._claimed_us: dict[str, int] = {}  #: what was claimed while the catalog could not be asked

    async def run(self) -> None:
        """Tell people, until cancelled; returns at once where there is nobody to tell."""
        if not self._outlets:
            return
        number = await self._learn()
        async with asyncio.TaskGroup() as tasks:
            for outlet in self._outlets:
                tasks.create_task(outlet.run())
            tasks.create_task(self._follow(number))
            tasks.create_task(self._tell())

    def called(self, pod: PodId, call: Call, title: str, body: str) -> None:
        """An agent rang its bell or sent a notification; never waits."""
        self._offer(self._watch.called(pod, call, title, body, attended=self._attended(pod)))

    def _offer(self, notice: Notice | None) -> None:
        if notice is not None and self._notices.put(notice):
            log.warning("notice.dropped", waiting=_WAITING_MAX)

    # From changes to notices.

    async def _learn(self) -> int:
        """Take the fleet as it is; the number of the last change that is in that."""
        while True:
            try:
                number, pods = await self._database.read(_read_fleet)
                break
            except ScrubjayError as error:
                log.warning("notices.not_begun", error=str(error))
                await asyncio.sleep(_TROUBLE_S)
        for facts, status in pods:
            self._watch.learn(
                facts.id, facts.name, status.describe(), created_us=facts.created_us, since_us=status.since_us
            )
        return number

    async def _follow(self, number: int) -> None:
        while True:
            try:
                events = await self._changes.after(number)
            except ScrubjayError as error:
                log.warning("notices.not_followed", error=str(error))
                await asyncio.sleep(_TROUBLE_S)
                continue
            for event in events:
                number = event.number
                self._offer(self._watch.observe(event.kind, event.pod, event.data, wall_us=event.wall_us))

    # From notices to messages.

    async def _tell(self) -> None:
        while True:
            gathered = await self._gather()
            # The last of a key knows best.
            fresh = list({notice.key: notice for notice in gathered}.values())
            wanted = [notice for notice in fresh if await self._may_tell(notice)]
            for message in fold(wanted, most=_FOLD_ABOVE):
                for outlet in self._outlets:
                    outlet.put(message)

    async def _gather(self) -> list[Notice]:
        """The next notices: what comes within a moment, or what was kept quiet and still is so."""
        try:
            async with asyncio.timeout(self._until_next_s()):
                first = await self._notices.get()
        except TimeoutError:
            return self._take_postponed()
        await asyncio.sleep(self._gather_s)
        return [first, *self._notices.take_all()]

    def _until_next_s(self) -> float | None:
        if not self._postponed:
            return None
        return max(0.0, (min(due for due, _ in self._postponed.values()) - self._clock.monotonic_us()) / 1e6)

    def _take_postponed(self) -> list[Notice]:
        now = self._clock.monotonic_us()
        due = [(key, notice) for key, (at, notice) in self._postponed.items() if at <= now]
        for key, _ in due:
            del self._postponed[key]
        return [notice for _, notice in due if self._watch.holds(notice) and not self._is_attended(notice)]

    def _is_attended(self, notice: Notice) -> bool:
        return notice.pod is not None and self._attended(notice.pod)

    async def _may_tell(self, notice: Notice) -> bool:
        """Whether nobody was told of it lately, and somebody wants to be."""
        claim = partial(_claim, notice=notice, wall_us=self._clock.wall_us(), quiet_us=self._quiet_us)
        try:
            claimed = await self._database.write(claim)
        except ScrubjayError as error:
            # That the catalog has trouble may be what there is to tell.
            log.warning("notice.not_claimed", error=str(error))
            claimed = self._claim_here(notice)
        if claimed is False and notice.kind == "needs_you" and notice.key not in self._postponed:
            # If it still needs somebody once it may be said again, nobody has come.
            self._postponed[notice.key] = (self._clock.monotonic_us() + self._quiet_us, notice)
        return claimed is True

    def _claim_here(self, notice: Notice) -> bool:
        now = self._clock.monotonic_us()
        self._claimed_us = {key: at for key, at in self._claimed_us.items() if now - at < self._quiet_us}
        if notice.key in self._claimed_us:
            return False
        self._claimed_us[notice.key] = now
        return True


def _read_fleet(connection: Connection) -> tuple[int, list[tuple[PodFacts, Status]]]:
    return last_number(connection), list_pods(connection)


def _claim(connection: Connection, *, notice: Notice, wall_us: int, quiet_us: int) -> bool | None:
    """Whether it may be told now; None if nobody wants to hear of the pod."""
    if notice.pod is not None and mute_of(connection, notice.pod, wall_us=wall_us) is not None:
        return None
    return claim_notice(connection, notice.key, wall_us=wall_us, quiet_us=quiet_us)
