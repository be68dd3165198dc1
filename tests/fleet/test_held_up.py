"""Who is held up by whom: counted as by hand, in graphs of any shape."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scrubjay.fleet.circles import Edge
from scrubjay.fleet.held_up import Arc, see_held_up
from scrubjay.fleet.wait_graph import WaitGraph

_Pairs = list[tuple[int, int]]
_pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


def _arcs(pairs: _Pairs) -> list[Arc]:
    return [(f"w{number}", f"p{one}", f"p{other}") for number, (one, other) in enumerate(pairs)]


def _led_from(pairs: _Pairs, start: int) -> set[int]:
    """Everybody whom the waits of one lead to."""
    led: set[int] = set()
    following = [start]
    while following:
        waiter = following.pop()
        new = {on for one, on in pairs if one == waiter} - led
        led |= new
        following += new
    return led


@given(_pairs)
def test_those_who_wait_are_counted_directly_and_in_the_end(pairs: _Pairs) -> None:
    seen = see_held_up(_arcs(pairs))

    everybody = {party for pair in pairs for party in pair}
    assert seen.holds.keys() == {f"p{on}" for _, on in pairs}
    for on in {on for _, on in pairs}:
        hold = seen.holds[f"p{on}"]
        assert hold.waiters == len({waiter for waiter, other in pairs if other == on})
        assert hold.held_up == sum(on in _led_from(pairs, party) for party in everybody - {on})
        assert hold.is_root == (on not in {waiter for waiter, _ in pairs})


@given(_pairs)
def test_roots_are_those_who_wait_for_nobody_and_who_holds_most_up_is_first(pairs: _Pairs) -> None:
    seen = see_held_up(_arcs(pairs))

    assert set(seen.roots) == {party for party, hold in seen.holds.items() if hold.is_root}
    assert all(seen.holds[one].held_up >= seen.holds[other].held_up for one, other in pairwise(seen.roots))


@given(_pairs)
def test_the_longest_chain_is_one_and_without_circles_there_is_no_longer_one(pairs: _Pairs) -> None:
    arcs = _arcs([(one, other) for one, other in pairs if one != other])
    seen, graph = see_held_up(arcs), WaitGraph()
    edges = {wait: Edge(wait, waiter, on, number) for number, (wait, waiter, on) in enumerate(arcs)}
    for edge in edges.values():
        graph.add(edge)

    chain = [edges[wait] for wait in seen.longest]
    assert all(one.on == other.waiter for one, other in pairwise(chain))
    assert len({edge.waiter for edge in chain}) == len(chain)
    if not graph.cycles:
        assert len(seen.longest) == len(graph.longest_chain())


def test_everybody_in_a_circle_is_held_up_by_everybody_else_in_it_and_holds_up_who_waits_for_one() -> None:
    seen = see_held_up(_arcs([(1, 2), (2, 3), (3, 1), (4, 1)]))

    assert {party: hold.held_up for party, hold in seen.holds.items()} == {"p1": 3, "p2": 3, "p3": 3}
    assert seen.roots == ()
    assert seen.longest == ("w3",)


def test_a_chain_of_thousands_is_no_deeper_than_python_goes() -> None:
    seen = see_held_up(_arcs([(number, number + 1) for number in range(2000)]))

    assert len(seen.longest) == 2000
    assert seen.holds["p2000"].held_up == 2000
