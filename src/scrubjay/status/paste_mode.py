"""Bracketed paste, which a program that reads lines turns on while it reads and off while it works. Pure.

A program that draws its whole screen leaves it on, and then it says nothing.
"""

from __future__ import annotations

from typing import Literal

_SPELL_US = 300_000  # off for as long, it was not only being set anew


class PasteMode:
    """Whether a program turns it off while it works, and whether it does now."""

    def __init__(self) -> None:
        self._was_on = False
        self._off_since: int | None = None
        self._reads_lines = False  # as its turning it off has shown
        self._draws = False  # it was seen at work while it was on

    def look(self, at: int, on: bool, *, at_work: bool) -> Literal["on", "off"] | None:  # noqa: FBT001
        """What it says; ``at_work`` is whether the screen shows that the program works."""
        if on:
            self._draws = self._draws or at_work
            if self._off_since is not None and at - self._off_since >= _SPELL_US:
                self._reads_lines = True
            self._was_on, self._off_since = True, None
            return "on" if self._reads_lines and not self._draws else None
        if not self._was_on or self._draws:
            return None
        if self._off_since is None:
            self._off_since = at
        return "off"
