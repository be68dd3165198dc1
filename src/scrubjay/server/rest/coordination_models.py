"""What the API says and takes of bindings, channels, waits and handoffs, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from scrubjay.fleet.handoffs import FILES_MAX
from scrubjay.server.rest.models import Model, Status

Scopes = Annotated[list[str], Field(max_length=10, description="terminal:read and terminal:write, or one of them.")]
PODS_MAX = 1000  # in one request
_NAMED = "Pods, by name, id, or a unique beginning of either."


class Binding(Model):
    """What one pod may do to another's terminal, and what it would like to."""

    id: str
    initiator: str
    initiator_kind: str | None = None
    initiator_pod: str | None = None
    target: str
    target_kind: str | None = None
    target_pod: str | None = None
    state: str = Field(description="pending, active, inactive, rejected or expired.")
    granted: list[str]
    pending: list[str] = Field(description="What is asked for, also while it is active.")
    reason: str | None
    answer: str | None = Field(description="Why it was refused or ended.")
    by: str = Field(description="Who brought it to this state.")
    since_us: int
    until_us: int | None
    expires_us: int | None = Field(description="When what is pending is not any more.")


class RequestBinding(Model):
    """Scopes on a pod's terminal that another pod should have."""

    initiator: str | None = Field(default=None, description="The pod that gets them; an agent is it itself.")
    target: str
    scopes: Scopes
    reason: str | None = None
    accept: bool = Field(default=False, description="Grant them in the same moment; without, they are pending.")


class AcceptBinding(Model):
    """How much of what is pending is granted."""

    scopes: Scopes | None = Field(default=None, description="Only these; what is not granted is refused.")


class BindingReason(Model):
    """Why a binding is refused or ended."""

    reason: str | None = None


class Channel(Model):
    """A channel without what was said there."""

    id: str
    name: str
    kind: str = Field(description="open or private; an inbox is one pod's own.")
    purpose: str | None
    made_by: str | None
    made_by_kind: str | None = None
    made_by_pod: str | None = None
    since_us: int
    member_count: int | None = None
    members: list[str] | None = None
    messages: int | None = Field(default=None, description="How many there are, which is the number of the last.")
    last_us: int | None = None


class CreateChannel(Model):
    """A channel to be made."""

    name: str
    purpose: str | None = None
    private: bool = Field(default=False, description="Agents see it only if they are in it.")
    members: list[str] = Field(default=[], max_length=PODS_MAX, description=_NAMED)


class Message(Model):
    """Something that was said; its text is whatever somebody wrote."""

    id: str
    channel: str
    seq: int = Field(description="Counts up from 1 in a channel, without a gap.")
    author: str | None
    author_kind: str | None = None
    author_pod: str | None = None
    text: str
    reply_to: int | None
    asks: bool
    mentions: list[str]
    wall_us: int
    about: dict[str, Any]


class Messages(Model):
    """What was said in a channel, in order."""

    channel: str
    channel_id: str
    messages: list[Message]
    last: int = Field(description="The number of the channel's last message.")


class Delivery(Message):
    """A message and how far it has come with whom it is for."""

    state: str = Field(description="queued, delivered or acknowledged.")
    how: str | None = Field(description="inbox or typed.")
    delivered_us: int | None
    acknowledged_us: int | None


class Inbox(Model):
    """What is for one pod."""

    pod: str
    messages: list[Delivery]


class PostMessage(Model):
    """Something to be said in a channel."""

    text: str
    mentions: list[str] = Field(default=[], max_length=PODS_MAX, description=_NAMED)
    reply_to: int | None = Field(default=None, ge=1, lt=1 << 31, description="The number of the message it answers.")
    expects_reply: bool = False


class TellPod(Model):
    """Something to be said to one pod."""

    text: str
    expects_reply: bool = False


class Wait(Model):
    """Somebody waits for something."""

    id: str
    waiter: str
    waiter_kind: str | None = None
    waiter_pod: str | None = None
    kind: str = Field(description="pod, person, channel, artifact or binding.")
    on: str | None = Field(description="Who could end it, as far as that is known.")
    on_kind: str | None = None
    on_pod: str | None = None
    key: str | None
    channel: str | None = Field(description="What it listens to, or where it asked.")
    source: str = Field(description="declared, binding, message, prompt or inferred.")
    reason: str | None
    state: str
    detail: str | None
    since_us: int
    until_us: int | None
    age_s: float
    deadline_us: int | None
    starving: bool = Field(description="Whether it takes longer than it may.")
    evidence: dict[str, Any]


class Deadlock(Model):
    """Pods that wait for one another in a circle: each for the next, and the last for the first."""

    id: str
    pods: list[str]
    edges: list[Wait]
    cut: str = Field(description="The wait that it costs least to cancel.")
    since_us: int
    until_us: int | None
    outcome: str | None = Field(description="How it ended.")


class Waits(Model):
    """Who waits, and who does so in a circle."""

    waits: list[Wait]
    deadlocks: list[Deadlock]


class Way(Model):
    """Waits that lead from a pod to what holds it up: each is for whoever waits next."""

    steps: list[Wait]
    end: str = Field(description="somebody, nobody (is known to do it) or circle.")
    root: str | None = Field(description="Who waits for nothing, at the end of it.")
    root_kind: str | None = None
    root_pod: str | None = None
    root_status: Status | None = Field(default=None, description="What the root does.")
    cut: str | None = Field(description="Of a circle, the wait that it costs least to cancel.")


class Why(Model):
    """Why a pod does not go on: no way means that it waits for nothing."""

    pod: str
    pod_id: str
    status: Status
    at_us: int | None
    ways: list[Way]


class Handoff(Model):
    """Something that is offered; its note is whatever somebody wrote."""

    id: str
    offered_by: str
    offered_by_kind: str | None = None
    offered_by_pod: str | None = None
    recipient: str | None
    recipient_kind: str | None = None
    recipient_pod: str | None = None
    key: str | None
    note: str
    files: list[str]
    commit: str | None
    state: str = Field(description="offered, accepted, declined or withdrawn.")
    takers: list[str]
    session_id: str | None = Field(default=None, description="The session that whoever accepts has from then on.")
    epoch: int | None = Field(default=None, description="Of that session, for whoever has just accepted.")
    last_seq: int | None = None
    offered_us: int
    since_us: int


class OfferedHandoff(Handoff):
    """Something that was just offered."""

    met: list[str] = Field(description="Who waited for it, and goes on.")


class OfferHandoff(Model):
    """Something to be offered: to one pod, or to whoever waits for the artifact of that key."""

    note: str
    to: str | None = None
    artifact: str | None = None
    files: list[str] = Field(default=[], max_length=FILES_MAX)
    commit: str | None = None
