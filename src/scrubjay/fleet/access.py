"""Who somebody is, and what they may do: by their role, because a pod is their own, or because it was granted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from scrubjay.ids import PodId

Role = Literal["operator", "viewer", "runner", "pod", "agent"]
"""What somebody is.

An operator does all that a person does and a viewer only looks; a runner brings the pods of its machine; ``pod`` is the
agent of one pod, ``agent`` one that runs outside pods.
"""

Action = Literal["know self", "look", "type", "control", "run", "admit", "join", "coordinate"]
"""What can be done.

``look`` at pods, tapes, screens, status and events; ``type`` into a terminal, label its tape, take its keyboard if that
is free; ``control`` it: resize it, signal its agent, take the keyboard from somebody; ``run``, stop and remove pods and
worktrees; ``admit`` others by tokens and login links; ``join`` with a machine and its tapes; ``coordinate`` with others
by the tools for agents, each of which asks for what else it needs.
"""

Scope = Literal["terminal:read", "terminal:write"]
"""What one agent can be granted on another's terminal."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody the guard has let in."""

    id: str  #: ``token:<id>``, ``browser:<id>``, or ``local`` for the same user at the unix socket
    role: Role
    name: str  #: for people
    pod: PodId | None = None  #: the only pod it may act for, if it is one


# An operator may not join: who forges tapes rewrites history, and a person never has to.
_FLEET_WIDE: Mapping[Role, frozenset[Action]] = {
    "operator": frozenset({"know self", "look", "type", "control", "run", "admit", "coordinate"}),
    "viewer": frozenset({"know self", "look", "coordinate"}),
    "runner": frozenset({"know self", "join"}),
    "pod": frozenset({"know self", "coordinate"}),
    "agent": frozenset({"know self", "coordinate"}),
}
_OWN_POD: Mapping[Role, frozenset[Action]] = {"pod": frozenset({"look"})}


# Typing is all that can be granted besides looking: nobody ends, resizes or signals another's agent.
_GRANTED_BY: Mapping[Action, Scope] = {"look": "terminal:read", "type": "terminal:write"}
_AGENTS: frozenset[Role] = frozenset({"pod", "agent"})


def may(
    principal: Principal, action: Action, pod: PodId | None = None, *, scopes: Collection[Scope] = frozenset()
) -> bool:
    """Whether somebody may do this to a pod on which they have these scopes, or, without a pod, to the whole fleet."""
    if action in _FLEET_WIDE[principal.role]:
        return True
    if pod is None:
        return False
    if pod == principal.pod and action in _OWN_POD.get(principal.role, frozenset()):
        return True
    return scope_for(principal.role, action) in scopes


def scope_for(role: Role, action: Action) -> Scope | None:
    """The scope that lets one of a role do this to another's pod; None if none does."""
    return _GRANTED_BY.get(action) if role in _AGENTS else None
