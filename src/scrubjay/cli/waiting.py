"""Waits in words: what somebody waits for, since when, and where that is to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from scrubjay.cli.context import human_span
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain
from scrubjay.fleet.parties import PERSON
from scrubjay.tape.record import Json

ARROW = " \N{RIGHTWARDS ARROW} "


def describe_target(wait: Json) -> str:
    """What somebody waits for."""
    who = _who(wait)
    match wait["kind"]:
        case "artifact":
            what = f"artifact {wait['key']}"
        case "channel":
            what = f"#{wait['channel'] or wait['key']}"
        case "binding":
            return plain(f"binding to {who}")
        case _:
            return plain(who or "somebody")
    return plain(what if who is None else f"{what} of {who}")


def _who(wait: Json) -> str | None:
    if wait["on"] is None:
        return None
    return "you" if wait.get("on_kind") == "person" and wait["on"] == PERSON else str(wait["on"])


def describe_since(wait: Json) -> str:
    """Since when, by the clock, and how long that is or was."""
    return f"since {clock_of(cast(int, wait['since_us']))} ({human_span(cast(float, wait['age_s']))})"


def describe_circle(names: Sequence[str]) -> str:
    """Who waits for whom in a circle: the last for the first."""
    return plain(ARROW.join([*names, names[0]]))


def describe_wait(wait: Json) -> str:
    """A wait in a few words."""
    return f"{plain(str(wait['waiter']))}'s wait for {describe_target(wait)}"
