"""What a party's waits lead to: whoever holds it up in the end, and how long the way there is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from scrubjay.fleet.circles import Cycle, Edge
from scrubjay.fleet.wait_order import Hop, WaitOrder

ROOTS_MAX = 100  # that are told with their chains; each may be as long as there are parties

Chain = tuple[Edge, ...]
"""Waits, each of which is for the waiter of the next."""


@dataclass(frozen=True, slots=True)
class Root:
    """Somebody who waits for nobody, and whom others wait for."""

    party: str
    chain: Chain  #: one of the shortest ways there


@dataclass(frozen=True, slots=True)
class Blockers:
    """What holds a party up in the end; nothing for one that does not wait."""

    roots: tuple[Root, ...] = ()  #: the ROOTS_MAX nearest, nearest first; none for a party that is in a circle itself
    circles: tuple[Cycle, ...] = ()  #: that it is in or, if it is in none, that its waits lead to; nearest first


def follow(out: Mapping[str, Mapping[str, Hop]], party: str) -> dict[str, Edge | None]:
    """Everybody whom a party's waits lead to, nearest first, and the wait by which; the first is itself."""
    reached: dict[str, Edge | None] = {party: None}
    following = [party]
    for waiter in following:  # it grows meanwhile
        for on, hop in out.get(waiter, {}).items():
            if on not in reached:
                reached[on] = _first(hop)
                following.append(on)
    return reached


def find_roots(out: Mapping[str, Mapping[str, Hop]], reached: Mapping[str, Edge | None]) -> tuple[Root, ...]:
    """The nearest of those who wait for nobody, among all that were reached from a party."""
    roots = (party for party, edge in reached.items() if edge is not None and not out[party])
    return tuple(Root(party, _back(reached, party)) for party in islice(roots, ROOTS_MAX))


def find_path(reached: Mapping[str, Edge | None], members: Collection[str]) -> Chain:
    """The way to the nearest of several parties, among all that were reached; empty if that is where it began."""
    nearest = next(party for party in reached if party in members)
    return _back(reached, nearest)


def find_chain(order: WaitOrder, starts: Collection[str], among: Iterable[str]) -> Chain:
    """The longest chain that begins with one of several parties, ``among`` all whom these lead to.

    It looks at every wait twice at most. Without circles no chain is longer. With them there may be a longer one, which
    could not be found in bearable time: waits that lead back in the order are followed only where there is no other.
    """
    places, lengths = order.places, _lengths(order, among)
    party = max(starts, key=lengths.__getitem__, default=None)
    chain: list[Edge] = []
    passed = {party}
    while party is not None:
        onward = [on for on in order.out[party] if on not in passed]
        nearest = places[party]
        on = max(onward, key=lambda on: (places[on] > nearest, lengths[on]), default=None)
        if on is not None:
            chain.append(_first(order.out[party][on]))
            passed.add(on)
        party = on
    return tuple(chain)


def _lengths(order: WaitOrder, among: Iterable[str]) -> dict[str, int]:
    """How many waits follow one another from each party on, if none leads back in the order."""
    places = order.places
    lengths: dict[str, int] = {}
    for party in sorted(among, key=places.__getitem__, reverse=True):
        onward = (lengths[on] + 1 for on in order.out[party] if places[on] > places[party])
        lengths[party] = max(onward, default=0)
    return lengths


def _first(hop: Hop) -> Edge:
    return next(iter(hop.values()))


def _back(reached: Mapping[str, Edge | None], party: str) -> Chain:
    chain: list[Edge] = []
    while (edge := reached[party]) is not None:
        chain.append(edge)
        party = edge.waiter
    return tuple(reversed(chain))
