"""What the screen says, by an agent's rules. Pure.

Only the lines at the bottom are read: agents keep what matters there, and what an answer quotes scrolls up. What moves
is told from what is only quoted by watching it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scrubjay.screen.glance import Glance
from scrubjay.status.claims import Claim
from scrubjay.status.rules import BODY_LINES, ERROR, FOOT_LINES, ScreenRule

MOVES_US = 2_500_000  # since a line changed last, for which it still counts as moving
_FRESH_US = 1_500_000  # since something new was drawn, for which that counts as activity
_FRESH_AFTER_MOVING_US = 400_000  # the same, of an agent whose line that moved while it worked is gone
_ECHO_US = 500_000  # after a key, within which what is drawn may be its echo
_KNOWN_MAX = 2000  # lines that are remembered
_WHY_MAX = 120
_FOR_GOOD = 1 << 63

_NOT_LETTERS = re.compile(r"[\W\d_]+")
_ASKS = re.compile(r"\w\?(\s|$)")
_WORD = re.compile(r"[^\W\d_]{2}")


class ScreenReading:
    """Reads one screen again and again."""

    def __init__(self, rules: Sequence[ScreenRule]) -> None:
        self._rules = rules
        self._lines: list[tuple[int, str]] = []
        self._cursor = -1
        self._moving: dict[str, tuple[str, int | None]] = {}  # by its letters, a line and when it changed
        self._known: dict[str, None] = {}
        self._tells_by_moving = False  # whether it has ever shown a line that moves while it works
        self._typed_at: int | None = None
        self._offset = 0
        self._standing: Claim | None = None  # what was read off it
        self._stands_until: int | None = None
        self.fresh_at: int | None = None  #: when something new was drawn last
        self.has_text = False  #: whether there ever was some on it
        self.has_looked = False

    def type(self, at: int, *, submits: bool) -> None:
        """Somebody has typed."""
        self._typed_at = None if submits else at

    def look(self, at: int, offset: int, glance: Glance) -> None:
        """Take in the screen."""
        self.has_looked, self._stands_until = True, None
        self._lines, self._cursor, self._offset = glance.lines()[-BODY_LINES:], glance.cursor, offset
        self.has_text = self.has_text or bool(self._lines)
        self._note_news(at)
        moving: dict[str, tuple[str, int | None]] = {}
        for _, line in self._lines:
            if not any(rule.moves is not None and rule.moves.search(line) for rule in self._rules):
                continue
            letters = _NOT_LETTERS.sub(" ", line)
            before, changed_at = self._moving.get(letters, (line, None))
            moving[letters] = line, at if line != before else changed_at
        self._moving = moving
        if any(changed_at is not None for _, changed_at in moving.values()):
            self._tells_by_moving = True

    def _note_news(self, at: int) -> None:
        news = [line for _, line in self._lines if line not in self._known and _WORD.search(line)]
        for line in news:
            self._known[line] = None
        while len(self._known) > _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        if news and (self._typed_at is None or at - self._typed_at > _ECHO_US):
            self.fresh_at = at

    def is_fresh(self, at: int) -> bool:
        """Whether something new was drawn a moment ago."""
        return self.fresh_at is not None and at - self.fresh_at < self._fresh_us

    @property
    def _fresh_us(self) -> int:
        return _FRESH_AFTER_MOVING_US if self._tells_by_moving and not self._moving else _FRESH_US

    def changes_at(self, at: int) -> int | None:
        """When what it says may be different without anything being drawn; None if never."""
        moments = [changed_at + MOVES_US for _, changed_at in self._moving.values() if changed_at is not None]
        if self.fresh_at is not None:
            moments.append(self.fresh_at + self._fresh_us)
        return min((moment for moment in moments if moment > at), default=None)

    def claim(self, at: int) -> Claim | None:
        """What the first rule that matches says."""
        if self._stands_until is None or at >= self._stands_until:
            self._standing = self._read(at)
            moves_until = [moved_at + MOVES_US for _, moved_at in self._moving.values() if moved_at is not None]
            self._stands_until = min((moment for moment in moves_until if moment > at), default=_FOR_GOOD)
        return self._standing

    def _read(self, at: int) -> Claim | None:
        for rule in self._rules:
            seen = self._match(rule, at)
            if seen is not None:
                meaning = rule.meaning
                return Claim(
                    "screen",
                    meaning.states,
                    f"{rule.name}: {seen[:_WHY_MAX]}" if rule.name else seen[:_WHY_MAX],
                    at,
                    self._offset,
                    waiting_for=meaning.waiting_for,
                    problem=seen[:_WHY_MAX] if meaning.problem == ERROR else meaning.problem,
                    detail=self._question() if "waiting" in meaning.states else None,
                    trust=rule.trust,
                )
        return None

    def _question(self) -> str | None:
        """The last line that asks something."""
        return next((line[:_WHY_MAX] for _, line in reversed(self._lines) if _ASKS.search(line)), None)

    def _match(self, rule: ScreenRule, at: int) -> str | None:
        """The line that a rule matches by; None if it does not."""
        lines = [line for _, line in self._lines]
        if rule.after is not None:
            lines = _below(lines, rule.after)
        if any(pattern.search(line) for pattern in rule.none for line in lines):
            return None
        seen: list[str] = []
        patterns = [(pattern, lines[-FOOT_LINES:]) for pattern in rule.foot]
        patterns += [(pattern, lines) for pattern in rule.body]
        if rule.cursor is not None:
            patterns.append((rule.cursor, [line for y, line in self._lines if y == self._cursor]))
        if rule.moves is not None:
            moving = [
                line
                for line, changed_at in self._moving.values()
                if changed_at is not None and at - changed_at < MOVES_US
            ]
            patterns.append((rule.moves, moving))
        for pattern, among in patterns:
            found = next((line for line in reversed(among) if pattern.search(line)), None)
            if found is None:
                return None
            seen.append(found)
        return seen[0]


def _below(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    """The lines below the last one with this, or all."""
    last = max((number for number, line in enumerate(lines) if pattern.search(line)), default=-1)
    return lines[last + 1 :]
