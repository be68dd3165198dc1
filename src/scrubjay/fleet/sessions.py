"""Sessions: threads of work that pods and connections come and go under, and who holds one.

    open ── release, lapse, its pod ends ──▶ suspended ── resume ──▶ open
      └────────── finish ──▶ finished ◀── finish ──┘
                               └── resume, reopening it ──▶ open

A session has at most one holder. Each grant raises its epoch, and whoever writes with an earlier one is refused. Who
lost a session to nobody, by being silent for too long, goes on with the same epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NewType

from scrubjay.errors import BadId, Fenced, SessionFinished
from scrubjay.fleet.parties import Party
from scrubjay.ids import PodId, SessionId, parse_session_id

State = Literal["open", "suspended", "finished"]
Reason = Literal["malformed", "not_found", "held", "finished", "expired"]
"""Why a session is not resumed."""

Holder = NewType("Holder", str)
"""Who has a session: a pod (``pod:<id>``), or a connection of somebody outside pods (``<kind>:<whose>:<which>``)."""

How = Literal["opened", "resumed", "taken_over", "reopened", "handed_over"]
"""How somebody came to hold a session."""


@dataclass(frozen=True, slots=True)
class Session:
    """A thread of work."""

    id: SessionId
    owner: Party
    state: State
    epoch: int
    last_seq: int  #: of its memories
    created_us: int
    since_us: int  #: in that state, with that holder
    holder: Holder | None = None  #: whoever has it, or, of one that is suspended, had it last
    held_by: str | None = None  #: the holder, for people
    why: str | None = None  #: how it came to that state
    name: str | None = None  #: what people call it
    agent: str | None = None
    used_us: int = 0  #: when something was last added to it
    origin: dict[str, object] = field(default_factory=dict[str, object])  #: where it comes from


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody wants of a session, and what is known of the one who has it."""

    holder: Holder
    takeover: bool = False  #: also from whoever has it
    reopen: bool = False  #: also if it is finished or has expired
    lapsed: bool = False  #: whoever has it was not heard of for too long, or is gone
    expired: bool = False  #: it was left alone for too long


def judge(session: Session, claim: Claim) -> Reason | None:
    """Why a claim is refused; None if it is granted."""
    if session.state == "finished":
        return None if claim.reopen else "finished"
    if session.state == "open" and session.holder != claim.holder and not claim.lapsed and not claim.takeover:
        return "held"
    if session.state == "suspended" and claim.expired and not claim.reopen:
        return "expired"
    return None


def how_granted(session: Session, claim: Claim) -> How:
    """How a claim that is granted is to be called."""
    if session.state == "finished" or (session.state == "suspended" and claim.expired):
        return "reopened"
    if session.state == "open" and session.holder != claim.holder and not claim.lapsed:
        return "taken_over"
    return "resumed"


def require_holding(session: Session, holder: Holder, epoch: int | None) -> None:
    """Fenced or SessionFinished unless somebody may write into a session with the epoch they have, if they say one."""
    if session.state == "finished":
        raise SessionFinished(session.id)
    if session.holder != holder or (epoch is not None and epoch != session.epoch):
        raise Fenced(session.id, session.held_by if session.state == "open" else None, session.epoch)


def pod_holder(pod: PodId | str) -> Holder:
    """A pod, as the holder of its session."""
    return Holder(f"pod:{pod}")


def pod_of_holder(holder: Holder | None) -> PodId | None:
    """The pod that a holder is, if it is one."""
    kind, _, rest = (holder or "").partition(":")
    return PodId(rest) if kind == "pod" else None


def is_session_id(raw: str) -> bool:
    """Whether it looks like the id of a session."""
    try:
        parse_session_id(raw)
    except BadId:
        return False
    return True


def warn(
    reason: Reason, requested: str, new: SessionId, *, held_by: str | None = None, for_s: int | None = None
) -> str:
    """What a person or an agent is told whose session was not resumed."""
    shown = requested if len(requested) <= 40 else requested[:40] + "…"
    match reason:
        case "malformed":
            why = f"{shown!r} is not the id of a session: an id is 26 letters and digits"
        case "not_found":
            why = f"there is no session {shown} of yours"
        case "held":
            free = f", and is free {for_s} s after it was last heard of" if for_s is not None else ""
            why = f"session {shown} is held by {held_by or 'somebody else'}{free}; takeover=true takes it from there"
        case "finished":
            why = f"session {shown} is finished; reopen=true goes on with it"
        case "expired":
            why = f"session {shown} was left alone for too long; reopen=true goes on with it"
    return f"NOT RESUMED: {why}. You are in a new session, {new}: what you add goes there."
