"""What one agent may do to another's terminal: asked for, granted, taken back.

    (none) ── request ──▶ pending ── accept ──▶ active ── unbind ──▶ inactive
                             ├── reject ──▶ rejected
                             ├── expire ──▶ expired
                             └── unbind ──▶ inactive

More scopes that are asked for on an active binding are pending until they are granted or refused; the binding stays
active meanwhile. Who may do which of this is decided by whoever calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from scrubjay.errors import BadInput, BindingUnfit
from scrubjay.fleet.access import Scope
from scrubjay.fleet.parties import Party

State = Literal["pending", "active", "inactive", "rejected", "expired"]
Action = Literal["request", "accept", "reject", "unbind", "expire"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
ALIVE: tuple[State, ...] = ("pending", "active")
"""What something can still become of."""

PENDING_US = 24 * 3600 * 1_000_000  # whoever did not answer for a day is asked again, if it still matters

TRANSITIONS: Mapping[tuple[State | None, Action], State] = {
    (None, "request"): "pending",
    ("pending", "request"): "pending",
    ("pending", "accept"): "active",
    ("pending", "reject"): "rejected",
    ("pending", "unbind"): "inactive",
    ("pending", "expire"): "expired",
    ("active", "request"): "active",
    ("active", "accept"): "active",
    ("active", "reject"): "active",
    ("active", "expire"): "active",
    ("active", "unbind"): "inactive",
}
"""All that can happen. What is not here is refused."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What ``initiator`` may do to ``target``, and what it would like to."""

    id: str
    initiator: Party
    target: Party
    state: State
    granted: frozenset[Scope]
    pending: frozenset[Scope]
    decided_by: str  #: who brought it to this state, for people
    reason: str | None = None  #: why it is asked for
    answer: str | None = None  #: why it was refused or ended
    expires_us: int | None = None  #: when what is pending is not any more
    since_us: int = 0  #: filled in by the catalog
    until_us: int | None = None


def parse_scopes(raw: Iterable[str]) -> frozenset[Scope]:
    """The scopes somebody names; BadInput if one is none, or none is named."""
    named = list(dict.fromkeys(raw))
    found: list[Scope] = [scope for scope in SCOPES if scope in named]
    unknown = [name for name in named if name not in SCOPES]
    if unknown or not found:
        what = f"{unknown[0]!r} is not a scope" if unknown else "no scope is named"
        raise BadInput(what, hint=f"scopes are {' and '.join(SCOPES)}")
    return frozenset(found)


def in_order(scopes: Collection[Scope]) -> list[Scope]:
    """Scopes as they are always listed."""
    return [scope for scope in SCOPES if scope in scopes]


def request(
    current: Binding | None,
    *,
    new_id: str,
    initiator: Party,
    target: Party,
    scopes: frozenset[Scope],
    by: str,
    reason: str | None,
    wall_us: int,
) -> Binding:
    """Ask for scopes; ``current`` is the binding of the two that is alive, ``new_id`` for another if there is none."""
    if initiator == target:
        raise BadInput("nobody is bound to itself", hint="name another pod")
    parse_scopes(scopes)  # one at least, or nobody could answer
    if current is None:
        state = _next(None, "request")
        return Binding(new_id, initiator, target, state, frozenset(), scopes, by, reason, None, wall_us + PENDING_US)
    missing = scopes - current.granted - current.pending
    if not missing:
        return current
    return replace(
        current,
        state=_next(current, "request"),
        pending=current.pending | missing,
        decided_by=by,
        reason=reason or current.reason,
        answer=None,
        expires_us=wall_us + PENDING_US,
    )


def accept(current: Binding, *, by: str, scopes: frozenset[Scope] | None = None) -> Binding:
    """Grant what is pending, or only some of it: what is not granted is refused."""
    granted = current.pending if scopes is None else current.pending & scopes
    if current.state in ALIVE and not granted:
        raise BindingUnfit(current.id, "nothing of that is asked for")
    state = _next(current, "accept")
    return replace(
        current, state=state, granted=current.granted | granted, pending=frozenset(), decided_by=by, expires_us=None
    )


def reject(current: Binding, *, by: str, answer: str | None = None) -> Binding:
    """Refuse what is pending."""
    if current.state in ALIVE and not current.pending:
        raise BindingUnfit(current.id, "nothing is asked for")
    state = _next(current, "reject")
    return replace(current, state=state, pending=frozenset(), decided_by=by, answer=answer, expires_us=None)


def unbind(current: Binding, *, by: str, answer: str | None = None) -> Binding:
    """End it, whichever side wants that."""
    state = _next(current, "unbind")
    empty = frozenset[Scope]()
    return replace(current, state=state, granted=empty, pending=empty, decided_by=by, answer=answer, expires_us=None)


def expire(current: Binding) -> Binding:
    """What was pending for too long is so no more."""
    if not current.pending:
        raise BindingUnfit(current.id, "nothing is asked for")
    state = _next(current, "expire")
    return replace(current, state=state, pending=frozenset(), decided_by="time", expires_us=None)


def _next(current: Binding | None, action: Action) -> State:
    state = current.state if current is not None else None
    following = TRANSITIONS.get((state, action))
    if following is None:
        assert current is not None
        raise BindingUnfit(current.id, f"it is {current.state}")
    return following
