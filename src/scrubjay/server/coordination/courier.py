"""Brings messages into terminals: to pods that wait at their prompts, one at a time, the oldest first.

What it does not bring stays in the inbox, where an agent reads it when it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import NamedTuple, cast

import structlog
from sqlalchemy import Connection

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.errand import Step
from scrubjay.fleet.parties import Party, kind_of, session_party
from scrubjay.fleet.typed_message import OWN_INBOX
from scrubjay.ids import PodId
from scrubjay.screen.snapshot import BadSnapshot
from scrubjay.server.coordination.delivering import Delivering
from scrubjay.server.coordination.prompts import Prompts
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.tower import KnownPod
from scrubjay.settings import TypeMessages
from scrubjay.store.channels import get_channel, inbox_id
from scrubjay.store.events import Event
from scrubjay.store.messages import Queued, queued_message, queued_messages

LOOK_EVERY_S = 0.25  # for pods that have rested long enough
AGAIN_AFTER_S = 1.0  # what could not be done now; twice as long each time it fails
REST_S = 30.0  # after something did not work, and at most
_OF_PODS = ("pod.", "keyboard.", "runner.")  # events after which somebody may be ready

log = structlog.get_logger()


class _Key(NamedTuple):
    """A message."""

    channel: str
    seq: int


class Courier:
    """What is under way, and to whom."""

    def __init__(self, reception: Reception, *, type_messages: TypeMessages) -> None:
        self._tower = reception.tower
        self._type_messages: TypeMessages = type_messages
        self._prompts = Prompts(reception.tower)
        self._queues: dict[Party, dict[_Key, None]] = {}  # in order
        self._under_way: set[Party] = set()
        self._claims: dict[Party, PodId] = {}  # where something was begun and is to be ended
        self._found: set[Party] = set()  # of these, whose beginning nobody remembers: they are looked into at once
        self._failures: dict[tuple[Party, _Key], int] = {}
        self._held_up: dict[Party, int] = {}  # how often in a row
        self._rest_until_s: dict[Party, float] = {}
        self._soon = False  # somebody may be ready without anything happening
        self._news = False  # something has happened, and may not have come to where it is looked for
        self._something = asyncio.Event()

    async def begin(self) -> None:
        """Take up what the catalog knows."""
        if self._type_messages == "none":
            return
        for queued in await self._tower.database.read(queued_messages):
            message, party = queued.delivery.message, queued.delivery.party
            self._queue(party, _Key(message.channel, message.seq))
            if queued.typing_pod is not None:
                self._claims[party] = queued.typing_pod
                self._found.add(party)
        self._tower.changes.listeners.append(self._observe)

    async def run(self) -> None:
        """Bring what there is to whoever is ready, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for party, pod in self._ready():
                    self._under_way.add(party)
                    key = next(iter(self._queues[party]))
                    tasks.create_task(self._go(party, key, pod))
                await self._wait()

    async def _wait(self) -> None:
        """Return when somebody may be ready."""
        try:
            async with asyncio.timeout(LOOK_EVERY_S if self._soon or self._news else None):
                await self._something.wait()
        except TimeoutError:
            pass
        self._news = self._something.is_set()
        self._something.clear()

    # What happens.

    def _observe(self, events: list[Event]) -> None:
        self._prompts.observe(events)
        for event in events:
            data = event.data
            if event.kind == "message.posted":
                for party in cast("list[Party]", data["mentions"]):
                    self._queue(party, _Key(str(data["channel"]), cast(int, data["seq"])))
            elif event.kind in ("message.delivered", "message.acknowledged"):
                self._unqueue(Party(str(data["party"])), _Key(str(data["channel"]), cast(int, data["seq"])))
            if event.kind.startswith(_OF_PODS) and self._queues:
                self._something.set()

    def _queue(self, party: Party, key: _Key) -> None:
        if kind_of(party) == "pod":
            self._queues.setdefault(party, {})[key] = None
            self._something.set()

    def _unqueue(self, party: Party, key: _Key) -> None:
        queue = self._queues.get(party, {})
        queue.pop(key, None)
        self._failures.pop((party, key), None)
        if not queue:
            self._queues.pop(party, None)
            self._rest_until_s.pop(party, None)

    # Who is ready.

    def _ready(self) -> list[tuple[Party, PodId]]:
        """Whom something can be brought to, and where."""
        now = asyncio.get_running_loop().time()
        waiting = [party for party in self._queues if party not in self._under_way]
        rested = [party for party in waiting if self._rest_until_s.get(party, 0.0) <= now]
        self._soon = len(rested) < len(waiting)
        pods = self._pods_of(rested)
        found = [(party, self._destination(party, pods.get(party))) for party in rested]
        return [(party, pod) for party, pod in found if pod is not None]

    def _pods_of(self, parties: Collection[Party]) -> dict[Party, KnownPod]:
        """The pod that acts for each party: the newest of those that run."""
        wanted = frozenset(parties)
        found: dict[Party, KnownPod] = {}
        for known in self._tower.pods.values() if wanted else ():
            party = session_party(known.report.session)
            if party in wanted and not known.over:
                other = found.get(party)
                if other is None or other.report.created_us < known.report.created_us:
                    found[party] = known
        return found

    def _destination(self, party: Party, known: KnownPod | None) -> PodId | None:
        claimed = self._claims.get(party)
        if claimed is not None:
            known = self._tower.pods.get(claimed)
            if known is None or known.over:
                return claimed  # what was begun there is ended
        if known is None or not self._is_meant(known):
            return None
        peer = self._tower.peers.get(known.runner)
        if peer is None or self._tower.keyboards.holder(PodId(known.report.id)) is not None:
            return None
        if peer.introduced and (party in self._found or self._prompts.has_rested(known)):
            return PodId(known.report.id)
        self._soon = self._soon or not peer.introduced or self._prompts.is_idle(known)
        return None

    def _is_meant(self, known: KnownPod) -> bool:
        """Whether its program is one that messages are typed to."""
        return known.report.agent is not None or self._type_messages == "all"

    # Going there.

    async def _go(self, party: Party, key: _Key, pod: PodId) -> None:
        try:
            step = await self._bring(party, key, pod)
            self._held_up.pop(party, None)
            rest_s = {"rest": REST_S, "leave": AGAIN_AFTER_S}.get(step, 0.0)
        except (ScrubjayError, OSError, BadSnapshot) as error:
            # Nobody knows how far it came: the next who goes finds out.
            log.info("message.held_up", pod=pod, channel=key.channel, seq=key.seq, error=str(error))
            self._claims[party] = pod
            self._found.add(party)
            times = self._held_up[party] = self._held_up.get(party, 0) + 1
            rest_s = min(REST_S, AGAIN_AFTER_S * 2 ** (times - 1))
        finally:
            self._under_way.discard(party)
        if party in self._queues:
            self._rest_until_s[party] = asyncio.get_running_loop().time() + rest_s
        self._something.set()

    async def _bring(self, party: Party, key: _Key, pod: PodId) -> Step:
        found = await self._tower.database.read(partial(_look_up, key=key, party=party))
        if found is None:
            self._unqueue(party, key)
            self._forget(party)
            return "leave"
        queued, channel = found
        pod = queued.typing_pod or pod
        delivering = Delivering(
            self._tower,
            self._prompts,
            queued,
            pod,
            channel=channel,
            failures=self._failures.get((party, key), 0),
            is_queued=lambda: key in self._queues.get(party, {}),
        )
        step = await delivering.run()
        self._forget(party)
        if step in ("rest", "leave") and delivering.sight.claimed:
            self._claims[party] = pod
        if step == "rest":
            self._failures[party, key] = self._failures.get((party, key), 0) + 1
        elif step == "abandon":
            self._unqueue(party, key)
        if step in ("deliver", "rest", "abandon"):
            self._note(key, pod, step, delivering)
        return step

    def _forget(self, party: Party) -> None:
        """What was begun is ended, as far as is known."""
        self._claims.pop(party, None)
        self._found.discard(party)

    def _note(self, key: _Key, pod: PodId, step: Step, delivering: Delivering) -> None:
        sight = delivering.sight
        counts = {"attempts": sight.attempts, "presses": sight.presses, "failures": sight.failures}
        if step == "deliver":
            log.info("message.typed", pod=pod, channel=key.channel, seq=key.seq, resumed=delivering.resumes, **counts)
        else:
            what = "message.left_to_inbox" if step == "abandon" else "message.not_typed"
            log.warning(what, pod=pod, channel=key.channel, seq=key.seq, shown=sight.shown, **counts)


def _look_up(connection: Connection, *, key: _Key, party: Party) -> tuple[Queued, str] | None:
    """A message that has not come yet, and what whom it is for calls the place where it was said."""
    queued = queued_message(connection, key.channel, key.seq, party)
    channel = get_channel(connection, key.channel)
    if queued is None or channel is None:
        return None
    return queued, OWN_INBOX if channel.id == inbox_id(party) else channel.name
