"""The wait-for graph of 10,000 pods: how long a wait takes to come and to go, and whether it closes a circle.

The peer is networkx, which has no graph that is kept up: it looks at the whole of it for every edge.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeVar, cast

from benchmarks.fleet.wait_shapes import PODS, SHAPES, Pair
from benchmarks.plan import PEERS, Plan
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from benchmarks.streams import SEED
from scrubjay.fleet.wait_graph import Edge, WaitGraph

P99_LIMIT_MS = 5.0
EDGES = 50_000
REPLACED = 5_000  # of these, one by one, so that it stays as large
PEER_REPLACED = 20
TURNS = 100  # of the worst cases
_PEER = Path(__file__).with_name("wait_graph_peer.py")

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass(slots=True)
class _Times:
    """How long the same took again and again, in milliseconds."""

    wall_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])

    def cells(self) -> tuple[Cell, ...]:
        """The median, what nearly all stay below, the longest; and the same of the CPU alone."""
        wall = (percentile(self.wall_ms, percent) for percent in (50, 99, 100))
        return (*wall, percentile(self.cpu_ms, 99))


@dataclass(slots=True)
class _Measured:
    """What one shape has taken."""

    shape: str
    circles: int = 0  #: that are known at full size
    growing: _Times = field(default_factory=_Times)
    adding: _Times = field(default_factory=_Times)
    closing: _Times = field(default_factory=_Times)  #: those of all that closed a circle
    removing: _Times = field(default_factory=_Times)
    ending: _Times = field(default_factory=_Times)  #: until nothing is left


def measure(plan: Plan) -> Report:
    """Let the graph of each shape grow, replace waits in it, and let all of them end."""
    report = Report("waits")
    adding: list[tuple[Cell, ...]] = []
    removing: list[tuple[Cell, ...]] = []
    measured: list[_Measured] = []
    for shape, pairs in SHAPES.items():
        rng = Random(SEED)
        edges = [_edge(rng, number, pair) for number, pair in enumerate(islice(pairs(rng), EDGES + REPLACED))]
        replaced = [rng.randrange(EDGES) for _ in range(REPLACED)]
        found = _measure_shape(shape, edges, replaced)
        measured.append(found)
        adding.append(_adding_row(found, _ask_peer(plan, edges, replaced)))
        removing.append((shape, *found.removing.cells(), *found.ending.cells()))
    size = f"{EDGES:,} waits among {PODS:,} pods"
    columns = ("waits", "circles", "growing p99 ms", "p50", "p99", "worst", "CPU p99", "closing p99")
    columns += ("find_cycle p50", "times", "shortest_path p50", "times")
    notes = (
        f"growing: all, one by one; p50, p99 and worst: {REPLACED:,} that then came in place of others",
        "closing: those of all that closed a circle; circles: that are known then, at most some for each edge",
        f"networkx: the first {PEER_REPLACED} of the same; find_cycle from the edge on, shortest_path back to it",
        "the worst are mostly the pauses of Python's garbage collector",
    )
    report.tables.append(Table(f"adding to {size}", columns, adding, notes))
    columns = ("waits", "p50 ms", "p99", "worst", "CPU p99", "all p50", "all p99", "all worst", "CPU p99")
    report.tables.append(
        Table(f"removing from {size}", columns, removing, ("all: in any order, until nothing is left",))
    )
    report.tables.append(_measure_worst())
    report.targets += _targets(measured)
    return report


def _edge(rng: Random, number: int, pair: Pair) -> Edge:
    """A wait with ids as long and as little alike as real ones."""
    waiter, on = (f"{Random(pod).getrandbits(128):026x}" for pod in pair)
    return Edge(f"{rng.getrandbits(128):026x}", waiter, on, number)


def _measure_shape(shape: str, edges: Sequence[Edge], replaced: Sequence[int]) -> _Measured:
    found, graph = _Measured(shape), WaitGraph()
    standing = list(edges[:EDGES])
    for edge in standing:
        _add(graph, edge, found.growing, found.closing)
    found.circles = len(graph.cycles)
    for index, edge in zip(replaced, edges[EDGES:], strict=True):
        _timed(found.removing, graph.remove, standing[index].wait)
        standing[index] = edge
        _add(graph, edge, found.adding, found.closing)
    Random(SEED).shuffle(standing)
    for edge in standing:
        _timed(found.ending, graph.remove, edge.wait)
    return found


def _add(graph: WaitGraph, edge: Edge, times: _Times, closing: _Times) -> None:
    if _timed(times, graph.add, edge):
        closing.wall_ms.append(times.wall_ms[-1])
        closing.cpu_ms.append(times.cpu_ms[-1])


def _timed(times: _Times, call: Callable[[_Given], _Made], given: _Given) -> _Made:
    began, cpu_s = time.perf_counter(), time.process_time()
    made = call(given)
    times.cpu_ms.append((time.process_time() - cpu_s) * 1e3)
    times.wall_ms.append((time.perf_counter() - began) * 1e3)
    return made


def _adding_row(found: _Measured, peer_ms: dict[str, list[float]] | None) -> tuple[Cell, ...]:
    row: list[Cell] = [found.shape, found.circles, percentile(found.growing.wall_ms, 99), *found.adding.cells()]
    row.append(percentile(found.closing.wall_ms, 99) if found.closing.wall_ms else None)
    ours_ms = middle(found.adding.wall_ms[:PEER_REPLACED])
    for name in ("find_cycle", "shortest_path"):
        row += [None, None] if peer_ms is None else [middle(peer_ms[name]), middle(peer_ms[name]) / ours_ms]
    return tuple(row)


def _ask_peer(plan: Plan, edges: Sequence[Edge], replaced: Sequence[int]) -> dict[str, list[float]] | None:
    """How long networkx looks for a circle after the same additions; None where it is not installed."""
    python = PEERS / "python"
    if not python.exists() or subprocess.run([python, "-c", "import networkx"], capture_output=True).returncode:
        return None
    pairs = [(edge.waiter, edge.on) for edge in edges[: EDGES + PEER_REPLACED]]
    given = {"edges": pairs[:EDGES], "removed": [pairs[index] for index in replaced[:PEER_REPLACED]]}
    done = subprocess.run(
        [python, _PEER],
        input=json.dumps(given | {"added": pairs[EDGES:]}),
        capture_output=True,
        text=True,
        check=True,
        env=dict(plan.environ),
    )
    return cast("dict[str, list[float]]", json.loads(done.stdout))


def _measure_worst() -> Table:
    """What a single wait can cost."""
    rows: list[tuple[Cell, ...]] = []
    for size in (PODS // 100, PODS // 10, PODS):
        closing, opening = _Times(), _Times()
        _turn_a_ring(size, closing, opening)
        rows.append((f"closes a circle of {size:,}", *closing.cells()))
        rows.append((f"opens a circle of {size:,}", *opening.cells()))
    tying = _Times()
    _tie_halves(tying)
    rows.append((f"ties {PODS // 2:,} to {PODS // 2:,}, against the order", *tying.cells()))
    notes = (
        "a circle costs by its length",
        f"ties: two halves with {EDGES:,} waits within them, one way, then the other",
    )
    return Table(
        f"what one wait can cost, {TURNS} times each", ("a wait that", "p50 ms", "p99", "worst", "CPU p99"), rows, notes
    )


def _turn_a_ring(size: int, closing: _Times, opening: _Times) -> None:
    """A circle is opened anywhere, and closed there again."""
    rng, graph = Random(SEED), WaitGraph()
    ring = [_edge(rng, pod, (pod, (pod + 1) % size)) for pod in range(size)]
    for edge in ring:
        graph.add(edge)
    for _ in range(TURNS):
        edge = rng.choice(ring)
        _timed(opening, graph.remove, edge.wait)
        _timed(closing, graph.add, edge)


def _tie_halves(tying: _Times) -> None:
    """In each half the first leads to all, and all to the last, who waits for the first of the other half."""
    rng, graph, half = Random(SEED), WaitGraph(), PODS // 2
    pairs = [(pod, pod + 1) for pod in range(PODS - 1) if pod + 1 != half]
    while len(pairs) < EDGES:
        low, high = sorted(rng.sample(range(half), 2))
        start = rng.choice((0, half))
        pairs.append((start + low, start + high))
    for number, pair in enumerate(pairs):
        graph.add(_edge(rng, number, pair))
    ties = ((half - 1, half), (PODS - 1, 0))
    for turn in range(TURNS):
        edge = _edge(rng, turn, ties[turn % 2])
        _timed(tying, graph.add, edge)
        graph.remove(edge.wait)


def _targets(measured: Sequence[_Measured]) -> list[Target]:
    def worst(what: str, p99_ms: Callable[[_Measured], float]) -> Target:
        found = max(measured, key=p99_ms)
        return Target(f"{what}, p99 ({found.shape})", p99_ms(found), P99_LIMIT_MS, "ms")

    return [
        worst("adding a wait", lambda found: max(_p99(found.growing), _p99(found.adding))),
        worst("adding one that closes a circle", lambda found: _p99(found.closing)),
        worst("removing a wait", lambda found: max(_p99(found.removing), _p99(found.ending))),
    ]


def _p99(times: _Times) -> float:
    return percentile(times.wall_ms, 99) if times.wall_ms else 0.0
