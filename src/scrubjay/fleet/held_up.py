"""Who is held up by whom, of all waits at once: directly, and in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

Arc = tuple[str, str, str]
"""A wait: its id, who waits, and for whom or what."""


class Hold(NamedTuple):
    """What one party keeps others from; a tuple, because there may be thousands."""

    waiters: int  #: how many wait for it
    held_up: int  #: with those who wait for them, and so on
    is_root: bool  #: whether others wait for it, and it waits for nobody


class HeldUp(NamedTuple):
    """Everybody who waits or is waited for."""

    holds: Mapping[str, Hold]  #: of those who are waited for
    roots: tuple[str, ...]  #: those others wait for, who wait for nobody; who holds most up first
    longest: tuple[str, ...]  #: the longest chain of waits, each for the waiter of the next, outside of circles


def see_held_up(arcs: Iterable[Arc]) -> HeldUp:
    """What follows from some waits; the same for the same waits in the same order.

    How many are held up in all is counted in bits: a set of parties for each would take seconds where 10,000 wait.
    """
    out: dict[str, dict[str, str]] = {}  # who waits, for whom, and the first wait by which
    into: dict[str, set[str]] = {}
    for wait, waiter, on in arcs:
        out.setdefault(waiter, {}).setdefault(on, wait)
        out.setdefault(on, {})
        into.setdefault(on, set()).add(waiter)
    knots = list(_knots(out))
    knot_of = {party: number for number, knot in enumerate(knots) for party in knot}
    behind = _behind(knots, knot_of, into)
    holds = {
        party: Hold(len(waiters), (behind[knot_of[party]] & ~(1 << place)).bit_count(), not out[party])
        for place, party in enumerate(knot_of)
        if (waiters := into.get(party))
    }
    roots = sorted((party for party, hold in holds.items() if hold.is_root), key=lambda party: -holds[party].held_up)
    return HeldUp(holds, tuple(roots), _longest(knots, knot_of, out))


def _knots(out: Mapping[str, Mapping[str, str]]) -> Iterator[list[str]]:
    """Parties that lead to one another, together; those that others lead to before these: Tarjan's algorithm."""
    indexes: dict[str, int] = {}
    low: dict[str, int] = {}  #: the first that each leads back to, as far as is known, of those on the path
    path: list[str] = []
    for start in out:
        if start in indexes:
            continue
        visits = [(start, iter(out[start]))]
        indexes[start] = low[start] = len(indexes)
        path.append(start)
        while visits:
            party, onward = visits[-1]
            for on in onward:
                if on not in indexes:
                    indexes[on] = low[on] = len(indexes)
                    path.append(on)
                    visits.append((on, iter(out[on])))
                    break
                if on in low and low[on] < low[party]:
                    low[party] = low[on]
            else:
                visits.pop()
                if low[party] == indexes[party]:
                    yield _tie(party, path, low)
                elif low[party] < low[visits[-1][0]]:
                    low[visits[-1][0]] = low[party]


def _tie(party: str, path: list[str], low: dict[str, int]) -> list[str]:
    """Take a knot, which begins with a party, from the path."""
    knot: list[str] = []
    while party in low:
        knot.append(path.pop())
        del low[knot[-1]]
    return knot


def _behind(knots: list[list[str]], knot_of: Mapping[str, int], into: Mapping[str, set[str]]) -> list[int]:
    """Of each knot, everybody whose waits lead to it, itself included if it is a circle, as bits in the order of
    ``knot_of``."""
    members: list[int] = []
    place = 0
    for knot in knots:
        members.append(((1 << len(knot)) - 1) << place)
        place += len(knot)
    behind = [members[number] if len(knot) > 1 else 0 for number, knot in enumerate(knots)]
    for number in reversed(range(len(knots))):  # whoever waits comes before whom they wait for
        for party in knots[number]:
            for waiter in into.get(party, ()):
                other = knot_of[waiter]
                if other != number:
                    behind[number] |= behind[other] | members[other]
    return behind


def _longest(
    knots: list[list[str]], knot_of: Mapping[str, int], out: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    lengths: dict[str, int] = {}
    next_: dict[str, str] = {}
    for number, knot in enumerate(knots):
        for party in knot:
            lengths[party] = 0
            for on in out[party]:
                if knot_of[on] != number and lengths[on] >= lengths[party]:
                    lengths[party], next_[party] = lengths[on] + 1, on
    party = max(lengths, key=lengths.__getitem__, default=None)
    chain: list[str] = []
    while party is not None and (on := next_.get(party)) is not None:
        chain.append(out[party][on])
        party = on
    return tuple(chain)
