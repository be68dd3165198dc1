"""Bindings, waits, messages, handoffs and deadlocks, as they are told to programs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from scrubjay.fleet.bindings import Binding, in_order
from scrubjay.fleet.handoffs import Handoff
from scrubjay.fleet.messages import Channel, Delivery, Message
from scrubjay.fleet.waits import Wait
from scrubjay.server.coordination.actors import HIDDEN, View
from scrubjay.store.channels import owner_of
from scrubjay.store.deadlocks import Deadlock
from scrubjay.store.topology import WaitSight
from scrubjay.tape.record import Json

Waiting = Wait | WaitSight


def describe_binding(binding: Binding, view: View) -> Json:
    """A binding."""
    return {
        "id": binding.id,
        **view.describe("initiator", binding.initiator),
        **view.describe("target", binding.target),
        "state": binding.state,
        "granted": in_order(binding.granted),
        "pending": in_order(binding.pending),
        "reason": binding.reason,
        "answer": binding.answer,
        "by": binding.decided_by,
        "since_us": binding.since_us,
        "until_us": binding.until_us,
        "expires_us": binding.expires_us,
    }


def describe_wait(
    wait: Wait, view: View, *, wall_us: int, starving_after_us: int, channels: Mapping[str, str] = {}
) -> Json:
    """A wait, with the command that shows the moment it began; ``channels`` are the names of those it may tell of."""
    channel = channels.get(channel_of(wait) or "")
    return {
        **view.describe("waiter", wait.waiter),
        **view.describe("on", wait.on),
        **describe_waiting(wait, view, wall_us=wall_us, starving_after_us=starving_after_us, channel=channel),
        "state": wait.state,
        "detail": wait.detail,
        "until_us": wait.until_us,
    }


def describe_waiting(wait: Waiting, view: View, *, wall_us: int, starving_after_us: int, channel: str | None) -> Json:
    """What is waited for, why and how long; who waits, and for whom, is told beside. ``channel`` is the name of one
    it is about."""
    seen = view.knows(wait.waiter)
    return {
        "id": wait.id,
        "kind": wait.kind,
        "key": _shown_key(wait) if seen else None,
        "channel": channel if seen else None,
        "source": wait.source,
        "reason": wait.reason if seen else HIDDEN,
        "since_us": wait.since_us,
        "age_s": round(((wait.until_us or wall_us) - wait.since_us) / 1e6, 3),
        "deadline_us": wait.deadline_us,
        "starving": wait.outcome is None and wait.is_starving(wall_us, after_us=starving_after_us),
        "evidence": _evidence(wait, view, channel) if seen else {},
    }


def describe_deadlock(deadlock: Deadlock, waits: Mapping[str, Wait], view: View, described: Mapping[str, Json]) -> Json:
    """A circle of waits, edge by edge."""
    return {
        "id": deadlock.id,
        "pods": [view.name(party) for party in deadlock.parties],
        "edges": [described[wait] for wait in deadlock.waits if wait in waits],
        "cut": deadlock.cut,
        "since_us": deadlock.since_us,
        "until_us": deadlock.until_us,
        "outcome": deadlock.outcome,
    }


def describe_channel(channel: Channel, view: View) -> Json:
    """A channel without what was said there."""
    return {
        "id": channel.id,
        "name": shown_channel(channel, view),
        "kind": channel.kind,
        "purpose": channel.purpose,
        **view.describe("made_by", channel.made_by),
        "since_us": channel.since_us,
    }


def describe_message(message: Message, channel_name: str, view: View) -> Json:
    """A message; its text is whatever somebody wrote."""
    return {
        "id": f"{channel_name}#{message.seq}",
        "channel": channel_name,
        "seq": message.seq,
        **view.remembering({message.author: message.author_name}).describe("author", message.author),
        "text": message.text,
        "reply_to": message.reply_to,
        "asks": message.asks,
        "mentions": [view.name(party) for party in message.mentions],
        "wall_us": message.wall_us,
        "about": dict(message.about),
    }


def describe_delivery(delivery: Delivery, channel_name: str, view: View) -> Json:
    """A message and how far it has come with somebody."""
    return {
        **describe_message(delivery.message, channel_name, view),
        "state": delivery.state,
        "how": delivery.how,
        "delivered_us": delivery.delivered_us,
        "acknowledged_us": delivery.acknowledged_us,
    }


def describe_handoff(handoff: Handoff, view: View) -> Json:
    """A handoff; its note is whatever somebody wrote."""
    return {
        "id": handoff.id,
        **view.describe("offered_by", handoff.offered_by),
        **view.describe("recipient", handoff.recipient),
        "key": handoff.key,
        "note": handoff.note,
        "files": list(handoff.files),
        "commit": handoff.commit,
        "state": handoff.state,
        "takers": [view.name(party) for party in handoff.takers],
        "session_id": handoff.session,
        "offered_us": handoff.offered_us,
        "since_us": handoff.since_us,
    }


def shown_channel(channel: Channel, view: View) -> str:
    """What people call a channel: an inbox after whose it is."""
    owner = owner_of(channel)
    return channel.name if owner is None else f"@{view.name(owner)}"


def channel_of(wait: Waiting) -> str | None:
    """The id of the channel that a wait is about: what it listens to, or where the question was asked."""
    channel = wait.key if wait.kind == "channel" else wait.evidence.get("channel")
    return channel if isinstance(channel, str) else None


def _evidence(wait: Waiting, view: View, channel: str | None) -> Json:
    """What shows that somebody waits, and the command that opens that moment of the recording."""
    told = dict(wait.evidence)
    pod, offset, seq = told.get("pod"), told.get("offset"), told.get("seq")
    if channel is not None and isinstance(seq, int):
        told["message"] = f"{channel}#{seq}"
    # By its id: a name may be that of a newer pod by the time somebody looks.
    if isinstance(pod, str) and isinstance(offset, int):
        told["replay"] = f"scrubjay replay {pod} --at @{offset}"
    elif (acting := view.directory.pod(wait.waiter)) is not None:
        told["replay"] = f"scrubjay replay {acting} --at {_iso(wait.since_us)}"
    return told


def _iso(wall_us: int) -> str:
    when = datetime.fromtimestamp(wall_us // 1_000_000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{wall_us % 1_000_000:06d}Z"


def _shown_key(wait: Waiting) -> str | None:
    if wait.key is None or wait.kind in ("artifact", "person"):
        return wait.key
    return wait.key.removeprefix("inbox:")
