"""Rules by which an agent's signals are read: the table ``[status]`` of its manifest. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from scrubjay.status.claims import ANY, PERMISSION, QUESTION, Source, State

Table = Mapping[str, object]

FOOT_LINES = 3  # of the screen, at the bottom, in which ``foot`` is looked for
BODY_LINES = 16  # and in which the other patterns are

ERROR = "error"  # a problem that is not told in words

_STATES: tuple[State, ...] = ("executing", "waiting", "idle")
_WAITING_FOR = {"permission": PERMISSION, "question": QUESTION}
_SOURCES: tuple[Source, ...] = (
    *("leaving", "program", "title", "progress", "paste", "hook", "typed", "screen", "process", "output"),
)


class BadRules(Exception):
    """A table that is not as it should be: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where, self.why = where, why


@dataclass(frozen=True, slots=True)
class Meaning:
    """Which states something leaves possible."""

    states: frozenset[State]
    waiting_for: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TitleRule:
    """What a window title means."""

    pattern: re.Pattern[str]
    meaning: Meaning
    after_executing: bool = False  #: counts only once a title said that it works: most titles mean nothing


@dataclass(frozen=True, slots=True)
class ScreenRule:
    """What a screen means that shows all of some things and none of others."""

    name: str
    meaning: Meaning
    foot: tuple[re.Pattern[str], ...] = ()  #: each in one of the last lines
    body: tuple[re.Pattern[str], ...] = ()  #: each in one of more of them
    none: tuple[re.Pattern[str], ...] = ()  #: none in any of these
    after: re.Pattern[str] | None = None  #: only what is below the last line with this is looked at
    cursor: re.Pattern[str] | None = None  #: in the line the cursor is in
    moves: re.Pattern[str] | None = None  #: in a line that keeps changing: what is only quoted stands still
    trust: float = 0.85


@dataclass(frozen=True, slots=True)
class Rules:
    """How the signals of one agent are read."""

    order: tuple[Source, ...] = _SOURCES  #: the most trusted first
    title: tuple[TitleRule, ...] = ()
    progress: Mapping[str, Meaning] = field(default_factory=dict[str, Meaning])  #: ``busy`` and ``none``
    paste: Mapping[str, Meaning] = field(default_factory=dict[str, Meaning])  #: ``on`` and ``off``
    screen: tuple[ScreenRule, ...] = ()
    hooks: Mapping[str, Meaning] = field(default_factory=dict[str, Meaning])
    leave: tuple[re.Pattern[str], ...] = ()  #: lines that end it when they are typed

    def before(self, later: Rules) -> Rules:
        """These rules, and others where none of these says anything."""
        return Rules(
            order=self.order,
            title=self.title or later.title,
            progress=self.progress or later.progress,
            paste=self.paste or later.paste,
            screen=self.screen + later.screen,
            hooks=self.hooks or later.hooks,
            leave=self.leave or later.leave,
        )


def parse_rules(table: Table) -> Rules:
    """The rules in a manifest's table; BadRules names what is wrong with it."""
    _no_others(table, {"order", "title", "progress", "paste", "screen", "hooks", "leave"}, "status")
    return Rules(
        order=_order(table),
        title=tuple(_title(row, f"status.title[{n}]") for n, row in enumerate(_rows(table, "title"))),
        progress=_meanings(table, "progress", {"busy", "none"}),
        paste=_meanings(table, "paste", {"on", "off"}),
        screen=tuple(_screen(row, f"status.screen[{n}]") for n, row in enumerate(_rows(table, "screen"))),
        hooks=_meanings(table, "hooks", None),
        leave=_patterns(table, "leave", "status"),
    )


def _order(table: Table) -> tuple[Source, ...]:
    listed = table.get("order", [])
    if not isinstance(listed, list):
        raise BadRules("status.order", "is not a list")
    first: list[Source] = []
    for name in cast(list[object], listed):
        if name not in _SOURCES:
            raise BadRules("status.order", f"{name!r} is none of {', '.join(_SOURCES)}")
        first.append(name)
    return (*first, *(source for source in _SOURCES if source not in first))


def _title(row: Table, where: str) -> TitleRule:
    _no_others(row, {"pattern", "state", "waiting_for", "after_executing"}, where)
    pattern = _pattern(row.get("pattern"), f"{where}.pattern")
    return TitleRule(pattern, _meaning(row, where), after_executing=row.get("after_executing") is True)


def _screen(row: Table, where: str) -> ScreenRule:
    _no_others(
        row, {"name", "state", "waiting_for", "foot", "body", "none", "after", "cursor", "moves", "trust"}, where
    )
    trust = row.get("trust", 0.85)
    if not isinstance(trust, int | float) or not 0 < trust < 1:
        raise BadRules(f"{where}.trust", "is not between 0 and 1")
    rule = ScreenRule(
        name=str(row.get("name", "")),
        meaning=_meaning(row, where),
        foot=_patterns(row, "foot", where),
        body=_patterns(row, "body", where),
        none=_patterns(row, "none", where),
        after=_pattern(row["after"], f"{where}.after") if "after" in row else None,
        cursor=_pattern(row["cursor"], f"{where}.cursor") if "cursor" in row else None,
        moves=_pattern(row["moves"], f"{where}.moves") if "moves" in row else None,
        trust=float(trust),
    )
    if not (rule.foot or rule.body or rule.cursor or rule.moves):
        raise BadRules(where, "would match any screen: give foot, body, cursor or moves")
    return rule


def _meanings(table: Table, name: str, keys: set[str] | None) -> dict[str, Meaning]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise BadRules(f"status.{name}", "is not a table")
    rows = cast(dict[str, object], found)
    if keys is not None:
        _no_others(rows, keys, f"status.{name}")
    meanings: dict[str, Meaning] = {}
    for key, row in rows.items():
        where = f"status.{name}.{key}"
        if not isinstance(row, dict):
            raise BadRules(where, 'is not like { state = "idle" }')
        _no_others(cast(Table, row), {"state", "waiting_for"}, where)
        meanings[key] = _meaning(cast(Table, row), where)
    return meanings


def _meaning(row: Table, where: str) -> Meaning:
    said = row.get("state")
    names = cast(list[object], said) if isinstance(said, list) else [said]
    if names == ["error"]:
        return Meaning(frozenset({"idle"}), problem=ERROR)
    states: frozenset[State] = frozenset([state for state in _STATES if state in names])
    if not states or len(states) != len(names) or states == ANY:
        raise BadRules(f"{where}.state", f"{said!r} is not one or two of {', '.join(_STATES)}, nor error")
    waiting_for = row.get("waiting_for")
    if waiting_for is not None and (waiting_for not in _WAITING_FOR or "waiting" not in states):
        raise BadRules(f"{where}.waiting_for", f"{waiting_for!r} is not permission or question of a waiting state")
    return Meaning(states, _WAITING_FOR[str(waiting_for)] if waiting_for is not None else None)


def _rows(table: Table, name: str) -> list[Table]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast(list[object], rows)):
        raise BadRules(f"status.{name}", f"is not a list of tables [[status.{name}]]")
    return cast(list[Table], rows)


def _patterns(row: Table, name: str, where: str) -> tuple[re.Pattern[str], ...]:
    found = row.get(name, [])
    if not isinstance(found, list):
        raise BadRules(f"{where}.{name}", "is not a list of patterns")
    return tuple(_pattern(text, f"{where}.{name}") for text in cast(list[object], found))


def _pattern(text: object, where: str) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise BadRules(where, "is not a pattern")
    try:
        return re.compile(text)
    except re.error as error:
        raise BadRules(where, f"{text!r} is not a regular expression: {error}") from error


def _no_others(table: Table, known: set[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise BadRules(f"{where}.{name}", f"is not known; known are {', '.join(sorted(known))}")
