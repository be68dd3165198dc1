"""The screen at one moment, as rules see it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Frames around text, and what else decorates the ends of rows.
_FRAME = " \t\u2500-\u257f\u2580-\u259f\u00a0|"
_LINE_MAX = 300  # that rules search, whatever a program prints and however wide its window is
_ENDS = re.compile(rf"\A[{_FRAME}]+|[{_FRAME}]+\Z")


@dataclass(frozen=True, slots=True)
class Glance:
    """What is on the screen."""

    rows: tuple[str, ...]
    cursor: int = 0  #: its row
    pastes: bool = False  #: whether the program has asked for pastes to be bracketed, as line editors do

    def lines(self) -> list[tuple[int, str]]:
        """The rows that say something, without the frames around them, each with its number; top to bottom."""
        found = [(y, _ENDS.sub("", row)[:_LINE_MAX]) for y, row in enumerate(self.rows)]
        return [(y, line) for y, line in found if line]
