"""Has sessions summarised that have something new and are left alone, or when somebody asks: one after the other.

What is being made is claimed in the catalog. Whoever dies over it loses the claim after a while, and the next one makes
it; whoever ends in order gives it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from scrubjay.errors import CatalogUnavailable, ClaimLost, NoSummariser, ScrubjayError, SummaryStale
from scrubjay.fleet.summaries import Job
from scrubjay.fleet.summary_prompt import Prompt, prompt_of
from scrubjay.ids import new_record_id
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.sessions.summariser import Summariser, SummariserFailed, make_summariser
from scrubjay.settings import Settings
from scrubjay.store.events import Event
from scrubjay.store.memories import list_memories
from scrubjay.store.summaries import latest_summary
from scrubjay.store.summary_claims import claim_job, complete_job, fail_job, give_job_back, has_work, renew_job
from scrubjay.store.summary_jobs import cancel_all_pending, plan_jobs

T = TypeVar("T")

LOOK_EVERY_S = 5.0  # for sessions that were left alone for long enough
CLAIM_S = 60.0
RENEW_EVERY_S = 15.0  # a few may fail before the claim's time is over
TROUBLE_S = 2.0  # until a catalog that was not there is asked again
_WAKING = frozenset({"session.suspended", "session.finished", "summary.asked"})

log = structlog.get_logger()


class Summaries:
    """Who makes summaries, and what they are at."""

    def __init__(self, reception: Reception, settings: Settings, environ: Mapping[str, str]) -> None:
        """BadSetting if settings name a summariser that cannot be used."""
        self._tower = reception.tower
        self._summariser = make_summariser(settings, environ)
        self._after_us = settings.summarise_after_s * 1_000_000
        self._something = asyncio.Event()

    def require(self) -> None:
        """NoSummariser if nobody makes summaries here: then nothing can be asked for."""
        if self._summariser is None:
            raise NoSummariser

    async def run(self) -> None:
        """Make summaries until cancelled; returns at once where nobody makes any."""
        if self._summariser is None:
            await self._cancel_all()
            return
        self._tower.changes.listeners.append(self._observe)
        try:
            while True:
                if not await self._make_next(self._summariser):
                    await self._wait()
        finally:
            self._tower.changes.listeners.remove(self._observe)

    async def _cancel_all(self) -> None:
        why = "there is no summariser any more"
        try:
            await self._write(partial(cancel_all_pending, why=why, wall_us=self._now_us))
        except CatalogUnavailable as error:
            log.warning("summaries.not_cancelled", error=str(error))

    def _observe(self, events: list[Event]) -> None:
        if any(event.kind in _WAKING for event in events):
            self._something.set()

    async def _wait(self) -> None:
        """Return when there may be something to do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await self._something.wait()
        self._something.clear()

    async def _make_next(self, summariser: Summariser) -> bool:
        """Make the next summary; False if there is nothing to do, or it cannot be done now."""
        try:
            job = await self._claim()
        except ScrubjayError as error:
            log.warning("summaries.not_looked_after", error=str(error))
            await asyncio.sleep(TROUBLE_S)
            return False
        if job is None:
            return False
        assert job.token is not None
        try:
            await self._make(summariser, job, job.token)
        except asyncio.CancelledError:
            await self._give_back(job.token)
            raise
        except ClaimLost:
            log.warning("summary.superseded", session=job.session, from_seq=job.from_seq)
        except ScrubjayError as error:
            log.warning("summaries.not_looked_after", error=str(error))
            await self._give_back(job.token)
            await asyncio.sleep(TROUBLE_S)
        return True

    async def _claim(self) -> Job | None:
        """The next job, if there is one; without one this only reads."""
        now_us, after_us = self._now_us, self._after_us
        if not await self._tower.database.read(partial(has_work, after_us=after_us, wall_us=now_us)):
            return None
        token = new_record_id()

        def body(connection: Connection) -> Job | None:
            plan_jobs(connection, after_us=after_us, wall_us=now_us)
            return claim_job(connection, token, claim_us=_us(CLAIM_S), after_us=after_us, wall_us=now_us)

        return await self._write(body)

    async def _make(self, summariser: Summariser, job: Job, token: str) -> None:
        """Make a summary and keep it, or keep why not; ClaimLost if that is of no interest any more."""
        about = {"session": job.session, "from_seq": job.from_seq, "to_seq": job.part_to_seq, "attempt": job.attempts}
        try:
            prompt = await self._tower.database.read(partial(_prompt, job=job))
            text = await self._hold(token, asyncio.create_task(summariser.make(prompt)))
            by, model = summariser.name, summariser.model
            await self._insist(
                lambda connection: complete_job(connection, token, text, made_by=by, model=model, wall_us=self._now_us)
            )
            log.info("summary.made", **about)
        except (SummariserFailed, SummaryStale) as error:
            why = str(error)
            log.warning("summary.not_made", error=why, **about)
            await self._insist(lambda connection: fail_job(connection, token, why, wall_us=self._now_us))

    async def _hold(self, token: str, making: asyncio.Task[str]) -> str:
        """What comes of it; the claim is kept meanwhile. If it is lost, nothing is made any more."""
        try:
            while not (await asyncio.wait([making], timeout=RENEW_EVERY_S))[0]:
                try:
                    await self._write(partial(_renew, token=token, wall_us=self._now_us))
                except CatalogUnavailable as error:
                    log.warning("summary.not_renewed", error=str(error))
            return await making
        finally:
            making.cancel()
            await asyncio.wait([making])

    async def _insist(self, body: Callable[[Connection], T]) -> T:
        """Write, however long the catalog cannot be written to: what was made is not to be made again."""
        while True:
            try:
                return await self._write(body)
            except CatalogUnavailable as error:
                log.warning("summary.not_kept", error=str(error))
                await asyncio.sleep(TROUBLE_S)

    async def _give_back(self, token: str) -> None:
        with suppress(ClaimLost, CatalogUnavailable):  # it is done, or its time will be over
            await self._write(lambda connection: give_job_back(connection, token, wall_us=self._now_us))

    async def _write(self, body: Callable[[Connection], T]) -> T:
        return await self._tower.database.write(body)

    @property
    def _now_us(self) -> int:
        return self._tower.clock.wall_us()


def _renew(connection: Connection, *, token: str, wall_us: int) -> None:
    renew_job(connection, token, claim_us=_us(CLAIM_S), wall_us=wall_us)


def _prompt(connection: Connection, *, job: Job) -> Prompt:
    assert job.part_to_seq is not None
    first = job.from_seq
    memories = list_memories(connection, job.session, after=first - 1, limit=job.part_to_seq - first + 1)
    earlier = latest_summary(connection, job.session)
    prompt = prompt_of(memories, earlier=earlier.text if earlier is not None else None)
    return Prompt(mask_keys(prompt.turns))  # what agents remember leaves the machine here, perhaps


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
