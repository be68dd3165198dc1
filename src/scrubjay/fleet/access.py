"""Who somebody is, and what a role may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scrubjay.ids import PodId

Role = Literal["operator", "viewer", "runner", "pod", "agent"]
"""What somebody is.

An operator does all that a person does and a viewer only looks; a runner brings the pods of its machine; ``pod`` is the
agent of one pod, ``agent`` one that runs outside pods.
"""

Action = Literal["know self", "look", "type", "run", "admit", "join"]
"""What can be done.

``look`` at pods, tapes, screens, status and events; ``type`` into a terminal, resize it, take its keyboard; ``run``,
stop and remove pods and worktrees; ``admit`` others by tokens and login links; ``join`` with a machine and its tapes.
"""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody the guard has let in."""

    id: str  #: ``token:<id>``, ``browser:<id>``, or ``local`` for the same user at the unix socket
    role: Role
    name: str  #: for people
    pod: PodId | None = None  #: the only pod it may act for, if it is one


# An operator may not join: who forges tapes rewrites history, and a person never has to.
_FLEET_WIDE: Mapping[Role, frozenset[Action]] = {
    "operator": frozenset({"know self", "look", "type", "run", "admit"}),
    "viewer": frozenset({"know self", "look"}),
    "runner": frozenset({"know self", "join"}),
    "pod": frozenset({"know self"}),
    "agent": frozenset({"know self"}),
}
_OWN_POD: Mapping[Role, frozenset[Action]] = {"pod": frozenset({"look"})}


def may(principal: Principal, action: Action, pod: PodId | None = None) -> bool:
    """Whether somebody may do this to a pod, or, without one, to the whole fleet."""
    if action in _FLEET_WIDE[principal.role]:
        return True
    return pod is not None and pod == principal.pod and action in _OWN_POD.get(principal.role, frozenset())
