"""Waiting for somebody or something, and seeing who waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from scrubjay.errors import BadInput, NoSuchWait
from scrubjay.fleet.handoffs import KEY_MAX
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.parties import Party, session_party
from scrubjay.fleet.process import describe_process
from scrubjay.fleet.waits import REASON_MAX, Wait
from scrubjay.fleet.why import graph_of, ways_from
from scrubjay.ids import new_record_id
from scrubjay.server.coordination.actors import Actor, View
from scrubjay.server.coordination.channels import Channels
from scrubjay.server.coordination.descriptions import channel_of, describe_deadlock, describe_handoff, describe_wait
from scrubjay.server.coordination.lookout import Lookout
from scrubjay.server.coordination.reception import Body, Reception
from scrubjay.store import handoffs
from scrubjay.store import waits as store
from scrubjay.store.deadlocks import Deadlock, list_deadlocks, past_deadlocks
from scrubjay.store.events import Event
from scrubjay.store.happenings import notify
from scrubjay.store.messages import acknowledge_about, last_seq
from scrubjay.tape.record import Json

BLOCK_MAX_S = 300.0  # above this most clients have given up
BLOCKED_MAX = 32  # calls of one party at a time; further ones are answered at once


@dataclass(frozen=True, slots=True)
class WaitFor:
    """What somebody wants to wait for."""

    pod: str | None = None
    artifact: str | None = None
    channel: str | None = None
    after: int | None = None  #: of a channel, the last message that was seen
    reason: str | None = None
    deadline_us: int | None = None


class Waits:
    """Who waits for what."""

    def __init__(self, reception: Reception, channels: Channels, lookout: Lookout) -> None:
        self._reception, self._channels, self._lookout = reception, channels, lookout
        self._blocked: dict[str, set[asyncio.Event]] = {}
        self._blocked_calls: Counter[Party] = Counter()
        reception.tower.changes.listeners.append(self._observe)

    # Waiting.

    async def wait_for(self, actor: Actor, wanted: WaitFor, *, timeout_s: float, key: str | None = None) -> Json:
        """Wait for one thing; returns when something became of it, or after ``timeout_s`` as it is then."""
        actor.require_agent("wait")
        began = await self._reception.change(actor, "wait", key, self._beginning(actor, wanted))
        wait = began.get("wait")
        if not isinstance(wait, str):
            return began  # there is nothing to wait for
        return await self.ask_again(actor, wait, timeout_s=timeout_s)

    async def ask_again(self, actor: Actor, wait: str, *, timeout_s: float) -> Json:
        """What became of a wait, after ``timeout_s`` at the latest. Who hears of its end needs no other word of it."""
        with self._listening(wait) as ended:
            state = await self._look(actor, wait)
            if state.outcome is None and timeout_s > 0 and self.blocked_calls(actor.party) < BLOCKED_MAX:
                await self._block(actor.party, ended, min(timeout_s, BLOCK_MAX_S))
                state = await self._look(actor, wait)
        if state.outcome is not None:
            heard = partial(
                acknowledge_about, party=actor.party, what="wait", id_=wait, wall_us=self._reception.wall_us
            )
            await self._reception.tower.database.write(heard)
        return await self._answer(actor, state)

    def blocked_calls(self, party: Party) -> int:
        """How many calls of a party wait for something to happen."""
        return self._blocked_calls[party]

    async def _block(self, party: Party, ended: asyncio.Event, timeout_s: float) -> None:
        self._blocked_calls[party] += 1
        try:
            async with asyncio.timeout(timeout_s):
                await ended.wait()
        except TimeoutError:
            pass
        finally:
            self._blocked_calls[party] -= 1
            if not self._blocked_calls[party]:
                del self._blocked_calls[party]

    async def cancel(self, actor: Actor, wait: str, *, reason: str | None = None) -> Json:
        """Wait no longer: whoever waits, or a person, of which the waiter is told."""
        reception, view = self._reception, self._reception.view(actor)
        if reason is not None:
            check_text(reason, REASON_MAX, "reason")

        def body(connection: Connection) -> Json:
            found = self._find(connection, actor, wait)
            why = f"{actor.name} cancelled it" + (f": {reason}" if reason else "")
            done = store.end_wait(connection, found, "cancelled", why, wall_us=reception.wall_us)
            if found.outcome is None and found.waiter != actor.party:
                self._tell_cancelled(connection, done, view)
            return self._describe(done, view, channels=self._names(connection, actor, [done], view))

        return await reception.change(actor, "cancel", None, body)

    def _tell_cancelled(self, connection: Connection, wait: Wait, view: View) -> None:
        # Whoever stands at a prompt does not know that it waits, and goes on when the prompt is answered.
        if wait.source == "prompt":
            return
        whom = f" for {view.name(wait.on)}" if wait.on is not None else ""
        what = f" You waited: {wait.reason}" if wait.reason else ""
        text = f"Your wait{whom} is cancelled: {wait.detail}. Go on without it.{what}"
        about = {"wait": wait.id, "outcome": "cancelled"}
        notify(connection, wait.waiter, text, about=about, wall_us=self._reception.wall_us)

    def _beginning(self, actor: Actor, wanted: WaitFor) -> Body:
        """What begins a wait, or says that there is nothing to wait for."""
        reception, view = self._reception, self._reception.view(actor)
        _check(wanted)
        known = reception.find(actor, wanted.pod) if wanted.pod is not None else None
        on = session_party(known.report.session) if known is not None else None
        if on == actor.party:
            raise BadInput("nobody waits for itself", hint="name another pod")
        if known is not None and known.over:
            report = known.report
            how = describe_process(report.process, report.reason, report.exit_status)
            over: Json = {"state": "failed", "detail": f"{report.name} {how}"}
            return lambda _connection: over
        reason = wanted.reason
        evidence: Json = {}
        if actor.pod is not None:
            evidence = {"pod": actor.pod, "offset": reception.tower.tape_end(actor.pod) or 0}

        def begin(connection: Connection) -> Json:
            wait = Wait(
                new_record_id(),
                actor.party,
                "pod",
                "declared",
                on=on,
                reason=reason,
                deadline_us=wanted.deadline_us,
                evidence=evidence,
            )
            if wanted.artifact is not None:
                there = handoffs.artifact_for(connection, wanted.artifact, actor.party, of=on)
                if there is not None:
                    taken = handoffs.accept_handoff(connection, there, actor.party, wall_us=reception.wall_us)
                    return {"state": "met", "detail": "it was there", "handoff": describe_handoff(taken, view)}
                wait = replace(wait, kind="artifact", key=wanted.artifact)
            elif wanted.channel is not None:
                channel = self._channels.find(connection, actor, wanted.channel)
                last = last_seq(connection, channel.id)
                if wanted.after is not None and last > wanted.after:
                    return {"state": "met", "detail": "there are new messages", "last": last}
                wait = replace(wait, kind="channel", key=channel.id)
            return {"wait": store.begin_wait(connection, wait, wall_us=reception.wall_us).id}

        return begin

    async def _look(self, actor: Actor, wait: str) -> Wait:
        return await self._reception.tower.database.read(partial(self._find, actor=actor, raw=wait))

    async def _answer(self, actor: Actor, wait: Wait) -> Json:
        view = self._reception.view(actor)
        answer = {"wait": wait.id, **self._describe(wait, view)}
        del answer["id"]
        if wait.outcome is None:
            answer["hint"] = f"ask again with wait_for(wait={wait.id!r}), or cancel_wait"
            circles = [
                [view.name(Party(party)) for party in cycle.parties] for cycle in self._lookout.cycles_of(actor.party)
            ]
            if circles:
                answer["deadlocks"] = circles
        elif wait.kind == "artifact" and wait.outcome == "met":
            assert wait.key is not None
            find = partial(handoffs.artifact_for, key=wait.key, party=actor.party, of=wait.on)
            there = await self._reception.tower.database.read(find)
            answer["handoff"] = describe_handoff(there, view) if there is not None else None
        return answer

    @contextmanager
    def _listening(self, wait: str) -> Generator[asyncio.Event]:
        ended = asyncio.Event()
        listeners = self._blocked.setdefault(wait, set())
        listeners.add(ended)
        try:
            yield ended
        finally:
            listeners.discard(ended)
            if not listeners:
                self._blocked.pop(wait, None)

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            if event.kind == "wait.ended":
                for ended in self._blocked.get(str(event.data["wait"]), ()):
                    ended.set()

    # Looking.

    async def list(self, actor: Actor, *, at_us: int | None = None) -> Json:
        """All waits that are open, or were at an instant, and the circles among them; of an agent what concerns those
        it knows."""
        view = self._reception.view(actor, await self._reception.directory_at(at_us))
        waits, deadlocks, channels = await self._read(actor, at_us, view)
        wall_us = self._reception.wall_us if at_us is None else at_us
        seen = [wait for wait in waits if _concerns(wait, actor, view)]
        described = {wait.id: self._describe(wait, view, wall_us=wall_us, channels=channels) for wait in seen}
        by_id = {wait.id: wait for wait in seen}
        circles = [
            describe_deadlock(deadlock, by_id, view, described)
            for deadlock in deadlocks
            if any(wait in by_id for wait in deadlock.waits)
        ]
        return {"waits": list(described.values()), "deadlocks": circles}

    async def why(self, actor: Actor, pod: str, *, at_us: int | None = None) -> Json:
        """Why a pod does not go on: every way from it to what holds it up in the end."""
        reception = self._reception
        known = reception.find(actor, pod)
        view = reception.view(actor, await reception.directory_at(at_us))
        waits, _, channels = await self._read(actor, at_us, view)
        by_id = {wait.id: wait for wait in waits}
        wall_us = reception.wall_us if at_us is None else at_us
        graph = self._lookout.graph
        # What began or ended since it was read is in the one and not in the other.
        if at_us is not None or len(graph) != len(by_id) or any(wait not in graph for wait in by_id):
            graph = graph_of(waits)
        ways: list[Json] = []
        for way in ways_from(session_party(known.report.session), graph, by_id):
            last = way.waits[-1]
            ways.append(
                {
                    "steps": [self._describe(wait, view, wall_us=wall_us, channels=channels) for wait in way.waits],
                    "end": way.end,
                    **(view.describe("root", last.on) if way.end == "somebody" else {"root": None}),
                    "cut": way.cut,
                }
            )
        return {"pod": known.report.name, "at_us": at_us, "ways": ways}

    async def deadlocks(self, actor: Actor, *, limit: int) -> list[Json]:
        """All circles there ever were, the latest first, with their waits and how each ended; of an agent its own."""
        view = self._reception.view(actor)

        def body(connection: Connection) -> list[Json]:
            found = [each for each in past_deadlocks(connection, limit=limit) if _is_in(actor, each)]
            named = self._reception.remember(connection, view, {party for each in found for party in each.parties})
            ids = {wait for each in found for wait in each.waits}
            waits = {id_: wait for id_ in ids if (wait := store.get_wait(connection, id_)) is not None}
            channels = self._names(connection, actor, waits.values(), named)
            described = {id_: self._describe(wait, named, channels=channels) for id_, wait in waits.items()}
            return [describe_deadlock(each, waits, named, described) for each in found]

        return await self._reception.tower.database.read(body)

    async def _read(
        self, actor: Actor, at_us: int | None, view: View
    ) -> tuple[list[Wait], list[Deadlock], dict[str, str]]:
        """What there is, or was, and the names of the channels in it."""

        def body(connection: Connection) -> tuple[list[Wait], list[Deadlock], dict[str, str]]:
            waits = store.list_waits(connection, at_us=at_us)
            channels = self._names(connection, actor, waits, view)
            return waits, list_deadlocks(connection, at_us=at_us), channels

        return await self._reception.tower.database.read(body)

    def _names(self, connection: Connection, actor: Actor, waits: Iterable[Wait], view: View) -> dict[str, str]:
        ids = [channel for wait in waits if (channel := channel_of(wait)) is not None]
        return self._channels.names(connection, actor, ids, view)

    def _find(self, connection: Connection, actor: Actor, raw: str) -> Wait:
        """A wait somebody may ask of: their own, or any for a person, who may give the beginning of an open one's id.

        NoSuchWait for others, as for none.
        """
        found = store.get_wait(connection, raw)
        if found is None and actor.is_person and raw:
            begun = [wait for wait in store.list_waits(connection) if wait.id.startswith(raw)]
            found = begun[0] if len(begun) == 1 else None
        if found is None or not (actor.is_person or found.waiter == actor.party):
            raise NoSuchWait(raw)
        return found

    def _describe(
        self, wait: Wait, view: View, *, wall_us: int | None = None, channels: Mapping[str, str] = {}
    ) -> Json:
        now_us = self._reception.wall_us if wall_us is None else wall_us
        starving_after_us = self._lookout.starving_after_us
        return describe_wait(wait, view, wall_us=now_us, starving_after_us=starving_after_us, channels=channels)


def _check(wanted: WaitFor) -> None:
    if wanted.artifact is not None and wanted.channel is not None:
        raise BadInput("an artifact and a channel are two waits", hint="call it for each")
    if wanted.pod is None and wanted.artifact is None and wanted.channel is None:
        raise BadInput("there is nothing to wait for", hint="give pod, artifact or channel")
    if wanted.reason is not None:
        check_text(wanted.reason, REASON_MAX, "reason")
    if wanted.artifact is not None:
        check_text(wanted.artifact, KEY_MAX, "artifact's key")


def _is_in(actor: Actor, deadlock: Deadlock) -> bool:
    return actor.is_person or actor.party in deadlock.parties


def _concerns(wait: Wait, actor: Actor, view: View) -> bool:
    return actor.is_person or view.knows(wait.waiter) or (wait.on is not None and view.knows(wait.on))
