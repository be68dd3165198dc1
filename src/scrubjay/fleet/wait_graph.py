"""The wait-for graph of the fleet: who waits for whom, and who does so in a circle.

A circle is found when its last edge comes, by a topological order that is kept up as edges come and go (wait_order.py):
Pearce and Kelly's idea, but with room between the places and a search from both ends, so that an edge costs what the
smaller side of it does. A search for each edge without an order takes milliseconds where many wait for many, and places
without room in between make thousands move for one edge, if edges come in the worst order.

Of many circles that one edge closes only some are told; others become known when these end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from scrubjay.fleet.blockers import Blockers, Chain, Root, find_chain, find_path, find_roots, follow
from scrubjay.fleet.circles import Cycle, Edge
from scrubjay.fleet.wait_order import WaitOrder
from scrubjay.fleet.waits import is_late

__all__ = ["CYCLES_MAX", "Blockers", "Chain", "Cycle", "Edge", "Removal", "Root", "WaitGraph"]

CYCLES_MAX = 8  # that one edge is told to close
# When so many stand, one that an edge closes is told, and if it shares a wait with others only where it is near:
# nobody reads more, and there may be any number.
_CYCLES_ENOUGH = 256
_NEAR_PARTIES_MAX = 500  # from either end
# Hops to look at for circles beside the shortest: about a millisecond, and all there are where few wait for many.
_MORE_HOPS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of the circles when a wait was removed."""

    ended: tuple[str, ...] = ()  #: the keys of those it was part of
    appeared: tuple[Cycle, ...] = ()  #: that stood behind them, and were not told until now


class WaitGraph:
    """Who waits for whom.

    A party waits for all it waits for, so any circle is a deadlock. Invariant: every edge that the order keeps aside is
    part of a circle that is known. As each circle has such an edge, one is known exactly if there is one.
    """

    def __init__(self) -> None:
        self._edges: dict[str, Edge] = {}
        self._order = WaitOrder()
        self._cycles: dict[str, Cycle] = {}
        self._cycles_of: dict[str, dict[str, Cycle]] = {}  #: by wait, then by key

    def __contains__(self, wait: str) -> bool:
        return wait in self._edges

    def __len__(self) -> int:
        return len(self._edges)

    @property
    def cycles(self) -> list[Cycle]:
        """The known circles that stand, oldest first."""
        return sorted(self._cycles.values(), key=lambda cycle: cycle.since_us)

    def add(self, edge: Edge) -> list[Cycle]:
        """The circles that an edge closes, shortest first; nothing changes if its wait is known.

        There is the shortest at least, until very many stand, and CYCLES_MAX at most. They begin with the edge and
        differ in their parties: of several waits of a party for the same other, one stands for all.
        """
        if edge.wait in self._edges:
            return []
        self._edges[edge.wait] = edge
        way = self._order.link(edge)
        if len(self._order.aside) > (edge.wait in self._order.aside):  # along others there may be a shorter one
            if len(self._cycles) < _CYCLES_ENOUGH:
                way = self._order.find([edge.on], edge.waiter)
            elif way is None:
                way = self._order.find([edge.on], edge.waiter, hops_max=_NEAR_PARTIES_MAX)
        return [] if way is None else self._learn(edge, way, self._order.looked_at + _MORE_HOPS_MAX)

    def remove(self, wait: str) -> Removal:
        """End a wait, and with it all circles that it is part of; nothing happens if it is not known.

        Other circles go on to stand, and more appear that the same edges close as those that ended: all of them where
        few wait for many, and in any case so many that one is known if there is one.
        """
        edge = self._edges.pop(wait, None)
        if edge is None:
            return Removal()
        self._order.unlink(edge)
        ended = self._end_cycles(wait)
        return Removal(tuple(ended), tuple(self._look_again(ended.values())))

    def edges_of(self, waiter: str) -> list[Edge]:
        """What a party waits for, oldest first."""
        return _oldest_first(chain.from_iterable(hop.values() for hop in self._order.out.get(waiter, {}).values()))

    def waiters_on(self, party: str) -> list[Edge]:
        """Who waits for a party, oldest first."""
        return _oldest_first(chain.from_iterable(hop.values() for hop in self._order.into.get(party, {}).values()))

    def roots(self, party: str) -> Blockers:
        """Who holds a party up in the end: all whom its waits lead to that wait for nobody themselves, or a circle."""
        own = self._cycles_through([party]) or self._find_cycle(party)
        if own:
            return Blockers(circles=tuple(own))
        reached = follow(self._order.out, party)
        return Blockers(find_roots(self._order.out, reached), tuple(self._cycles_through(reached)))

    def path(self, party: str, circle: Cycle) -> Chain:
        """The shortest way from a party to a circle that its waits lead to; empty if it is in it."""
        return find_path(follow(self._order.out, party), circle.parties)

    def chain(self, party: str) -> Chain:
        """The longest chain of waits that begins with a party; ``find_chain`` says what it is worth in circles."""
        if party not in self._order.out:
            return ()
        return find_chain(self._order, [party], follow(self._order.out, party))

    def longest_chain(self) -> Chain:
        """The longest of all."""
        return find_chain(self._order, self._order.out, self._order.out)

    def starving(self, wall_us: int, *, after_us: int) -> list[Edge]:
        """Waits past their deadline or, without one, at least so old; oldest first."""
        return _oldest_first(
            edge
            for edge in self._edges.values()
            if is_late(edge.since_us, edge.deadline_us, wall_us, after_us=after_us)
        )

    def _learn(self, edge: Edge, shortest: list[str], hops_until: int) -> list[Cycle]:
        """Keep the circles that lead back to an edge; those of them that were not known."""
        hops_max = hops_until - self._order.looked_at if len(self._cycles) < _CYCLES_ENOUGH else 0
        new: list[Cycle] = []
        for way in self._order.ways(shortest, CYCLES_MAX, hops_max):
            cycle = Cycle((edge, *self._order.edges(way)))
            key = cycle.key
            if key not in self._cycles:
                self._cycles[key] = cycle
                for part in cycle.edges:
                    self._cycles_of.setdefault(part.wait, {})[key] = cycle
                new.append(cycle)
        return new

    def _end_cycles(self, wait: str) -> dict[str, Cycle]:
        """Forget the circles that a wait was part of."""
        ended = self._cycles_of.get(wait, {}).copy()
        for key, cycle in ended.items():
            del self._cycles[key]
            for edge in cycle.edges:
                known = self._cycles_of[edge.wait]
                del known[key]
                if not known:
                    del self._cycles_of[edge.wait]
        return ended

    def _look_again(self, ended: Collection[Cycle]) -> Iterator[Cycle]:
        """Learn of other circles that are closed by the same edges as those that have ended."""
        hops_until = self._order.looked_at + _MORE_HOPS_MAX
        aside = {edge.wait: edge for cycle in ended for edge in cycle.edges if edge.wait in self._order.aside}
        bare = [edge for wait, edge in aside.items() if wait not in self._cycles_of]
        # All of them first: what is aside makes a search wide, and most may fit into the order now.
        for edge in bare:
            self._order.unlink(edge)
        for edge in bare:
            way = self._order.link(edge)
            yield from [] if way is None else self._learn(edge, way, hops_until)
        closing = {cycle.edges[0].wait: cycle.edges[0] for cycle in ended}
        for edge in (aside | closing).values():
            hops_max = hops_until - self._order.looked_at
            if hops_max <= 0 or len(self._cycles) >= _CYCLES_ENOUGH:
                return
            if edge.wait in self._edges:
                way = self._order.find([edge.on], edge.waiter, hops_max=hops_max)
                yield from [] if way is None else self._learn(edge, way, hops_until)

    def _cycles_through(self, parties: Iterable[str]) -> list[Cycle]:
        """The known circles that parties are in."""
        found: dict[str, Cycle] = {}
        for party in parties if self._cycles else ():
            for wait in chain.from_iterable(self._order.out.get(party, {}).values()):
                found.update(self._cycles_of.get(wait, {}))
        return list(found.values())

    def _find_cycle(self, party: str) -> list[Cycle]:
        """A circle that a party is in, known or not."""
        onward = self._order.out.get(party)
        way = self._order.find(onward, party) if onward else None
        return [] if way is None else [Cycle(tuple(self._order.edges([party, *way])))]


def _oldest_first(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=lambda edge: edge.since_us)
