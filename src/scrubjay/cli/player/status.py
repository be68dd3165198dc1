"""The line of words below the screen. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import Enum
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from scrubjay.cli.player.text import short
from scrubjay.replay.instants import SECOND_US, format_span

_GAP = 2  # blanks between words
_DOING_CELLS = 32  # of what an agent does; an error may be a long one
_DEAR = 2  # parts up to this rank do not go for a note


class Tone(Enum):
    """How a part of the line is meant."""

    STATE = "state"
    PLAIN = "plain"
    QUIET = "quiet"
    LIVE = "live"
    NOTE = "note"
    GAP = "gap"


class Part(NamedTuple):
    """Some words."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Status:
    """Everything the line can say."""

    playing: bool
    speed: float
    position: int  #: microseconds on the reel
    duration: int
    wall_us: int | None
    size: str  #: of the screen, and which part is seen
    name: str = ""
    following: bool = False
    live: bool = False
    indexing: float | None = None
    doing: str = ""  #: what the agent does
    asks: bool = False  #: whether it waits for a person
    notes: tuple[str, ...] = ()  #: what is to be said now, most important first


def draw_status(status: Status, width: int, *, timezone: tzinfo | None = None) -> list[Part]:
    """As much of it as there is room for, in exactly ``width`` columns."""
    # In the order they are drawn, with what matters most having the smallest number.
    offers = [
        (0, Part(f"{'▶ ' if status.playing else '❚❚'} {status.speed:g}x", Tone.STATE)),
        (1, Part(_position(status), Tone.PLAIN)),
        (7, Part(_share(status), Tone.PLAIN)),
        (2, Part(_liveness(status), Tone.LIVE)),
        (3, Part(_cut(short(status.doing), _DOING_CELLS), Tone.NOTE if status.asks else Tone.PLAIN)),
        (6, Part(_wall(status.wall_us, timezone), Tone.PLAIN)),
        (5, Part(status.size, Tone.PLAIN)),
        (4, Part(f"indexing {status.indexing:.0%}" if status.indexing is not None else "", Tone.NOTE)),
        (9, Part(short(status.name), Tone.QUIET)),
        (8, Part("? help", Tone.QUIET)),
    ]
    note = " · ".join(short(note) for note in status.notes if note)
    reserved = cell_len(note) + _GAP if note else 0
    chosen = _choose([offer for offer in offers if offer[1].text], width, reserved)
    left = width - sum(cell_len(part.text) + _GAP for part in chosen)
    if note and left > 0:
        chosen.append(Part(_cut(note, left), Tone.NOTE))
    return _join(chosen, width)


def _choose(offers: list[tuple[int, Part]], width: int, reserved: int) -> list[Part]:
    """The parts that fit; the state is always there, and a note comes before all but the dearest."""
    taken: set[int] = set()
    used = -_GAP
    for rank, part in sorted(offers, key=lambda offer: offer[0]):
        needed = used + _GAP + cell_len(part.text)
        if needed + (reserved if rank > _DEAR else 0) <= width or not taken:
            taken.add(rank)
            used = needed
    return [part for rank, part in offers if rank in taken]


def _join(parts: list[Part], width: int) -> list[Part]:
    line: list[Part] = []
    used = 0
    for part in parts:
        if line:
            line.append(Part(" " * _GAP, Tone.GAP))
            used += _GAP
        text = set_cell_size(part.text, min(cell_len(part.text), max(0, width - used)))
        line.append(Part(text, part.tone))
        used += cell_len(text)
    if used < width:
        line.append(Part(" " * (width - used), Tone.GAP))
    return line


def _cut(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def _position(status: Status) -> str:
    return f"{format_span(status.position)} / {format_span(status.duration, digits=0)}"


def _share(status: Status) -> str:
    return f"{status.position * 100 // max(1, status.duration)}%" if status.duration else ""


def _liveness(status: Status) -> str:
    if status.following:
        return "● live"
    return "○ running" if status.live else ""


def _wall(wall_us: int | None, timezone: tzinfo | None) -> str:
    if wall_us is None:
        return ""
    return f"{datetime.fromtimestamp(wall_us // SECOND_US, timezone):%Y-%m-%d %H:%M:%S}"
