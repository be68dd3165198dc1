"""Who may wait for whom in a large fleet, in the shapes and orders that are hard for a graph that looks for circles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

PODS = 10_000
_LAYERS = 20
_HUBS = 10
_CHAIN = [(pod, pod + 1) for pod in range(PODS - 1)]

Pair = tuple[int, int]
"""Who waits, and for whom."""


def _any_without_circles(rng: Random) -> Iterator[Pair]:
    while True:
        low, high = sorted(rng.sample(range(PODS), 2))
        yield low, high


def _chain_from_its_end(rng: Random) -> Iterator[Pair]:  # noqa: ARG001
    while True:
        yield from reversed(_CHAIN)


def _chain_shuffled(rng: Random) -> Iterator[Pair]:
    while True:
        yield from rng.sample(_CHAIN, len(_CHAIN))


def _chains_joined_by_halves(rng: Random) -> Iterator[Pair]:
    """Two chains of the same length become one, again and again: both sides of such a wait are large."""
    length = 1
    while length < PODS:
        for start in range(PODS - 2 * length, -1, -2 * length):
            yield start + length - 1, start + length
        length *= 2
    yield from _any_without_circles(rng)


def _layers(rng: Random) -> Iterator[Pair]:
    size = PODS // _LAYERS
    while True:
        layer = rng.randrange(_LAYERS - 1)
        yield layer * size + rng.randrange(size), (layer + 1) * size + rng.randrange(size)


def _layers_and_some_back(rng: Random) -> Iterator[Pair]:
    """What goes back goes far enough to close a circle nearly always."""
    for pair in _layers(rng):
        if rng.random() < 0.001:
            yield rng.randrange(PODS // 2, PODS), rng.randrange(PODS // 5)
        yield pair


def _hubs(rng: Random) -> Iterator[Pair]:
    """Half of all wait for a few, which wait for the other half."""
    while True:
        yield rng.randrange(_HUBS, PODS // 2), rng.randrange(_HUBS)
        yield rng.randrange(_HUBS), rng.randrange(PODS // 2, PODS)


def _any(rng: Random) -> Iterator[Pair]:
    while True:
        waiter, on = rng.sample(range(PODS), 2)
        yield waiter, on


SHAPES: Mapping[str, Callable[[Random], Iterator[Pair]]] = {
    "any, without circles": _any_without_circles,
    "a chain, from its end on": _chain_from_its_end,
    "a chain, shuffled": _chain_shuffled,
    "chains, joined by halves": _chains_joined_by_halves,
    "20 layers": _layers,
    "10 hubs": _hubs,
    "20 layers, 1 in 1,000 back": _layers_and_some_back,
    "any, circles everywhere": _any,
}
