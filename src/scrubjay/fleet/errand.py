"""How a message comes into a terminal, step by step: what is known at a moment, and what is done next.

Claim it in the catalog, type its opening, see that in the prompt, type the rest, see it, press Enter, see that it was
taken. Whoever dies in between leaves the claim; on the tape is how much was typed, and on the screen what became of it.
So every step follows from what can be seen, and whoever begins anew goes on in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scrubjay.fleet.typed_message import Shown

SHOWN_WITHIN_S = 5.0  # what was typed; a program that has not shown it by then has swallowed it
AGAIN_AFTER_S = 2.0  # Enter is pressed again if nothing has come of it
SETTLED_S = 1.0  # after Enter, before it is believed that the line was taken because it stands elsewhere
BUSY_S = 10.0  # for which the keyboard is held while the pod is at something else
PARTS = 2  # in which a line is typed
PRESSES_MAX = 3  # of Enter, in a row
ATTEMPTS_MAX = 3  # of typing a message
FAILURES_MAX = 3  # after each of which it is left alone for a while

Step = Literal[
    "claim",  # note in the catalog that it is typed, from the end of the tape as it is now
    "trace",  # take the keyboard and look on the tape how far it had come
    "type",  # the next part
    "look",  # at the screen, in a moment
    "enter",
    "erase",  # take back what was typed: nobody wants it any more
    "deliver",  # note in the catalog that it has come
    "release",  # take the claim back: it is for the next pod
    "abandon",  # take the claim back, and leave the message to the inbox
    "rest",  # leave it for a while: something did not work
    "leave",  # stop for now
]


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of a message and of the pod it is typed into."""

    queued: bool = True  #: it has not come otherwise
    over: bool = False  #: the pod has ended
    ready: bool = False  #: the pod waits for a prompt, and nobody else is typing one
    idle: bool = False  #: the pod waits for a prompt
    claimed: bool = False
    attempts: int = 0  #: how often it was claimed
    failures: int = 0  #: how often something did not work
    traced: bool = False  #: what follows is known, and cannot change but by us: the keyboard is ours
    parts: int = 0  #: of those it is typed in, how many were
    found: bool = False  #: they had been before we came
    entered: bool = False  #: Enter was pressed behind all of it, by whomever
    presses: int = 0  #: of Enter, by us since we came
    worked: bool = False  #: the pod was at work since then
    shown: Shown | None = None  #: None if nobody has looked since
    erased: bool = False
    since_s: float = 0.0  #: since something was last typed, or we came


def next_step(sight: Sight) -> Step:
    """What to do."""
    if sight.over:
        return _after_its_end(sight)
    if not sight.queued:
        return _clear(sight, "leave")
    if not sight.claimed:
        return "abandon" if sight.attempts >= ATTEMPTS_MAX else "claim" if sight.ready else "leave"
    if not sight.traced:
        return "trace"
    if not sight.parts:
        return "type" if sight.ready else "leave"
    if sight.entered and sight.worked:
        return "deliver"
    if sight.shown is None:
        return "look"
    if sight.erased:
        return _begin_anew(sight)
    wanted: Shown = "waiting" if sight.parts == PARTS else "begun"
    return _go_on(sight) if sight.shown == wanted else _conclude(sight)


def _go_on(sight: Sight) -> Step:
    """What was typed stands in the prompt."""
    if sight.failures >= FAILURES_MAX:
        return _clear(sight, "abandon")
    if sight.entered and sight.since_s < AGAIN_AFTER_S:
        return "look"
    if not sight.idle:  # a person may be asked something meanwhile, and an Enter would be the answer
        return "look" if sight.since_s < BUSY_S else "leave"
    if sight.parts < PARTS:
        return "type"
    return "enter" if sight.presses < PRESSES_MAX else "rest"


def _conclude(sight: Sight) -> Step:
    """It does not stand there: it was taken, or swallowed."""
    if sight.entered:
        return "deliver" if sight.since_s >= SETTLED_S else "look"
    if sight.since_s < SHOWN_WITHIN_S:
        return "look"
    if not sight.found:
        return "rest"  # it may show later, and is not typed again before that
    return _clear(sight, _begin_anew(sight))


def _begin_anew(sight: Sight) -> Step:
    """Nothing is in the prompt, or nothing more can be done about it."""
    if sight.attempts >= ATTEMPTS_MAX or sight.failures >= FAILURES_MAX:
        return "abandon"
    if sight.shown != "absent" and sight.since_s < SHOWN_WITHIN_S:
        return "look"
    return "abandon" if sight.shown != "absent" else "claim" if sight.ready else "leave"


def _clear(sight: Sight, then: Step) -> Step:
    """Leave nothing in the prompt."""
    if not (sight.traced and sight.parts) or sight.worked or sight.erased:
        return then
    if sight.shown is None or (sight.entered and sight.since_s < AGAIN_AFTER_S):
        return "look"
    return "erase" if sight.shown in ("begun", "waiting") and sight.idle else then


def _after_its_end(sight: Sight) -> Step:
    if not (sight.queued and sight.claimed):
        return "leave"
    if not sight.traced:
        return "trace"
    if not sight.entered:
        return "release"
    if sight.shown is None and not sight.worked:
        return "look"
    return "deliver" if sight.worked or sight.shown != "waiting" else "release"
