"""The line of time as characters. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from scrubjay.cli.context import human_span
from scrubjay.replay.frame import Timeline

_LEVELS = "▁▂▃▄▅▆▇█"
_QUIET = "·"
_SEAM, _MARK, _CUT_FROM, _CUT_TO, _HIT, _ASKS = "┊", "◆", "[", "]", "•", "?"
_HEAD, _ABOVE_HEAD = "┃", "▼"
_AWAY_US = 1_000_000  # shorter than this, nobody was missed


class Look(Enum):
    """What a character of the line stands for."""

    PLAYED = "played"
    AHEAD = "ahead"
    IDLE = "idle"
    SEAM = "seam"
    HIT = "hit"
    ASKS = "asks"
    MARK = "mark"
    CUT = "cut"
    HEAD = "head"
    EMPTY = "empty"


class Cell(NamedTuple):
    """One column of a row."""

    character: str
    look: Look


class Signs(NamedTuple):
    """What is drawn on the line besides the recording itself, in microseconds."""

    position: int
    cut_from: int | None = None
    cut_to: int | None = None
    hits: tuple[int, ...] = ()
    questions: tuple[int, ...] = ()  #: when the agent began to wait for a person


def column_of(time: int, duration: int, width: int) -> int:
    """The column that holds an instant."""
    return min(width - 1, max(0, time * width // max(1, duration)))


def time_of(column: int, duration: int, width: int) -> int:
    """The instant in the middle of a column; at both ends, the ends."""
    if column <= 0:
        return 0
    return duration if column >= width - 1 else (2 * column + 1) * duration // (2 * width)


def draw_timeline(timeline: Timeline, signs: Signs, width: int, *, rows: int) -> list[list[Cell]]:
    """The line in one row, or in two with the signs above the activity."""
    if width <= 0:
        return [[] for _ in range(rows)]
    head = column_of(signs.position, timeline.duration, width)
    activity = _draw_activity(timeline, head, width)
    above = _draw_signs(timeline, signs, width)
    if rows >= 2:
        above = _label_gaps(timeline, width) | above
        for seam in timeline.seams:
            activity[column_of(seam, timeline.duration, width)] = Cell(_SEAM, Look.SEAM)
        top = [above.get(column, Cell(" ", Look.EMPTY)) for column in range(width)]
        top[head] = Cell(_ABOVE_HEAD, Look.HEAD)
        activity[head] = Cell(activity[head].character, Look.HEAD)
        return [top, activity]
    for column, cell in above.items():
        activity[column] = cell
    activity[head] = Cell(_HEAD, Look.HEAD)
    return [activity]


def _label_gaps(timeline: Timeline, width: int) -> dict[int, Cell]:
    """How long there was nobody, right behind each seam, where there is room up to the next."""
    columns = [column_of(seam, timeline.duration, width) for seam in timeline.seams]
    cells: dict[int, Cell] = {}
    for column, after, away in zip(columns, [*columns[1:], width], timeline.away, strict=False):
        label = f" nobody for {human_span(away / 1e6)} " if away is not None and away >= _AWAY_US else ""
        label = label if len(label) < after - column else label.removeprefix(" nobody for ").rstrip()
        if label and len(label) < after - column:
            cells |= {column + 1 + place: Cell(letter, Look.SEAM) for place, letter in enumerate(label)}
    return cells


def _draw_activity(timeline: Timeline, head: int, width: int) -> list[Cell]:
    idle: set[int] = set()
    for stretch in timeline.idle:
        first = column_of(stretch.start, timeline.duration, width)
        idle.update(range(first + 1, column_of(stretch.stop, timeline.duration, width)))
    return [
        _draw_part(_density(timeline, column, width), idle=column in idle, played=column <= head)
        for column in range(width)
    ]


def _density(timeline: Timeline, column: int, width: int) -> float:
    parts = timeline.density
    first = column * len(parts) // width
    return max(parts[first : max(first + 1, (column + 1) * len(parts) // width)], default=0.0)


def _draw_part(density: float, *, idle: bool, played: bool) -> Cell:
    if density <= 0 or idle:
        return Cell(_QUIET, Look.IDLE if idle or not played else Look.PLAYED)
    level = min(len(_LEVELS) - 1, int(density * len(_LEVELS)))
    return Cell(_LEVELS[level], Look.PLAYED if played else Look.AHEAD)


def _draw_signs(timeline: Timeline, signs: Signs, width: int) -> dict[int, Cell]:
    """The signs by column; where several meet, the one that matters most."""

    def column(time: int) -> int:
        return column_of(time, timeline.duration, width)

    cells = {column(seam): Cell(_SEAM, Look.SEAM) for seam in timeline.seams}
    cells |= {column(question): Cell(_ASKS, Look.ASKS) for question in signs.questions}
    cells |= {column(hit): Cell(_HIT, Look.HIT) for hit in signs.hits}
    cells |= {column(mark.time): Cell(_MARK, Look.MARK) for mark in timeline.marks}
    if signs.cut_from is not None:
        cells[column(signs.cut_from)] = Cell(_CUT_FROM, Look.CUT)
    if signs.cut_to is not None:
        cells[column(signs.cut_to)] = Cell(_CUT_TO, Look.CUT)
    return cells
