"""An output that one agent offers another, or whoever needs it.

    offered ── accept ──▶ accepted ── accept ──▶ accepted
       ├── decline ──▶ declined
       └── withdraw ──▶ withdrawn

What has a key and no recipient is for everybody: it stays there to be taken again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from scrubjay.errors import HandoffUnfit
from scrubjay.fleet.parties import Party

State = Literal["offered", "accepted", "declined", "withdrawn"]
Action = Literal["accept", "decline", "withdraw"]

TRANSITIONS: Mapping[tuple[State, Action], State] = {
    ("offered", "accept"): "accepted",
    ("offered", "decline"): "declined",
    ("offered", "withdraw"): "withdrawn",
    ("accepted", "accept"): "accepted",
}
"""All that can happen. What is not here is refused."""

NOTE_MAX = 20_000  # characters
FILES_MAX = 200
KEY_MAX = 200


@dataclass(frozen=True, slots=True)
class Handoff:
    """What is offered, by whom and to whom."""

    id: str
    offered_by: Party
    note: str
    recipient: Party | None = None
    key: str | None = None  #: what others wait for it by
    files: tuple[str, ...] = ()
    commit: str | None = None
    state: State = "offered"
    takers: tuple[Party, ...] = ()
    offered_us: int = 0
    since_us: int = 0  #: filled in by the catalog
    until_us: int | None = None
    session: str | None = None  #: that whoever takes it has

    def is_for(self, party: Party) -> bool:
        """Whether somebody may take it."""
        return self.recipient == party or (self.recipient is None and self.offered_by != party)


def accept(current: Handoff, taker: Party) -> Handoff:
    """Take it; the same for whoever has it already."""
    if not current.is_for(taker):
        raise HandoffUnfit(current.id, "it is for somebody else")
    state = _next(current, "accept")
    if taker in current.takers:
        return current
    if current.takers and current.key is None:
        raise HandoffUnfit(current.id, "somebody else has taken it")
    return replace(current, state=state, takers=(*current.takers, taker))


def decline(current: Handoff) -> Handoff:
    """Do not take what was offered to one recipient."""
    return replace(current, state=_next(current, "decline"))


def withdraw(current: Handoff) -> Handoff:
    """Offer it no longer."""
    return replace(current, state=_next(current, "withdraw"))


def _next(current: Handoff, action: Action) -> State:
    following = TRANSITIONS.get((current.state, action))
    if following is None:
        raise HandoffUnfit(current.id, f"it is {current.state}")
    return following
