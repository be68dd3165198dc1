"""Who waits for what, and what ends that.

A wait is open until it is met, fails, is cancelled, or its waiter is gone. What can end it is a happening: somebody
finishes a turn, ends, speaks, offers something, answers. Which wait a happening ends, and how, is decided here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from scrubjay.fleet.parties import Party, kind_of
from scrubjay.ids import PodId

Kind = Literal["pod", "person", "channel", "artifact", "binding"]
Source = Literal["declared", "binding", "message", "prompt", "inferred"]
Outcome = Literal["met", "failed", "cancelled", "abandoned"]
State = Literal["open", "met", "failed", "cancelled", "abandoned"]
Action = Literal["meet", "fail", "cancel", "abandon"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
TRANSITIONS: Mapping[tuple[State, Action], State] = {
    ("open", "meet"): "met",
    ("open", "fail"): "failed",
    ("open", "cancel"): "cancelled",
    ("open", "abandon"): "abandoned",
}
"""All that can become of a wait: it ends once."""

REASON_MAX = 500  # characters


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody waits for something."""

    id: str
    waiter: Party
    kind: Kind
    source: Source
    key: str | None = None  #: an artifact's key, a channel, a binding, a message or a handoff
    on: Party | None = None  #: who could end it, as far as that is known
    reason: str | None = None
    deadline_us: int | None = None
    evidence: Mapping[str, object] = field(default_factory=dict[str, object])
    since_us: int = 0  #: filled in by the catalog
    until_us: int | None = None
    outcome: Outcome | None = None
    detail: str | None = None  #: of the outcome, for people

    @property
    def state(self) -> State:
        """What has become of it."""
        return self.outcome or "open"

    def is_starving(self, wall_us: int, *, after_us: int) -> bool:
        """Whether it takes longer than it may: past its deadline, or, without one, older than that."""
        return is_late(self.since_us, self.deadline_us, wall_us, after_us=after_us)


def is_late(since_us: int, deadline_us: int | None, wall_us: int, *, after_us: int) -> bool:
    """Whether a wait takes longer than it may: past its deadline, or, without one, older than that."""
    return wall_us >= deadline_us if deadline_us is not None else wall_us - since_us >= after_us


def target_of(on: Party | None, kind: Kind, key: str | None) -> str:
    """Who or what a wait is for, in one word: what nobody is known to do stands for itself."""
    return on if on is not None else f"{kind}:{key}"


# What happens.


@dataclass(frozen=True, slots=True)
class Finished:
    """An agent has finished its turn, and waits for nothing itself."""

    party: Party


@dataclass(frozen=True, slots=True)
class WentOn:
    """An agent that had stopped works again."""

    party: Party


@dataclass(frozen=True, slots=True)
class Stopped:
    """The last pod of somebody has ended. Another may go on with its session, and with what that waits for."""

    party: Party
    how: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An agent's pod has ended."""

    party: Party
    how: str  #: ``exited 1``, ``lost: …``


@dataclass(frozen=True, slots=True)
class Spoke:
    """Somebody has said something in a channel."""

    party: Party
    channel: str
    mentions: frozenset[Party] = frozenset()
    reply_to: str | None = None  #: the message it answers, as ``message_key`` names it
    inbox_of: Party | None = None  #: whose own the channel is


@dataclass(frozen=True, slots=True)
class Archived:
    """Nobody says anything in a channel any more."""

    channel: str


@dataclass(frozen=True, slots=True)
class Offered:
    """Somebody offers an output, to one party or to whoever needs it."""

    party: Party
    handoff: str
    key: str | None
    recipient: Party | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody has accepted a handoff."""

    party: Party
    handoff: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A handoff was declined or withdrawn."""

    party: Party
    handoff: str
    how: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What was pending of a binding is granted, or is not."""

    binding: str
    granted: bool
    how: str


@dataclass(frozen=True, slots=True)
class Attended:
    """A person has answered the prompt that an agent has shown in a pod, or it is gone."""

    party: Party
    pod: PodId


Happening = Finished | WentOn | Stopped | Ended | Spoke | Archived | Offered | Taken | Refused | Answered | Attended
Ending = tuple[Outcome, str]


def ending_of(wait: Wait, happening: Happening) -> Ending | None:
    """How a happening ends an open wait, and why; None if it does not."""
    match happening:
        case Stopped(party, how) | Ended(party, how):
            if party == wait.waiter:
                # A prompt is gone with its screen; all else is still waited for by whoever goes on.
                over = isinstance(happening, Ended) or wait.source == "prompt"
                return ("abandoned", f"it {how}") if over else None
            return ("failed", f"{how}, and will not do it any more") if party == wait.on else None
        case WentOn(party):
            return ("cancelled", "it went on") if wait.source == "inferred" and party == wait.waiter else None
        case Attended(party, pod):
            shown = wait.source == "prompt" and party == wait.waiter and wait.evidence.get("pod") == pod
            return ("met", "it was answered") if shown else None
        case Answered(binding, granted, how):
            if wait.kind != "binding" or wait.key != binding:
                return None
            return ("met" if granted else "failed", how)
        case Finished(party):
            finished = wait.source == "declared" and wait.kind == "pod" and party == wait.on
            return ("met", "it has finished its turn") if finished else None
        case Spoke():
            return _spoken(wait, happening)
        case Archived(channel):
            heard = wait.kind == "channel" and wait.key == channel
            return ("failed", "the channel was archived") if heard or _asked_in(wait, channel) else None
        case Offered():
            return _offered(wait, happening)
        case Taken(party, handoff):
            return ("met", "it was accepted") if _is_about(wait, handoff) and party == wait.on else None
        case Refused(party, handoff, how):
            if not _is_about(wait, handoff):
                return None
            return ("cancelled" if party == wait.waiter else "failed", how)


def _spoken(wait: Wait, spoke: Spoke) -> Ending | None:
    if spoke.party == wait.waiter:
        return None
    if wait.kind == "channel":
        if wait.key == spoke.channel and wait.on in (None, spoke.party):
            return "met", "there is a new message"
        return None
    if wait.on != spoke.party and not _for_any_person(wait, spoke.party):
        return None
    if wait.source == "declared" and wait.kind == "pod" and wait.waiter in spoke.mentions:
        return "met", "it has said something"
    if not _is_question(wait):
        return None
    answered = spoke.reply_to == wait.key
    if spoke.reply_to is None:
        # What is said to the asker alone answers it too, wherever it has asked.
        answered = spoke.inbox_of == wait.waiter or (wait.waiter in spoke.mentions and _asked_in(wait, spoke.channel))
    return ("met", "it has answered") if answered else None


def _for_any_person(wait: Wait, party: Party) -> bool:
    """Whether a person may speak for the one who was asked: whom a message names is whoever wrote before."""
    return wait.kind == "person" and kind_of(party) == "person"


def _offered(wait: Wait, offered: Offered) -> Ending | None:
    if offered.party == wait.waiter or offered.recipient not in (None, wait.waiter):
        return None
    if wait.kind == "artifact":
        fits = wait.key == offered.key and wait.on in (None, offered.party)
        return ("met", "it was handed over") if fits else None
    declared = wait.source == "declared" and wait.kind == "pod" and wait.on == offered.party
    if declared and offered.recipient == wait.waiter:
        return "met", "it has handed something over"
    return None


def message_key(channel: str, seq: int) -> str:
    """What a message is called where one text must name it."""
    return f"{channel}#{seq}"


def _is_question(wait: Wait) -> bool:
    """Whether a wait is for the answer to a message."""
    return wait.source in ("message", "inferred") and wait.key is not None and "#" in wait.key


def _asked_in(wait: Wait, channel: str) -> bool:
    return _is_question(wait) and wait.key is not None and wait.key.rpartition("#")[0] == channel


def _is_about(wait: Wait, handoff: str) -> bool:
    return wait.kind == "pod" and wait.source == "inferred" and wait.key == handoff
