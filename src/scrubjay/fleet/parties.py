"""Who coordinates with whom: the agents in pods, agents outside of them, and people.

A pod's agent is known by its session, not by its pod: the pod that goes on with the session has its bindings, its
messages and its waits.
"""

from __future__ import annotations

from typing import Literal, NewType

from scrubjay.fleet.access import Principal
from scrubjay.ids import SessionId

Party = NewType("Party", str)
"""A session of pods (its id), an agent outside pods (``agent:<token>``), a person (``person:<name>``)."""

PartyKind = Literal["pod", "agent", "person", "scrubjay"]

SCRUBJAY = Party("scrubjay")
"""Whoever tells agents what has become of what they asked for."""

PERSON = Party("person")
"""Whoever looks after the fleet: a prompt does not say who it is for."""


def session_party(session: SessionId | str) -> Party:
    """The party of a pod's agent."""
    return Party(str(session))


def agent_party(token: str) -> Party:
    """The party of an agent outside pods, by the id of its token."""
    return Party(f"agent:{token}")


def party_of(principal: Principal, session: SessionId | None) -> Party:
    """Who somebody is when they coordinate; ``session`` is that of their pod, if they are one."""
    match principal.role:
        case "pod":
            assert session is not None
            return session_party(session)
        case "agent":
            return agent_party(principal.id.partition(":")[2])
        case "operator" | "viewer" | "runner":
            return Party(f"person:{principal.name}")


def kind_of(party: Party) -> PartyKind:
    """What a party is."""
    if party == SCRUBJAY:
        return "scrubjay"
    kind, colon, _ = party.partition(":")
    if not colon and party != PERSON:
        return "pod"
    return "agent" if kind == "agent" else "person"
