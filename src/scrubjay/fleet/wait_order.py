"""Who waits for whom, in an order in which everybody comes before those it waits for.

An edge that fits into the order closes no circle with what is in it, and that is all there is to look at. For another
the way back is looked for from both of its ends at once, between its two places only; if there is none, the end that
came to fewer parties moves, and if there is one, the edge is kept aside. So each circle has an edge that is aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import chain, pairwise
from sys import intern

from scrubjay.fleet.circles import Edge

Hop = dict[str, Edge]
"""The waits of one party for another by their ids; the first stands for all."""

# Between neighbours. Python's integers have no width: so often can the room at one place be halved before all are
# placed anew, which takes 10 ms for 10,000 parties.
_GAP = 1 << 256
_FAR = _GAP << 256  # farther than anybody comes
# With more edges aside than this, it takes longer to find out where they are than it saves.
_WINDOW_EDGES_MAX = 64


class _End:
    """One of the two ends of a search, and whom it has come to."""

    __slots__ = ("_bound", "front", "hops", "places", "seen")

    def __init__(
        self,
        starts: Iterable[str],
        avoiding: Iterable[str],
        hops: Mapping[str, Mapping[str, object]],
        places: dict[str, int],
        bound: int,
    ) -> None:
        self.hops = hops
        self.places = places  #: they rise along the hops
        self._bound = bound  #: nobody beyond can lead to the other end
        self.seen = {party: party for party in avoiding}  #: and from where
        self.front = [party for party in starts if party not in self.seen and places[party] <= bound]
        self.seen.update((party, party) for party in self.front)

    @property
    def looked_at(self) -> int:
        """So many hops at most: what it has cost."""
        return sum(map(len, map(self.hops.__getitem__, self.seen)))

    def advance(self, others: Mapping[str, str], enough: int) -> str | None:
        """Go on to all who are one step farther, and so on, until more than enough were seen or one is among others."""
        hops, places, bound, seen = self.hops, self.places, self._bound, self.seen
        # One list that grows, with None after each step: a list for each would take twice as long along a chain.
        queue: list[str | None] = [*self.front, None]
        step = len(queue)
        for party in queue:
            if party is None:
                if len(queue) == step or len(seen) > enough:
                    break
                queue.append(None)
                step = len(queue)
                continue
            for other in hops[party]:
                if other not in seen and places[other] <= bound:
                    seen[other] = party
                    if other in others:
                        return other
                    queue.append(other)
        self.front = [party for party in queue[step:] if party is not None]
        return None

    def way(self, party: str) -> list[str]:
        """From a party that was come to back to where it began."""
        way = [party]
        while (before := self.seen[party]) != party:
            way.append(party := before)
        return way


def _search(ahead: _End, behind: _End, parties_max: int = _FAR) -> list[str] | None:
    """The shortest way from one end to the other; None if there is none, or not among so many from either end."""
    met = next((party for party in ahead.front if party in behind.seen), None)
    while met is None and ahead.front and behind.front:
        near, far = (ahead, behind) if len(ahead.seen) <= len(behind.seen) else (behind, ahead)
        if len(near.seen) > parties_max:
            return None
        # By turns, each until it has seen twice as many as the other: a small side ends the search of a large one.
        met = near.advance(far.seen, min(2 * len(far.seen), parties_max))
    return None if met is None else [*reversed(ahead.way(met)), *behind.way(met)[1:]]


class WaitOrder:
    """Everybody who waits or is waited for."""

    def __init__(self) -> None:
        self.out: dict[str, dict[str, Hop]] = {}  #: who waits, for whom
        self.into: dict[str, dict[str, Hop]] = {}  #: who is waited for, by whom
        self.aside: dict[str, Edge] = {}  #: those that the order is without, by their waits
        self._down: dict[str, dict[str, int]] = {}  #: as ``out``, but how many the order is with
        self._up: dict[str, dict[str, int]] = {}
        # Invariant: but for those aside, a waiter's place is before that of whoever it waits for. Others may share one.
        self.places: dict[str, int] = {}
        self._mirrored: dict[str, int] = {}  #: the same from behind
        self.looked_at = 0  #: so many hops in all, in searches that have a limit

    def link(self, edge: Edge) -> list[str] | None:
        """Take an edge in; if the order cannot, the way in it from whoever is waited for back to the waiter."""
        # One object for each name: a third of the time of a search is comparing them otherwise.
        waiter, on = intern(edge.waiter), intern(edge.on)
        self._seat(waiter, on)
        hop = self.out[waiter].setdefault(on, {})
        hop[edge.wait] = edge
        self.into[on][waiter] = hop
        way = None if self.places[waiter] < self.places[on] else self._make_room(waiter, on)
        if way is None:
            self._down[waiter][on] = self._up[on][waiter] = self._down[waiter].get(on, 0) + 1
        else:
            self.aside[edge.wait] = edge
        return way

    def unlink(self, edge: Edge) -> None:
        """Forget an edge, and who has no others."""
        waiter, on = edge.waiter, edge.on
        if self.aside.pop(edge.wait, None) is None:
            self._down[waiter][on] = self._up[on][waiter] = self._down[waiter][on] - 1
            if not self._down[waiter][on]:
                del self._down[waiter][on], self._up[on][waiter]
        hop = self.out[waiter][on]
        del hop[edge.wait]
        if not hop:
            del self.out[waiter][on], self.into[on][waiter]
        for party in {waiter, on}:
            if not self.out[party] and not self.into[party]:
                for known in (self.out, self.into, self._down, self._up, self.places, self._mirrored):
                    del known[party]

    def find(
        self, starts: Iterable[str], target: str, avoiding: Iterable[str] = (), hops_max: int = _FAR
    ) -> list[str] | None:
        """The shortest way from one of several parties to another along all edges; None if it is too far to look."""
        starts, avoiding = list(starts), list(avoiding)
        lowest, highest = self._window(starts, target)
        ahead = _End(starts, avoiding, self.out, self.places, highest)
        behind = _End([target], avoiding, self.into, self._mirrored, -lowest)
        way = _search(ahead, behind, hops_max)
        if hops_max < _FAR:
            self.looked_at += ahead.looked_at + behind.looked_at
        return way

    def ways(self, shortest: list[str], most: int, hops_max: int) -> list[list[str]]:
        """More ways between the same two parties, shortest first: Yen's algorithm with Lawler's remark.

        When it has looked at enough hops it takes those it has found by then, which may not be the next shortest.
        """
        ways, index = [shortest], 0
        candidates: list[tuple[int, int, list[str], int]] = []  # by length, then as found; where it leaves another
        hops_until = self.looked_at + hops_max
        while len(ways) < most:
            for leaving in range(index, len(ways[-1]) - 1):
                if self.looked_at >= hops_until:
                    break
                way = self._leave(ways, leaving, hops_until - self.looked_at)
                if way is not None:
                    heappush(candidates, (len(way), self.looked_at, way, leaving))
            if not candidates:
                break
            _, _, way, index = heappop(candidates)
            ways.append(way)
        return ways

    def edges(self, way: list[str]) -> list[Edge]:
        """The waits along a way."""
        return [next(iter(self.out[party][other].values())) for party, other in pairwise(way)]

    def _leave(self, ways: list[list[str]], index: int, hops_max: int) -> list[str] | None:
        """The shortest way that is as the last of all ways up to an index, and goes on as none of them."""
        last = ways[-1]
        before = last[: index + 1]
        taken = {way[index + 1] for way in ways if way[: index + 1] == before}
        starts = [party for party in self.out[last[index]] if party not in taken]
        self.looked_at += len(starts) + index + 1
        way = self.find(starts, last[-1], before, hops_max)
        return None if way is None else before + way

    def _window(self, starts: list[str], target: str) -> tuple[int, int]:
        """The first and the last place that a way can lead through: it goes back only along edges that are aside."""
        if len(self.aside) > _WINDOW_EDGES_MAX:
            return -_FAR, _FAR
        back = [edge for edge in self.aside.values() if edge.waiter != edge.on]
        lowest = min((self.places[party] for party in chain(starts, (edge.on for edge in back))), default=_FAR)
        return lowest, max(self.places[party] for party in chain([target], (edge.waiter for edge in back)))

    def _seat(self, waiter: str, on: str) -> None:
        """Give those who are new a place where they are in nobody's way."""
        if waiter not in self.places:
            self._place(waiter, self.places[on] - _GAP if on in self.places else 0)
        if on not in self.places:
            self._place(on, self.places[waiter] + _GAP)

    def _place(self, party: str, place: int) -> None:
        self.places[party], self._mirrored[party] = place, -place
        self.out[party], self.into[party], self._down[party], self._up[party] = {}, {}, {}, {}

    def _make_room(self, waiter: str, on: str) -> list[str] | None:
        """Put whoever is waited for behind the waiter, or the waiter before it, with all that have to come along.

        If there is a way from one to the other nobody moves, and it is the way.
        """
        ahead = _End([on], (), self._down, self.places, self.places[waiter])
        behind = _End([waiter], (), self._up, self._mirrored, self._mirrored[on])
        way = _search(ahead, behind)
        if way is not None:
            return way
        if not ahead.front:
            self._move(ahead, waiter, self._mirrored)
        else:
            self._move(behind, on, self.places)
        return None

    def _move(self, end: _End, anchor: str, mirrored: dict[str, int]) -> None:
        """Move those whom an end has come to behind the anchor, and keep their order.

        What follows them lies beyond: had it been between, they would have come to it.
        """
        places, floor = end.places, end.places[anchor]
        moved = sorted(end.seen, key=places.__getitem__)
        beyond = set(chain.from_iterable(map(end.hops.__getitem__, moved))) - end.seen.keys()
        ceiling = min(map(places.__getitem__, beyond), default=_FAR)
        step = min(_GAP, (ceiling - floor) // (len(moved) + 1))
        if not step:
            everybody = sorted(places.keys() - set(moved), key=places.__getitem__)
            after = everybody.index(anchor) + 1
            moved, floor, step = [*everybody[:after], *moved, *everybody[after:]], 0, _GAP
        for number, party in enumerate(moved, 1):
            places[party] = floor + number * step
            mirrored[party] = -places[party]
