"""Why somebody does not go on: the ways from a party to what holds it up in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from scrubjay.fleet.blockers import Chain
from scrubjay.fleet.circles import Cycle, Edge
from scrubjay.fleet.parties import Party
from scrubjay.fleet.wait_graph import WaitGraph
from scrubjay.fleet.waits import Wait, target_of

End = Literal["somebody", "nobody", "circle"]
"""How a way ends: with a party that waits for nothing, with something nobody is known to do, or in a circle."""


@dataclass(frozen=True, slots=True)
class Way:
    """Waits that lead from a party to what holds it up: each is for whoever waits next."""

    waits: tuple[Wait, ...]
    end: End
    cut: str | None = None  #: of a circle, the wait that it costs least to cancel


def edge_of(wait: Wait) -> Edge:
    """A wait in the graph; what nobody is known to do stands there for itself."""
    on = target_of(wait.on, wait.kind, wait.key)
    return Edge(wait.id, wait.waiter, on, wait.since_us, wait.source, wait.deadline_us)


def graph_of(waits: Iterable[Wait]) -> WaitGraph:
    """The graph of some waits, such as those of an instant."""
    graph = WaitGraph()
    for wait in waits:
        graph.add(edge_of(wait))
    return graph


def ways_from(party: Party, graph: WaitGraph, waits: Mapping[str, Wait]) -> list[Way]:
    """The ways from a party to all that holds it up, nearest first; ``waits`` are those of the graph, by their ids."""
    blockers = graph.roots(party)
    ways: list[Way] = []
    for root in blockers.roots:
        chain = _waits(root.chain, waits)
        ways.append(Way(chain, "nobody" if chain[-1].on is None else "somebody"))
    for circle in blockers.circles:
        path = graph.path(party, circle)
        ways.append(Way(_waits((*path, *_entered(circle, path, party)), waits), "circle", circle.cheapest.wait))
    return ways


def _waits(edges: Iterable[Edge], waits: Mapping[str, Wait]) -> tuple[Wait, ...]:
    return tuple(waits[edge.wait] for edge in edges)


def _entered(circle: Cycle, path: Chain, party: str) -> tuple[Edge, ...]:
    """A circle from where a way comes to it."""
    first = circle.parties.index(path[-1].on if path else party)
    return circle.edges[first:] + circle.edges[:first]
