"""A wait as an edge between two parties, and circles of them, in which nobody ever goes on."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

_KEY_BYTES = 16

# Which wait it costs least to cut, cheapest first: what we inferred may not even be so; a message can be sent again and
# a binding asked for again; a prompt is what a person sees now; on what an agent declared it has built its plan.
_CHEAPEST_FIRST = ("inferred", "message", "binding", "prompt", "declared")


@dataclass(frozen=True, slots=True)
class Edge:
    """Somebody waits for somebody."""

    wait: str  #: the id of the wait
    waiter: str  #: a party: who waits
    on: str  #: a party: whoever could end the wait
    since_us: int
    source: str = "declared"  #: declared, binding, message, prompt, inferred
    deadline_us: int | None = None

    def is_overdue(self, wall_us: int) -> bool:
        """Whether it has a deadline, and that has come."""
        return self.deadline_us is not None and wall_us >= self.deadline_us


@dataclass(frozen=True, slots=True)
class Cycle:
    """Parties that wait for one another in a circle, edge by edge."""

    edges: tuple[Edge, ...]  #: each leads to the waiter of the next, the last to that of the first

    @property
    def key(self) -> str:
        """The same for the same waits, wherever the circle is entered: 32 hexadecimal digits."""
        waits = [edge.wait for edge in self.edges]
        first = waits.index(min(waits))
        return blake2b("\0".join(waits[first:] + waits[:first]).encode(), digest_size=_KEY_BYTES).hexdigest()

    @property
    def parties(self) -> tuple[str, ...]:
        """Who is in it: each waits for the next, the last for the first."""
        return tuple(edge.waiter for edge in self.edges)

    @property
    def since_us(self) -> int:
        """When it closed: the start of its youngest wait."""
        return max(edge.since_us for edge in self.edges)

    @property
    def cheapest(self) -> Edge:
        """The edge that it costs least to cut, as it was when the circle closed."""
        return self.cheapest_at(self.since_us)

    def cheapest_at(self, wall_us: int) -> Edge:
        """The edge that it costs least to cut: by its source; of the same, one that is overdue, then the youngest."""
        return min(
            self.edges,
            key=lambda edge: (_cost(edge.source), not edge.is_overdue(wall_us), -edge.since_us, edge.wait),
        )


def _cost(source: str) -> int:
    return _CHEAPEST_FIRST.index(source) if source in _CHEAPEST_FIRST else len(_CHEAPEST_FIRST)
