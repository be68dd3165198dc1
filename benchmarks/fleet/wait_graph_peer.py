"""What networkx takes to say whether a new edge closes a circle.

Runs alone, where networkx is installed: edges, and what to replace them by, come as JSON on standard input; out come
the milliseconds of each addition, by ``find_cycle`` from the edge on, and by ``shortest_path`` back.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from importlib import import_module
from typing import Any

networkx: Any = import_module("networkx")


def main() -> None:
    """Take the edges in, replace some, and print how long it took to look for circles."""
    given: dict[str, list[list[str]]] = json.load(sys.stdin)
    graph = networkx.DiGraph()
    edges = Counter((waiter, on) for waiter, on in given["edges"])
    graph.add_edges_from(edges)
    took_ms: dict[str, list[float]] = {"find_cycle": [], "shortest_path": []}
    for removed, added in zip(given["removed"], given["added"], strict=True):
        (old_waiter, old_on), (waiter, on) = removed, added
        edges[old_waiter, old_on] -= 1
        if not edges[old_waiter, old_on]:
            graph.remove_edge(old_waiter, old_on)
        edges[waiter, on] += 1
        began = time.perf_counter()
        graph.add_edge(waiter, on)
        added_s = time.perf_counter() - began
        for name in took_ms:
            began = time.perf_counter()
            _look(name, graph, waiter, on)
            took_ms[name].append((time.perf_counter() - began + added_s) * 1e3)
    json.dump(took_ms, sys.stdout)


def _look(name: str, graph: Any, waiter: str, on: str) -> None:
    try:
        if name == "find_cycle":
            networkx.find_cycle(graph, source=on)
        else:
            networkx.shortest_path(graph, on, waiter)
    except (networkx.NetworkXNoCycle, networkx.NetworkXNoPath):
        return


if __name__ == "__main__":
    main()
