"""Who waits for whom: circles are known from their last edge to the first that goes, and blockers are found."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.fleet.blockers import ROOTS_MAX
from scrubjay.fleet.wait_graph import CYCLES_MAX, Chain, Cycle, Edge, WaitGraph
from tests.support.tables import every_row
from tests.support.tiers import sized

_SECOND_US = 1_000_000
_PARTIES = sized(1_000, 10_000, 10_000)
_EDGES = 5 * _PARTIES
_OFTEN = settings(max_examples=sized(40, 200, 5000), deadline=None)


def _edge(name: str, since_s: int = 0, *, source: str = "declared", deadline_s: int | None = None) -> Edge:
    """``ab`` is a's wait for b; more letters tell waits apart."""
    deadline_us = None if deadline_s is None else deadline_s * _SECOND_US
    return Edge(name, name[0], name[1], since_s * _SECOND_US, source, deadline_us)


def _graph(*names: str) -> WaitGraph:
    graph = WaitGraph()
    for since_s, name in enumerate(names):
        graph.add(_edge(name, since_s))
    return graph


def _waits(edges: Iterable[Edge]) -> str:
    return " ".join(edge.wait for edge in edges)


def _told(cycles: Iterable[Cycle]) -> list[str]:
    return [_waits(cycle.edges) for cycle in cycles]


# Circles.


def test_an_edge_that_closes_a_circle_tells_it_from_there_on_and_in_order() -> None:
    graph = _graph("ab", "bc")

    (circle,) = graph.add(_edge("ca"))

    assert _waits(circle.edges) == "ca ab bc"
    assert circle.parties == ("c", "a", "b")
    assert graph.cycles == [circle]


def test_waits_without_a_circle_tell_none() -> None:
    graph = _graph("ab", "ac", "bd", "cd")

    assert graph.add(_edge("ad")) == []
    assert graph.cycles == []


def test_who_waits_for_itself_is_a_circle() -> None:
    graph = _graph("ab")

    assert _told(graph.add(_edge("aa"))) == ["aa"]
    assert [cycle.parties for cycle in graph.cycles] == [("a",)]


def test_a_wait_that_is_known_changes_nothing() -> None:
    graph = _graph("ab", "ba")

    assert graph.add(replace(_edge("ba"), on="c")) == []
    assert _waits(graph.edges_of("b")) == "ba"
    assert len(graph) == 2


def test_all_circles_that_an_edge_closes_are_told_shortest_first() -> None:
    graph = _graph("bc", "cd", "da", "ba", "ca")

    assert _told(graph.add(_edge("ab"))) == ["ab ba", "ab bc ca", "ab bc cd da"]


def test_an_edge_into_a_circle_that_stands_tells_only_what_it_closes_itself() -> None:
    graph = _graph("ab", "ba")

    assert graph.add(_edge("ca", 2)) == []
    assert _told(graph.add(_edge("bc", 3))) == ["bc ca ab"]
    assert _told(graph.cycles) == ["ba ab", "bc ca ab"]


def test_no_more_than_some_circles_are_told_at_once() -> None:
    graph = _graph(*(f"b{party}" for party in "cdefghijklmn"), *(f"{party}a" for party in "cdefghijklmn"))

    assert len(graph.add(_edge("ab"))) == CYCLES_MAX
    assert len(graph.cycles) == CYCLES_MAX


def test_one_wait_stands_for_others_between_the_same_two_until_it_ends() -> None:
    graph = _graph("ab1", "ab2")

    (first,) = graph.add(_edge("ba"))
    removal = graph.remove("ab1")

    assert _waits(first.edges) == "ba ab1"
    assert removal.ended == (first.key,)
    assert _told(removal.appeared) == ["ba ab2"]
    assert graph.cycles == list(removal.appeared)


def test_a_second_wait_that_closes_the_same_circle_is_one_of_its_own() -> None:
    graph = _graph("ab", "ba1")

    (second,) = graph.add(_edge("ba2"))

    assert _waits(second.edges) == "ba2 ab"
    assert len(graph.cycles) == 2
    assert graph.remove("ba2").ended == (second.key,)


@every_row("cut", ["ab", "bc", "ca"])
def test_removing_any_edge_of_a_circle_ends_it(cut: str) -> None:
    graph = _graph("ab", "bc", "ca")
    (circle,) = graph.cycles

    removal = graph.remove(cut)

    assert removal.ended == (circle.key,)
    assert removal.appeared == ()
    assert graph.cycles == []
    assert cut not in graph


def test_what_is_removed_twice_or_was_never_there_ends_nothing() -> None:
    graph = _graph("ab", "ba")
    graph.remove("ab")

    assert graph.remove("ab").ended == ()
    assert graph.remove("xy").ended == ()
    assert "ba" in graph


def test_a_circle_closes_again_when_its_edge_comes_back() -> None:
    graph = _graph("ab", "bc", "ca")
    before = graph.cycles[0].key
    graph.remove("bc")

    (again,) = graph.add(_edge("bc"))

    assert again.key == before
    assert _waits(again.edges) == "bc ca ab"


def test_other_circles_stand_when_one_ends() -> None:
    graph = _graph("ab", "ba", "cd", "dc", "bc", "cb")

    graph.remove("cb")

    assert _told(graph.cycles) == ["ba ab", "dc cd"]


def test_a_circle_that_was_not_told_appears_when_those_before_it_end() -> None:
    others = "cdefghijklmn"
    graph = _graph(*(f"b{party}" for party in others), *(f"{party}a" for party in others), "ab")
    told = {cycle.parties[2] for cycle in graph.cycles}

    appeared = [circle for party in sorted(told) for circle in graph.remove(f"b{party}").appeared]

    assert {circle.parties[2] for circle in appeared} == set(others) - told
    assert {circle.key for circle in graph.cycles} == {circle.key for circle in appeared}


def test_a_circle_that_was_not_told_appears_whichever_of_its_edges_had_closed_another() -> None:
    others = "cdefghijklmn"
    graph = _graph("pq", "qp", "pu", *(f"v{party}" for party in others), *(f"{party}q" for party in others))
    closing = _edge("uv", 99)
    graph.add(closing)

    for left in range(len(others), 0, -1):
        through = [cycle for cycle in graph.cycles if closing in cycle.edges]
        assert len(through) == min(left, CYCLES_MAX)
        graph.remove(f"v{through[0].parties[2]}")


def test_a_circle_of_everybody_appears_behind_another() -> None:
    graph = WaitGraph()
    ring = [_fleet_edge(number, number, (number + 1) % _PARTIES) for number in range(_PARTIES)]
    beside = replace(ring[_PARTIES // 2], wait="beside")
    for edge in (*ring[:-1], beside, ring[-1]):
        graph.add(edge)
    (told,) = graph.cycles

    removal = graph.remove(ring[_PARTIES // 2].wait)

    assert removal.ended == (told.key,)
    assert [len(cycle.edges) for cycle in removal.appeared] == [_PARTIES]
    assert beside in removal.appeared[0].edges


def test_circles_are_listed_by_when_they_closed() -> None:
    graph = WaitGraph()
    for edge in (_edge("ab", 5), _edge("ba", 9), _edge("cd", 1), _edge("dc", 2), _edge("ee", 7)):
        graph.add(edge)

    assert [cycle.parties for cycle in graph.cycles] == [("d", "c"), ("e",), ("b", "a")]
    assert [cycle.since_us for cycle in graph.cycles] == [2 * _SECOND_US, 7 * _SECOND_US, 9 * _SECOND_US]


def test_a_circle_has_the_same_key_wherever_it_is_entered_and_another_than_others() -> None:
    edges = [_edge("ab"), _edge("bc"), _edge("ca")]
    turned = [Cycle((*edges[start:], *edges[:start])) for start in range(3)]
    other = Cycle((*edges[:2], _edge("ca2")))
    backwards = Cycle((_edge("ac"), _edge("cb"), _edge("ba")))

    assert len({cycle.key for cycle in turned}) == 1
    assert len({turned[0].key, other.key, backwards.key}) == 3
    assert len(turned[0].key) == 32


# The edge to cut.


@every_row(
    ("dear", "cheap"),
    [("declared", "prompt"), ("prompt", "binding"), ("binding", "message"), ("message", "inferred")],
)
def test_the_cheapest_edge_to_cut_is_told_by_its_source_first(dear: str, cheap: str) -> None:
    cycle = Cycle((_edge("ab", 9, source=dear, deadline_s=1), _edge("ba", 1, source=cheap)))

    assert cycle.cheapest.wait == "ba"


def test_of_equal_edges_one_past_its_deadline_is_cut_first_then_the_youngest() -> None:
    overdue, later, young = _edge("ab", 1, deadline_s=5), _edge("bc", 2, deadline_s=50), _edge("ca", 9)

    assert Cycle((overdue, later, young)).cheapest == overdue
    assert Cycle((later, young, _edge("cb", 3))).cheapest == young
    assert Cycle((later, young)).cheapest_at(60 * _SECOND_US) == later


def test_of_edges_that_are_equal_in_all_the_same_is_cut_wherever_the_circle_is_entered() -> None:
    edges = (_edge("ab"), _edge("ba"))

    assert Cycle(edges).cheapest == Cycle(edges[::-1]).cheapest


def test_a_source_that_nobody_knows_is_cut_last() -> None:
    assert Cycle((_edge("ab", source="new"), _edge("ba"))).cheapest.wait == "ba"


# Blockers, chains, starvation.


def test_edges_of_and_waiters_on_a_party_are_told_oldest_first() -> None:
    graph = WaitGraph()
    for edge in (_edge("ac", 5), _edge("ab1", 3), _edge("ab2", 7), _edge("cb", 1)):
        graph.add(edge)

    assert _waits(graph.edges_of("a")) == "ab1 ac ab2"
    assert _waits(graph.waiters_on("b")) == "cb ab1 ab2"
    assert graph.edges_of("b") == graph.waiters_on("a") == graph.edges_of("nobody") == []


def test_roots_are_those_who_wait_for_nobody_nearest_first_with_the_way_there() -> None:
    graph = _graph("ab", "bc", "cd", "be", "ad")

    blockers = graph.roots("a")

    assert [(root.party, _waits(root.chain)) for root in blockers.roots] == [("d", "ad"), ("e", "ab be")]
    assert blockers.circles == ()


def test_of_very_many_roots_the_nearest_are_told() -> None:
    graph = _graph("ab")
    for number in range(ROOTS_MAX + 10):
        graph.add(Edge(f"far {number}", "b", f"far {number}", number))
    graph.add(_edge("az"))

    roots = graph.roots("a").roots

    assert len(roots) == ROOTS_MAX
    assert roots[0].party == "z"


def test_who_waits_for_nobody_is_held_up_by_nobody() -> None:
    graph = _graph("ab")

    assert graph.roots("b").roots == graph.roots("nobody").roots == ()


def test_who_is_in_a_circle_has_that_instead_of_a_root() -> None:
    graph = _graph("ab", "ba", "bc")

    blockers = graph.roots("a")

    assert blockers.roots == ()
    assert _told(blockers.circles) == ["ba ab"]


def test_who_is_in_a_circle_that_was_not_told_has_that_instead_of_a_root() -> None:
    others = "cdefghijklmn"
    graph = _graph(*(f"b{party}" for party in others), *(f"{party}a" for party in others), "ab", "nz")
    untold = max(set(others) - {cycle.parties[2] for cycle in graph.cycles})

    blockers = graph.roots(untold)

    assert blockers.roots == ()
    assert _told(blockers.circles) == [f"{untold}a ab b{untold}"]


def test_who_waits_for_one_in_a_circle_has_the_circle_and_the_roots_behind_it() -> None:
    graph = _graph("ab", "bc", "cb", "cd")

    blockers = graph.roots("a")

    assert [(root.party, _waits(root.chain)) for root in blockers.roots] == [("d", "ab bc cd")]
    assert _told(blockers.circles) == ["cb bc"]


def test_the_longest_chain_is_told_and_not_the_shortest() -> None:
    graph = _graph("ab", "bc", "cd", "ad", "xa", "yd")

    assert _waits(graph.chain("a")) == "ab bc cd"
    assert _waits(graph.longest_chain()) == "xa ab bc cd"
    assert graph.chain("d") == graph.chain("nobody") == WaitGraph().longest_chain() == ()


@every_row("closing", ["ab", "bc", "ca"])
def test_a_chain_goes_once_round_a_circle(closing: str) -> None:
    graph = _graph("xa", *(name for name in ("ab", "bc", "ca") if name != closing), closing)

    assert _waits(graph.chain("x")) == "xa ab bc"
    assert _waits(graph.chain("b")) == "bc ca"


def test_a_chain_does_not_go_into_a_circle_where_it_can_go_on() -> None:
    graph = _graph("ca", "ab", "bd", "ac")

    assert _waits(graph.chain("a")) == "ab bd"


def test_a_wait_starves_past_its_deadline_or_without_one_when_it_is_old() -> None:
    graph = WaitGraph()
    patient = _edge("ab", 0, deadline_s=100)
    for edge in (_edge("bc", 50), _edge("cd", 20), _edge("da", 40, deadline_s=60), patient, _edge("ef", 31)):
        graph.add(edge)

    starving = graph.starving(60 * _SECOND_US, after_us=30 * _SECOND_US)

    assert _waits(starving) == "cd da"


# Against a model that is built anew each time.

_Pair = tuple[int, int]


class _Model:
    """A list of edges; everything is found by looking at all of them."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self.edges = list(edges)

    def onward(self, party: str) -> set[str]:
        return {edge.on for edge in self.edges if edge.waiter == party}

    def ways(self, party: str, target: str, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """All from one party to another that pass nobody twice, both ends included."""
        if party == target:
            yield (*passed, party)
        elif party not in passed:
            for other in self.onward(party):
                yield from self.ways(other, target, (*passed, party))

    def circles(self) -> set[tuple[str, ...]]:
        """The parties of each, from the smallest on."""
        pairs = {(edge.waiter, edge.on) for edge in self.edges}
        return {_turned(way) for waiter, on in pairs for way in self.ways(on, waiter)}

    def distances(self, party: str) -> dict[str, int]:
        distances = {party: 0}
        queue = deque([party])
        while queue:
            waiter = queue.popleft()
            for other in self.onward(waiter) - distances.keys():
                distances[other] = distances[waiter] + 1
                queue.append(other)
        return distances

    def longest(self, party: str) -> int:
        """The longest chain from a party; there must be no circle."""
        return max((self.longest(other) + 1 for other in self.onward(party)), default=0)


def _turned(parties: Sequence[str]) -> tuple[str, ...]:
    first = parties.index(min(parties))
    return (*parties[first:], *parties[:first])


def _assert_real(cycle: Cycle, standing: Set[Edge]) -> None:
    assert set(cycle.edges) <= standing
    assert all(edge.on == after.waiter for edge, after in pairwise((*cycle.edges, cycle.edges[0])))
    assert len(set(cycle.parties)) == len(cycle.edges)


class _Pairing:
    """A graph and its model, of which the same is asked."""

    def __init__(self) -> None:
        self.graph, self.model = WaitGraph(), _Model()
        self.number = 0

    def add(self, waiter: int, on: int) -> None:
        self.number += 1
        edge = Edge(f"wait {self.number}", str(waiter), str(on), self.number)
        told = self.graph.add(edge)
        self.model.edges.append(edge)
        lengths = sorted(len(way) for way in self.model.ways(edge.on, edge.waiter))
        assert [len(cycle.edges) for cycle in told] == lengths[:CYCLES_MAX]
        assert all(cycle.edges[0] == edge for cycle in told)
        assert len({cycle.parties for cycle in told}) == len(told)

    def remove(self, number: int) -> None:
        edge = self.model.edges.pop(number % len(self.model.edges))
        before = {cycle.key: cycle for cycle in self.graph.cycles}
        removal = self.graph.remove(edge.wait)
        after = {cycle.key: cycle for cycle in self.graph.cycles}
        assert set(removal.ended) == {key for key, cycle in before.items() if edge in cycle.edges}
        assert {cycle.key for cycle in removal.appeared} == after.keys() - before.keys()
        assert len(removal.ended) + len(after) == len(before) + len(removal.appeared)

    def play(self, steps: Iterable[_Pair | int]) -> None:
        for step in steps:
            if not isinstance(step, int):
                self.add(*step)
            elif self.model.edges:
                self.remove(step)


def _steps(parties: int, most: int) -> st.SearchStrategy[list[_Pair | int]]:
    """Pairs to add, numbers of edges to remove."""
    party = st.integers(0, parties - 1)
    pair = st.tuples(party, party)
    return st.lists(st.one_of(pair, pair, st.integers(0, 99)), min_size=most // 3, max_size=most)


def _play(steps: Iterable[_Pair | int]) -> _Pairing:
    pairing = _Pairing()
    pairing.play(steps)
    return pairing


@_OFTEN
@given(_steps(parties=5, most=30))
def test_a_circle_is_known_exactly_if_there_is_one_and_each_is_real(steps: list[_Pair | int]) -> None:
    pairing = _Pairing()
    for step in steps:
        pairing.play([step])

        cycles = pairing.graph.cycles
        assert bool(cycles) == bool(pairing.model.circles())
        for cycle in cycles:
            _assert_real(cycle, set(pairing.model.edges))


@_OFTEN
@given(_steps(parties=4, most=40))
def test_where_no_edge_closes_too_many_circles_all_are_known_at_any_time(steps: list[_Pair | int]) -> None:
    pairing = _Pairing()
    for step in steps:
        pairing.play([step])

        assert {_turned(cycle.parties) for cycle in pairing.graph.cycles} == pairing.model.circles()


@_OFTEN
@given(_steps(parties=12, most=60))
def test_in_wider_graphs_a_circle_is_known_exactly_if_there_is_one(steps: list[_Pair | int]) -> None:
    graph, edges = WaitGraph(), list[Edge]()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            removed = edges.pop(step % len(edges)) if edges else _edge("xy")
            graph.remove(removed.wait)
        else:
            edges.append(Edge(f"wait {number}", str(step[0]), str(step[1]), number))
            graph.add(edges[-1])

        assert bool(graph.cycles) == _has_circle(edges)


@_OFTEN
@given(_steps(parties=4, most=20), st.randoms(use_true_random=False))
def test_the_order_in_which_edges_come_makes_no_difference(steps: list[_Pair | int], rng: Random) -> None:
    pairing = _play(steps)
    shuffled = rng.sample(pairing.model.edges, len(pairing.model.edges))

    graph = WaitGraph()
    for edge in shuffled:
        graph.add(edge)

    assert {_turned(cycle.parties) for cycle in graph.cycles} == pairing.model.circles()


@_OFTEN
@given(_steps(parties=6, most=25))
def test_roots_are_those_that_a_walk_over_all_edges_finds(steps: list[_Pair | int]) -> None:
    pairing = _play(steps)
    circles = pairing.model.circles()
    for party in map(str, range(6)):
        distances = pairing.model.distances(party)
        roots = {other: away for other, away in distances.items() if away and not pairing.model.onward(other)}

        blockers = pairing.graph.roots(party)

        if any(party in circle for circle in circles):
            assert blockers.roots == ()
            assert all(party in cycle.parties for cycle in blockers.circles)
        else:
            assert {root.party: len(root.chain) for root in blockers.roots} == roots
            assert [len(root.chain) for root in blockers.roots] == sorted(roots.values())
            for root in blockers.roots:
                assert _is_chain(root.chain, party, root.party)
        assert bool(blockers.circles) == any(distances.keys() & set(circle) for circle in circles)
        for cycle in blockers.circles:
            _assert_real(cycle, set(pairing.model.edges))


@_OFTEN
@given(_steps(parties=6, most=25))
def test_chains_pass_nobody_twice_and_without_circles_none_is_longer(steps: list[_Pair | int]) -> None:
    pairing = _play(steps)
    chains = {party: pairing.graph.chain(party) for party in map(str, range(6))}

    for party, chain in chains.items():
        assert not chain or _is_chain(chain, party, chain[-1].on)
        assert set(chain) <= set(pairing.model.edges)
        assert len({party, *(edge.on for edge in chain)}) == len(chain) + 1
    if not pairing.graph.cycles:
        assert {party: len(chain) for party, chain in chains.items()} == {
            party: pairing.model.longest(party) for party in chains
        }
        assert len(pairing.graph.longest_chain()) == max(map(len, chains.values()))


@_OFTEN
@given(_steps(parties=5, most=30))
def test_nothing_is_left_when_all_waits_have_ended(steps: list[_Pair | int]) -> None:
    pairing = _play(steps)
    for edge in pairing.model.edges:
        pairing.graph.remove(edge.wait)

    assert len(pairing.graph) == 0
    assert pairing.graph.cycles == []
    assert pairing.graph.longest_chain() == ()
    assert all(pairing.graph.roots(party).roots == () for party in map(str, range(5)))


def _is_chain(chain: Chain, first: str, last: str) -> bool:
    ends = [first, *(edge.on for edge in chain)]
    return ends[:-1] == [edge.waiter for edge in chain] and ends[-1] == last


def _has_circle(edges: Sequence[Edge]) -> bool:
    """Whether somebody is left when all who wait for nobody are taken away, again and again."""
    waiting_for: dict[str, int] = {}
    waiters: dict[str, list[str]] = {}
    for edge in edges:
        waiting_for[edge.waiter] = waiting_for.get(edge.waiter, 0) + 1
        waiters.setdefault(edge.on, []).append(edge.waiter)
    free = [party for party in waiters if party not in waiting_for]
    while free:
        for waiter in waiters.get(free.pop(), ()):
            waiting_for[waiter] -= 1
            if not waiting_for[waiter]:
                del waiting_for[waiter]
                free.append(waiter)
    return bool(waiting_for)


# At size.


def _fleet_edge(number: int, waiter: int, on: int) -> Edge:
    return Edge(f"wait-{number:05}", f"pod-{waiter:05}", f"pod-{on:05}", number)


def test_among_thousands_of_parties_every_circle_is_known_from_its_first_to_its_last_moment() -> None:
    rng = Random(6)
    graph = WaitGraph()
    ranks = rng.sample(range(_PARTIES), _PARTIES)  # who waits has the lower one, so there is no circle
    pairs = [sorted(rng.sample(range(_PARTIES), 2)) for _ in range(_EDGES)]
    edges = [_fleet_edge(number, ranks[low], ranks[high]) for number, (low, high) in enumerate(pairs)]

    assert not any(graph.add(edge) for edge in edges)
    assert len(graph) == _EDGES
    assert not _has_circle(edges)

    for number in range(100):
        chain = graph.chain(rng.choice(edges).waiter)
        back = Edge(f"back-{number}", chain[-1].on, chain[0].waiter, _EDGES + number)
        cut = rng.choice(chain)
        standing = {back, *edges}

        told = graph.add(back)

        assert 1 <= len(told) <= CYCLES_MAX
        assert len(told[0].edges) <= len(chain) + 1
        for cycle in told:
            _assert_real(cycle, standing)
        assert {cycle.key for cycle in graph.cycles} == {cycle.key for cycle in told}
        ended = {cycle.key for cycle in told if cut in cycle.edges}
        assert set(graph.remove(cut.wait).ended) == ended
        graph.add(cut)
        graph.remove(back.wait)
        assert graph.cycles == []


def test_parts_of_a_random_fleet_are_free_of_circles_exactly_when_none_is_known() -> None:
    rng = Random(7)
    graph = WaitGraph()
    count = sized(500, 2_000, 10_000)
    edges = [_fleet_edge(number, rng.randrange(count), rng.randrange(count)) for number in range(3 * count)]
    for edge in edges:
        graph.add(edge)
    assert graph.cycles

    rng.shuffle(edges)
    while edges:
        for edge in edges[: count // 10]:
            graph.remove(edge.wait)
        del edges[: count // 10]

        assert bool(graph.cycles) == _has_circle(edges)
        standing = set(edges)
        for cycle in graph.cycles:
            _assert_real(cycle, standing)


def test_where_everybody_waits_for_everybody_only_some_circles_are_told() -> None:
    graph = WaitGraph()
    edges = [_fleet_edge(100 * waiter + on, waiter, on) for waiter in range(50) for on in range(50) if waiter != on]

    for edge in edges:
        assert len(graph.add(edge)) <= CYCLES_MAX

    assert len(graph.cycles) < len(edges)
    for edge in edges[:-2]:
        graph.remove(edge.wait)
    assert graph.cycles == []


def test_a_circle_of_others_is_told_at_once_however_many_stand() -> None:
    graph = WaitGraph()
    pairs = [(waiter, on) for waiter in range(40) for on in range(40) if waiter != on]
    for number, (waiter, on) in enumerate(pairs):
        graph.add(_fleet_edge(number, waiter, on))
    assert len(graph.cycles) > 256
    chain = [_fleet_edge(10_000 + party, party, party + 1) for party in range(100, 1_100)]
    assert not any(graph.add(edge) for edge in chain)

    (told,) = graph.add(_fleet_edge(20_000, 1_100, 100))

    assert len(told.edges) == 1_001


@pytest.mark.parametrize("circle", [(), ("bx", "xy", "yx")])
def test_parties_that_come_between_two_others_again_and_again_keep_their_order(circle: tuple[str, ...]) -> None:
    graph = _graph("ab", *circle)
    for number in range(1500):  # so that it is not "a" that makes room
        graph.add(Edge(f"{number} waits for a", f"waiter {number}", "a", number))
    before = "b"
    for number in range(600):  # more often than the room between two can be halved
        party = f"between {number}"
        graph.add(Edge(f"{number} waits", party, before, number))
        assert graph.add(Edge(f"a waits for {number}", "a", party, number)) == []
        before = party

    assert len(graph.chain("a")) == 601 + len(circle[:2])
    (closed, *_) = graph.add(Edge("back", "b", "between 599", 0))
    assert len(closed.edges) == 601
