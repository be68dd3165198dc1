"""How a message comes into a terminal: once, whoever dies at whichever step, and whatever the program makes of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from scrubjay.fleet.errand import ATTEMPTS_MAX, FAILURES_MAX, PARTS, Sight, next_step
from scrubjay.fleet.typed_message import Shown
from tests.support.tables import every_row
from tests.support.tiers import sized

_OPENING, _REST, _ENTER = "opening", "rest", "enter"
_LINE = [_OPENING, _REST]
_ERRANDS_MAX = 40


class _Over(Exception):
    """Whoever carried it is gone, or has lost the answer: all that it remembered is forgotten."""


@dataclass
class _Chance:
    """Says at each fork which way to go; ``explore`` takes them all."""

    plan: list[int]
    taken: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def choose(self, ways: int) -> int:
        number = len(self.taken)
        way = self.plan[number] if number < len(self.plan) else 0
        self.taken.append((way, ways))
        return way


def _explore(body: Callable[[_Chance], None]) -> int:
    """Run with every choice there is, one after the other; how often."""
    plan: list[int] | None = []
    runs = 0
    while plan is not None:
        chance = _Chance(plan)
        body(chance)
        runs += 1
        plan = _next_plan(chance.taken)
    return runs


def _next_plan(taken: list[tuple[int, int]]) -> list[int] | None:
    while taken and taken[-1][0] + 1 >= taken[-1][1]:
        taken.pop()
    return [way for way, _ in taken[:-1]] + [taken[-1][0] + 1] if taken else None


@dataclass
class _World:
    """The catalog, one tape, one program; and how many faults there may still be."""

    chance: _Chance
    faults: int
    kinds: frozenset[str]
    reports: bool = True  #: the program says when it works
    #: What the catalog keeps.
    queued: bool = True
    claim: int | None = None
    attempts: int = 0
    abandoned: bool = False
    #: What is on the tape.
    tape: list[str] = field(default_factory=list[str])
    #: The program.
    prompt: list[str] = field(default_factory=list[str])
    late: list[str] = field(default_factory=list[str])  #: keys it has not read yet
    said: list[list[str]] = field(default_factory=list[list[str]])  #: what was submitted
    worked_at: int = -1
    busy: bool = False
    ended: bool = False
    failures: int = 0  #: what the courier itself counts
    happened: Counter[str] = field(default_factory=Counter[str])

    def fault(self, *kinds: str) -> str | None:
        """One of these, or none; each takes one off what may still happen."""
        possible = [kind for kind in kinds if kind in self.kinds] if self.faults else []
        way = self.chance.choose(1 + len(possible)) if possible else 0
        if not way:
            return None
        self.faults -= 1
        self.happened[possible[way - 1]] += 1
        return possible[way - 1]

    def write(self, change: Callable[[], None]) -> None:
        """Something in the catalog."""
        fault = self.fault("crash before", "crash after")
        if fault == "crash before":
            raise _Over
        change()
        if fault == "crash after":
            raise _Over

    def type(self, what: str) -> None:
        """Something into the terminal, through a runner that may not answer."""
        fault = self.fault("crash before", "answer lost")
        if fault == "crash before":
            raise _Over
        self.tape.append(what)
        self._read(what)
        if fault == "answer lost":
            raise _Over

    def _read(self, what: str) -> None:
        if what == _ENTER:
            if self.fault("enter swallowed") is None and self.prompt:
                self._submit()
        elif what == "erase":
            self.prompt.clear()
        else:
            fault = self.fault("text swallowed", "text late")
            if fault == "text late" or self.late:
                self.late.append(what)
            elif fault is None:
                self.prompt.append(what)

    def _submit(self) -> None:
        self.said.append(self.prompt)
        self.prompt = []
        self.busy = True
        self.worked_at = len(self.tape)

    def look(self) -> Shown:
        """Where the line is, by the screen alone."""
        if self.prompt and self.prompt[-1] == _OPENING:
            return "begun"
        if _REST in self.prompt:
            return "waiting"
        return "gone on" if self.said else "absent"

    def rest(self) -> None:
        """Time passes between two errands."""
        self.busy = False
        self.prompt += self.late
        self.late = []


class _Errand:
    """Carries it, as the courier does."""

    def __init__(self, world: _World) -> None:
        self.world = world
        self.sight: Sight = Sight(claimed=world.claim is not None, attempts=world.attempts, failures=world.failures)
        self.entered_at = 0
        self.since_s = 0.0

    def run(self) -> str:
        world = self.world
        while True:
            self.sight = replace(
                self.sight,
                queued=world.queued,
                over=world.ended,
                idle=not world.busy,
                ready=not world.busy,
                worked=self.sight.entered and world.reports and world.worked_at >= self.entered_at,
                since_s=self.since_s,
            )
            step = next_step(self.sight)
            match step:
                case "claim":
                    self._claim()
                case "trace":
                    self._trace()
                case "type":
                    world.type(_LINE[self.sight.parts])
                    self._typed(replace(self.sight, parts=self.sight.parts + 1, found=False))
                case "look":
                    self.since_s += 1.0
                    self.sight = replace(self.sight, shown=world.look())
                case "enter":
                    world.type(_ENTER)
                    self.entered_at = self.entered_at or len(world.tape)
                    self._typed(replace(self.sight, entered=True, presses=self.sight.presses + 1))
                case "erase":
                    world.type("erase")
                    self._typed(replace(self.sight, erased=True))
                case "deliver":
                    world.write(self._deliver)
                    return step
                case "release" | "abandon":
                    world.write(lambda: self._release(abandoned=step == "abandon"))  # noqa: B023
                    return step
                case "rest" | "leave":
                    return step

    def _claim(self) -> None:
        end = len(self.world.tape)

        def change() -> None:
            self.world.claim = end
            self.world.attempts += 1

        self.world.write(change)
        attempts = self.sight.attempts + 1
        self.sight = Sight(claimed=True, attempts=attempts, failures=self.sight.failures, traced=True)

    def _trace(self) -> None:
        assert self.world.claim is not None
        parts, entered, at = 0, False, self.world.claim
        for at, typed in enumerate(self.world.tape[self.world.claim :], self.world.claim + 1):  # noqa: B007
            if typed == _ENTER and parts == PARTS:
                entered = True
                break
            parts += typed in _LINE and parts < PARTS
        self.entered_at = at if entered else 0
        self.sight = replace(self.sight, traced=True, parts=parts, found=parts > 0, entered=entered)
        self.since_s = 0.0

    def _typed(self, sight: Sight) -> None:
        self.sight = replace(sight, shown=None)
        self.since_s = 0.0

    def _deliver(self) -> None:
        self.world.queued, self.world.claim = False, None

    def _release(self, *, abandoned: bool) -> None:
        self.world.claim, self.world.abandoned = None, abandoned
        if not abandoned:
            self.world.attempts -= 1


def _carry(world: _World) -> None:
    """Errand after errand, until it has come or is given up."""
    for _ in range(_ERRANDS_MAX):
        try:
            step = _Errand(world).run()
            world.failures += step == "rest"
        except _Over:
            world.failures = 0 if world.fault("restart") else world.failures
        world.rest()
        assert len(world.said) <= 1, "it was said twice"
        if not world.queued or world.abandoned or (world.ended and world.claim is None):
            return
    raise AssertionError("it never comes to an end")


_DEATHS = frozenset({"crash before", "crash after", "answer lost"})
_PROGRAM = frozenset({"enter swallowed", "text swallowed", "text late"})


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "silent"])
def test_whoever_dies_wherever_it_comes_once(*, reports: bool) -> None:
    def body(chance: _Chance) -> None:
        world = _World(chance, sized(4, 4, 6), _DEATHS, reports)
        _carry(world)

        assert world.said == [_LINE]
        assert not world.queued
        assert world.prompt == []

    assert _explore(body) > 500


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "silent"])
def test_whatever_a_program_swallows_it_comes_once(*, reports: bool) -> None:
    def body(chance: _Chance) -> None:
        world = _World(chance, 2, _PROGRAM, reports)
        _carry(world)

        assert world.said == [_LINE], world.happened
        assert not world.queued

    assert _explore(body) > 10


def test_whoever_dies_while_a_program_swallows_keys_it_is_never_said_twice() -> None:
    ends: Counter[str] = Counter()

    def body(chance: _Chance) -> None:
        world = _World(chance, sized(2, 2, 3), _DEATHS | _PROGRAM)
        _carry(world)

        assert all(said == _LINE for said in world.said), (world.said, world.happened)
        swallowed = sum(world.happened[kind] for kind in _PROGRAM)
        assert world.said or swallowed >= ATTEMPTS_MAX, world.happened
        assert world.abandoned == (not world.said)
        ends["said" if world.said else "left"] += 1

    _explore(body)

    assert ends["said"] > 100


class _Unseen(_World):
    """A program that shows nothing of what it is given."""

    def type(self, what: str) -> None:
        self.tape.append(what)


def test_what_never_shows_is_left_to_the_inbox_after_a_few_attempts() -> None:
    world = _Unseen(_Chance([]), 0, frozenset())

    _carry(world)

    assert world.abandoned
    assert world.queued, "it can still be read there"
    assert world.tape == [_OPENING] * ATTEMPTS_MAX


def test_a_prompt_that_takes_no_enter_is_cleared_and_the_message_left_to_the_inbox() -> None:
    world = _World(_Chance([1] * 100), 100, frozenset({"enter swallowed"}))

    _carry(world)

    assert world.abandoned
    assert world.prompt == []
    assert world.tape.count(_OPENING) == 1, "it is not typed again while it stands there"
    assert world.tape.count(_ENTER) == 3 * FAILURES_MAX


@every_row("typed", [0, 1, 2, 3])
def test_a_pod_that_ends_in_between_leaves_it_for_the_next_unless_it_was_taken(typed: int) -> None:
    world = _World(_Chance([]), 0, frozenset(), claim=0, attempts=1)
    for what in [*_LINE, _ENTER][:typed]:
        world.type(what)
    world.ended = True

    _carry(world)

    assert world.claim is None
    assert world.queued == (typed < 3)
    assert world.attempts == (1 if typed == 3 else 0), "that was no attempt that failed"


def test_an_enter_that_was_swallowed_before_the_end_leaves_it_for_the_next() -> None:
    world = _World(_Chance([]), 0, frozenset(), claim=0, attempts=1)
    world.tape, world.prompt, world.ended = [*_LINE, _ENTER], list(_LINE), True

    _carry(world)

    assert world.queued
    assert world.claim is None


class _ReadElsewhere(_World):
    """Its agent reads the inbox while the message is typed."""

    def look(self) -> Shown:
        self.queued = False
        return super().look()


def test_what_was_read_in_the_inbox_meanwhile_is_taken_out_of_the_prompt() -> None:
    world = _ReadElsewhere(_Chance([]), 0, frozenset())

    _Errand(world).run()

    assert world.prompt == []
    assert world.said == []
    assert world.tape == [_OPENING, "erase"]


def _sights() -> Iterator[Sight]:
    for shown in (None, "absent", "begun", "waiting", "gone on"):
        for entered, parts, since_s in product((False, True), (1, PARTS), (0.0, 3.0, 6.0, 20.0)):
            yield Sight(
                claimed=True, traced=True, parts=parts, attempts=1, shown=shown, entered=entered, since_s=since_s
            )


def test_keys_are_pressed_only_for_a_pod_that_waits_and_enter_only_where_the_line_is_seen() -> None:
    pressed: Counter[str] = Counter()

    for sight in _sights():
        assert next_step(replace(sight, idle=False)) not in ("enter", "type", "erase")
        step = next_step(replace(sight, idle=True, ready=True))
        pressed[step] += 1
        assert step != "enter" or (sight.shown == "waiting" and sight.parts == PARTS)
        assert step != "type" or (sight.shown == "begun" and sight.parts < PARTS)

    assert pressed["enter"]
    assert pressed["type"]


def test_nothing_is_begun_in_a_pod_that_is_not_ready() -> None:
    assert next_step(Sight(idle=True, ready=False)) == "leave"
    assert next_step(Sight(idle=True, ready=False, claimed=True, traced=True)) == "leave"
    assert next_step(Sight(idle=True, ready=True)) == "claim"
    assert next_step(Sight(idle=True, ready=True, attempts=ATTEMPTS_MAX)) == "abandon"
