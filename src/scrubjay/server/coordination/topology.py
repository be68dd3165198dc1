"""Who is there, and what is between them: bindings, waits, messages; now, or as a viewer saw it at any instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from sqlalchemy import Connection

from scrubjay.fleet.held_up import Hold, see_held_up
from scrubjay.fleet.parties import Party, kind_of
from scrubjay.fleet.process import describe_state
from scrubjay.server.coordination.actors import HIDDEN, Actor, Resident, View
from scrubjay.server.coordination.descriptions import channel_of, describe_waiting
from scrubjay.server.coordination.lookout import Lookout
from scrubjay.server.coordination.reception import Reception
from scrubjay.store.channels import inbox_id
from scrubjay.store.deadlocks import Deadlock
from scrubjay.store.runners import Runner
from scrubjay.store.topology import BindingSight, ChannelSight, Fleet, PodSight, WaitSight, read_fleet
from scrubjay.tape.record import Json

FLOW_S = 900.0  # how long a message is shown between two parties, unless that is said
_NOTHING = Hold(0, 0, is_root=False)
_INBOX = inbox_id(Party(""))


class Topology:
    """The fleet as a graph."""

    def __init__(self, reception: Reception, lookout: Lookout) -> None:
        self._reception, self._lookout = reception, lookout

    async def at(
        self, actor: Actor, at_us: int | None = None, *, everything: bool = False, flow_s: float = FLOW_S
    ) -> Json:
        """The fleet now or at an instant: pods that run and those that still have an edge, or ``everything``.

        All of it is of one moment, right after the change with its ``number``: who goes on with the changes that follow
        misses none. An agent sees those it knows, and that there is somebody hidden where their edges end.
        """
        reception = self._reception
        known = None if actor.is_person else reception.standing.acquaintances(actor.party)
        wall_us, flow_us = reception.wall_us, round(flow_s * 1e6)

        def body(connection: Connection) -> Json:
            fleet = read_fleet(connection, at_us=at_us, wall_us=wall_us, flow_us=flow_us)
            view = View(reception.directory_of(map(_resident, fleet.pods)), known)
            picture = _Picture(fleet, view, actor, self._lookout.starving_after_us)
            return picture.draw(everything=everything) | {"flow_s": flow_s}

        return await reception.tower.database.read(body)


class _Picture:
    """A fleet, as somebody sees it: nodes by their ids, and edges between them."""

    def __init__(self, fleet: Fleet, view: View, actor: Actor, starving_after_us: int) -> None:
        self._fleet, self._view, self._actor = fleet, view, actor
        self._starving_after_us = starving_after_us
        self._channels = [
            channel for channel in fleet.channels if actor.may_see(channel.kind, fleet.members.get(channel.id, ()))
        ]
        self._channel_names = {channel.id: channel.name for channel in self._channels}
        self._ids = _Ids(view)
        self._things: dict[str, Json] = {}  #: that somebody waits for, and nobody is known to provide
        self._waits = [(wait, *ends) for wait in fleet.waits if (ends := self._ends_of(wait)) is not None]
        self._held_up = see_held_up((wait.id, wait.waiter, wait.target) for wait, _, _ in self._waits)
        self._holds = {
            id_: hold for party, hold in self._held_up.holds.items() if (id_ := self._ids[Party(party)]) != HIDDEN
        }
        shown = {wait.id for wait, _, _ in self._waits}
        self._deadlocks = [deadlock for deadlock in fleet.deadlocks if not shown.isdisjoint(deadlock.waits)]

    def draw(self, *, everything: bool) -> Json:
        """All of it."""
        fleet, view = self._fleet, self._view
        bindings, waits, messages = list(self._draw_bindings()), list(self._draw_waits()), list(self._draw_messages())
        edges = (*bindings, *waits, *messages)
        joined = cast("set[str]", {edge["from"] for edge in edges} | {edge["to"] for edge in edges})
        pods = [pod for pod in fleet.pods if view.knows(pod.party)]
        shown = [pod for pod in pods if everything or not pod.over or pod.id in joined]
        others = sorted(joined - {pod.id for pod in pods})
        return {
            "number": fleet.number,
            "at_us": fleet.at_us,
            "starving_after_s": self._starving_after_us / 1e6,
            "nodes": [*self._draw_pods(shown), *map(self._draw_other, others)],
            "edges": {"bindings": bindings, "waits": waits, "messages": messages},
            "channels": [self._draw_channel(channel) for channel in self._channels],
            "runners": [_draw_runner(runner) for runner in self._seen_runners(pods)],
            "deadlocks": [self._draw_deadlock(deadlock) for deadlock in self._deadlocks],
            "roots": [
                {"node": self._ids[Party(party)], "held_up": self._held_up.holds[party].held_up}
                for party in self._held_up.roots
            ],
            "longest_chain": list(self._held_up.longest),
        }

    # Who is who.

    def _ends_of(self, wait: WaitSight) -> tuple[str, str] | None:
        """The nodes that a wait is between; None if it is not to be seen."""
        if not self._concerns(wait):
            return None
        waiter = self._ids[wait.waiter]
        on = self._ids[wait.on] if wait.on is not None else self._thing_of(wait)
        return None if waiter is None or on is None else (waiter, on)

    def _concerns(self, wait: WaitSight) -> bool:
        view = self._view
        return view.knows(wait.waiter) or (wait.on is not None and view.knows(wait.on))

    def _thing_of(self, wait: WaitSight) -> str:
        id_ = wait.target
        name = self._channel_name(wait.key) if wait.kind == "channel" else wait.key
        self._things[id_] = {"kind": wait.kind, "name": name or HIDDEN}
        self._ids[Party(id_)] = id_
        return id_

    def _channel_name(self, channel: str | None) -> str | None:
        """What people call a channel; None if it is not to be seen, or not there."""
        if channel is None or not channel.startswith(_INBOX):
            return self._channel_names.get(channel or "")
        owner = Party(channel.removeprefix(_INBOX))
        return f"@{self._view.name(owner)}" if self._actor.may_see("inbox", [owner]) else None

    # Nodes.

    def _draw_pods(self, pods: Iterable[PodSight]) -> Iterator[Json]:
        connected = {runner.id for runner in self._fleet.runners if runner.connected}
        deadlocked = {self._ids[party] for deadlock in self._deadlocks for party in deadlock.parties}
        for pod in pods:
            yield {
                "id": pod.id,
                "kind": "pod",
                "name": pod.name,
                "party": pod.party,
                "agent": pod.agent,
                "runner": pod.runner,
                "reachable": pod.runner in connected,
                "branch": pod.branch,
                "created_us": pod.created_us,
                "over": pod.over,
                "status": _draw_status(pod),
                "deadlocked": pod.id in deadlocked,
                **_draw_hold(self._holds.get(pod.id, _NOTHING)),
            }

    def _draw_other(self, id_: str) -> Json:
        """A node that is no pod."""
        if id_ == HIDDEN:
            what: Json = {"kind": "hidden", "name": HIDDEN}
        elif id_ in self._things:
            what = self._things[id_]
        else:
            party = Party(id_)
            what = {"kind": kind_of(party), "name": self._view.name(party), "party": party}
        deadlocked = any(id_ in deadlock.parties for deadlock in self._deadlocks)
        return {"id": id_, **what, "deadlocked": deadlocked, **_draw_hold(self._holds.get(id_, _NOTHING))}

    # Edges. Who has no node, because its pod was deleted, has none either.

    def _draw_bindings(self) -> Iterator[Json]:
        for binding in self._fleet.bindings:
            initiator, target = self._ids[binding.initiator], self._ids[binding.target]
            if self._is_ours(binding.initiator, binding.target) and initiator is not None and target is not None:
                yield {"from": initiator, "to": target, **_draw_binding(binding)}

    def _draw_waits(self) -> Iterator[Json]:
        deadlocks_of: dict[str, list[str]] = {}
        for deadlock in self._deadlocks:
            for wait in deadlock.waits:
                deadlocks_of.setdefault(wait, []).append(deadlock.id)
        for wait, waiter, on in self._waits:
            described = describe_waiting(
                wait,
                self._view,
                wall_us=self._fleet.at_us,
                starving_after_us=self._starving_after_us,
                channel=self._channel_name(channel_of(wait)),
            )
            yield {"from": waiter, "to": on, **described, "deadlocks": deadlocks_of.get(wait.id, [])}

    def _draw_messages(self) -> Iterator[Json]:
        for flow in self._fleet.flows:
            author, to = self._ids[flow.author], self._ids[flow.to]
            if self._is_ours(flow.author, flow.to) and author is not None and to is not None:
                yield {"from": author, "to": to, "count": flow.messages, "last_us": flow.last_us}

    def _is_ours(self, *parties: Party) -> bool:
        """Whether somebody may hear of something between these: a person of everything, an agent of what is its own."""
        return self._actor.is_person or self._actor.party in parties

    # What else there is.

    def _draw_channel(self, channel: ChannelSight) -> Json:
        members = self._fleet.members.get(channel.id, [])
        told: Json = {
            "id": channel.id,
            "name": channel.name,
            "kind": channel.kind,
            "purpose": channel.purpose,
            "since_us": channel.since_us,
            "messages": channel.messages,
            "last_us": channel.last_us,
            "member_count": len(members),
        }
        if self._is_ours(*members):
            told["members"] = [{"node": self._ids[party], "name": self._view.name(party)} for party in members]
        return told

    def _seen_runners(self, pods: Iterable[PodSight]) -> list[Runner]:
        if self._actor.is_person:
            return self._fleet.runners
        used = {pod.runner for pod in pods}
        return [runner for runner in self._fleet.runners if runner.id in used]

    def _draw_deadlock(self, deadlock: Deadlock) -> Json:
        return {
            "id": deadlock.id,
            "nodes": [self._ids[party] for party in deadlock.parties],
            "waits": list(deadlock.waits),
            "cut": deadlock.cut,
            "since_us": deadlock.since_us,
        }


class _Ids(dict[Party, str | None]):
    """The node that stands for a party, which is its pod if it has one; None if that was deleted."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __missing__(self, party: Party) -> str | None:
        id_ = HIDDEN
        if self._view.knows(party):
            id_ = self._view.directory.pod(party) if kind_of(party) == "pod" else party
        self[party] = id_
        return id_


def _resident(pod: PodSight) -> Resident:
    return Resident(pod.id, pod.name, pod.party, pod.created_us, pod.over)


def _draw_status(pod: PodSight) -> Json:
    description = describe_state(pod.process, pod.reason, pod.exit_status, pod.activity, pod.waiting_for, pod.problem)
    return {
        "process": pod.process,
        "activity": pod.activity,
        "waiting_for": pod.waiting_for,
        "description": description,
        "since_us": pod.since_us,
    }


def _draw_hold(hold: Hold) -> Json:
    return {"root": hold.is_root, "waiters": hold.waiters, "held_up": hold.held_up}


def _draw_binding(binding: BindingSight) -> Json:
    return {
        "id": binding.id,
        "state": binding.state,
        "granted": binding.granted,
        "pending": binding.pending,
        "reason": binding.reason,
        "since_us": binding.since_us,
    }


def _draw_runner(runner: Runner) -> Json:
    return {
        "id": runner.id,
        "name": runner.name,
        "host": runner.host,
        "connected": runner.connected,
        "reason": runner.reason,
        "since_us": runner.since_us,
    }
