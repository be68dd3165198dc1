"""What the API says of the topology, as OpenAPI shows it. The answer itself is made without these, for speed."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from scrubjay.server.rest.models import Model


class NodeStatus(Model):
    """What a pod does."""

    process: str
    activity: str | None
    waiting_for: str | None
    description: str = Field(description="The same in a few words for people.")
    since_us: int


class Node(Model):
    """Somebody or something that has edges; the fields from `agent` to `status` are those of pods."""

    id: str = Field(description="Of a pod its id.")
    kind: str = Field(description="pod, agent, person; artifact or channel that nobody is known to provide; hidden.")
    name: str
    party: str | None = Field(default=None, description="As changes name it: of a pod its session.")
    agent: str | None = None
    runner: str | None = None
    reachable: bool | None = Field(default=None, description="Whether its runner is, or was, connected.")
    branch: str | None = None
    created_us: int | None = None
    over: bool | None = Field(default=None, description="Whether it has ended.")
    status: NodeStatus | None = None
    deadlocked: bool = Field(description="Whether it is part of a deadlock.")
    root: bool = Field(description="Whether others wait for it, and it waits for nobody.")
    waiters: int = Field(description="How many wait for it.")
    held_up: int = Field(description="How many, with those who wait for them, and so on.")


class Edge(Model):
    """From one node to another."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    source_node: str = Field(alias="from")
    to: str


class BindingEdge(Edge):
    """What one pod may do to another's terminal, and what it would like to."""

    id: str
    state: str = Field(description="pending or active.")
    granted: list[str]
    pending: list[str]
    reason: str | None
    since_us: int


class WaitEdge(Edge):
    """Somebody waits."""

    id: str
    kind: str
    key: str | None
    channel: str | None
    source: str = Field(description="declared, binding, message, prompt or inferred.")
    reason: str | None
    since_us: int
    age_s: float
    deadline_us: int | None
    starving: bool
    evidence: dict[str, Any] = Field(description="With the command that shows the moment, as `replay`.")
    deadlocks: list[str] = Field(description="Those it is part of.")


class MessageEdge(Edge):
    """What one has said to another in the last `flow_s` seconds."""

    count: int
    last_us: int


class Edges(Model):
    """All edges."""

    bindings: list[BindingEdge]
    waits: list[WaitEdge]
    messages: list[MessageEdge]


class Member(Model):
    """Somebody in a channel."""

    node: str | None = Field(description="It may have no edge, and so not be among the nodes.")
    name: str


class Channel(Model):
    """A channel and how much was said in it; inboxes are left out."""

    id: str
    name: str
    kind: str
    purpose: str | None
    since_us: int
    messages: int
    last_us: int | None
    member_count: int
    members: list[Member] | None = None


class Runner(Model):
    """A machine."""

    id: str
    name: str
    host: str
    connected: bool
    reason: str | None
    since_us: int


class Deadlock(Model):
    """Nodes that wait for one another in a circle."""

    id: str
    nodes: list[str | None] = Field(description="Each waits for the next, the last for the first.")
    waits: list[str] = Field(description="In the same order.")
    cut: str = Field(description="The wait that it costs least to cancel.")
    since_us: int


class Root(Model):
    """A node that others wait for, and that waits for nobody."""

    node: str
    held_up: int


class Topology(Model):
    """The fleet as a graph, at one moment."""

    number: int = Field(description="Of the last change it includes: `/api/v1/fleet?after=` it goes on from here.")
    at_us: int
    flow_s: float
    starving_after_s: float
    nodes: list[Node]
    edges: Edges
    channels: list[Channel]
    runners: list[Runner]
    deadlocks: list[Deadlock]
    roots: list[Root] = Field(description="Who holds most up first.")
    longest_chain: list[str] = Field(description="Waits, each for the waiter of the next, outside of circles.")
