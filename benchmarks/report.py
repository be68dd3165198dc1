"""Tables, and what they say about the targets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import median

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Target:
    """A limit we set ourselves, and what was measured."""

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False  #: whether more is better

    @property
    def met(self) -> bool:
        """Whether the measured value is within the limit."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def describe(self) -> str:
        """One line for people."""
        sign = "≥" if self.at_least else "≤"
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict}  {self.what}: {_show(self.measured)} {self.unit}, target {sign} {_show(self.limit)}"


@dataclass(frozen=True, slots=True)
class Table:
    """Measured values under a title."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        """The table as plain text, numbers to the right."""
        cells = [[_show(cell) for cell in row] for row in self.rows]
        widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(self.columns)]
        lines = [self.title, _line(self.columns, widths), "  ".join("-" * width for width in widths)]
        lines += [_line(row, widths) for row in cells]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(slots=True)
class Report:
    """What one benchmark found."""

    name: str
    tables: list[Table] = field(default_factory=list[Table])
    targets: list[Target] = field(default_factory=list[Target])

    def to_json(self) -> dict[str, object]:
        """Everything, for a program."""
        return {
            "name": self.name,
            "tables": [asdict(table) for table in self.tables],
            "targets": [asdict(target) | {"met": target.met} for target in self.targets],
        }


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least ``percent`` of all are not above."""
    ordered = sorted(samples)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def middle(samples: Sequence[float]) -> float:
    """The median; nan of nothing."""
    return median(samples) if samples else float("nan")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))])


def _show(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return str(cell)
