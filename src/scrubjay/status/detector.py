"""Tells what an agent is doing from everything it shows and says. Pure.

Each signal leaves some states possible. The most trusted is heard first, and each next one chooses among what those
before it have left; one that contradicts them all is outvoted, and said to be. What was an event, as a hook is, holds
only until something that can be seen contradicts it: an agent that is interrupted reports nothing.

Everything has an instant, and nothing else has any effect: the same tape gives the same statuses, live or years later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scrubjay.screen.engine import Effect
from scrubjay.screen.glance import Glance
from scrubjay.status.claims import ANY, EXECUTING, IDLE, PERMISSION, QUESTION, SURE, WAITING, Claim, Source, State
from scrubjay.status.paste_mode import PasteMode
from scrubjay.status.program_status import ProgramStatus, parse_report
from scrubjay.status.rules import Meaning, Rules
from scrubjay.status.screen_reading import ScreenReading
from scrubjay.tape.typed import TypedLines

_FRAME_US = 10_000  # in which the rest of what is being drawn has arrived
_LOOK_US = 100_000  # from one look at the screen to the next
_CALM_LOOK_US = 400_000  # the same, where the agent itself says what it does
_CORRECT_US = 1_000_000  # for which what is seen must contradict an event to correct it
_STUCK_US = 20_000_000  # without a byte, after which a program that says it works is no longer believed alone
_TYPED_US = 5_000_000  # after a line was submitted, within which an agent shows that it has taken it
_TITLE_MAX = 120

# Of states that are still possible when everything was heard, the one it is.
_LIKELIEST: tuple[State, ...] = ("executing", "idle", "waiting")
_INDETERMINATE, _REMOVED = 3, 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an agent is doing."""

    activity: State
    waiting_for: str | None = None
    problem: str | None = None  #: what went wrong, if that is why it is idle
    detail: str | None = None  #: what it asks or says, in its own words
    confidence: float = 0.0  #: 0 to 1
    agreeing: tuple[Claim, ...] = ()
    outvoted: tuple[Claim, ...] = ()

    @property
    def essence(self) -> tuple[str, str | None, str | None]:
        """What must differ for a change to be one."""
        return self.activity, self.waiting_for, self.problem

    @property
    def is_sure(self) -> bool:
        """Whether others may act on it; that a verdict has become so is told, though it says the same as before."""
        return self.confidence >= SURE


class Detector:
    """What one agent is doing. Instants are those of its tape, in microseconds, and never go back."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._program = ProgramStatus()
        self._screen = ScreenReading(rules.screen)
        self._claims: dict[Source, Claim] = {}
        self._printed_at: int | None = None
        self._unseen_since: int | None = None
        self._looked_at = 0
        self._lines = TypedLines()
        self._paste = PasteMode()
        self._title_counts = False  # whether this agent says by its title that it works

    def resume(self, verdict: Verdict) -> None:
        """Go on where another has come to a verdict: what was said then still holds."""
        for claim in (*verdict.agreeing, *verdict.outvoted):
            if claim.source not in ("typed", "leaving", "output"):
                self._claims[claim.source] = claim
        self._title_counts = "title" in self._claims

    # What happens.

    def printed(self, at: int) -> None:
        """There was output."""
        self._printed_at = at
        if self._unseen_since is None:
            self._unseen_since = at

    def typed(self, at: int, offset: int, data: bytes) -> None:
        """Somebody has typed; not what a terminal answers."""
        lines = self._lines.feed("", data)
        self._screen.type(at, submits=bool(lines))
        if lines and any(pattern.search(lines[-1]) for pattern in self._rules.leave):
            self._set("leaving", Claim("leaving", IDLE, lines[-1][:_TITLE_MAX], at, offset, trust=0.8))
        elif lines:
            self._claims["typed"] = Claim("typed", EXECUTING, lines[-1][:_TITLE_MAX], at, offset, trust=0.6)

    def heard(self, at: int, offset: int, effect: Effect) -> None:
        """Output did something besides drawing."""
        match effect.kind:
            case "unknown":
                report = parse_report(effect.data)
                if report is not None:
                    self._set("program", self._program.hear(report, at, offset))
            case "title":
                self._hear_title(effect.data.decode("utf-8", "replace"), at, offset)
            case "progress":
                name = "none" if effect.state == _REMOVED else "busy"
                self._read("progress", self._rules.progress.get(name), f"progress {name}", at, offset)
            case _:
                pass

    def _hear_title(self, title: str, at: int, offset: int) -> None:
        matching = (rule for rule in self._rules.title if rule.pattern.search(title))
        rule = next((rule for rule in matching if self._title_counts or not rule.after_executing), None)
        self._title_counts = self._title_counts or (rule is not None and rule.meaning.states == EXECUTING)
        # What a spinner shows is not news, so that its title is not told with the glyph.
        self._read("title", rule.meaning if rule is not None else None, title[:_TITLE_MAX], at, offset)

    def hook(self, at: int, offset: int, event: Mapping[str, object]) -> None:
        """The agent's own hook has reported."""
        name = str(event.get("event", ""))
        for detail in ("tool", "kind"):
            key = f"{name}:{event.get(detail)}"
            if key in self._rules.hooks:
                name = key
                break
        meaning = self._rules.hooks.get(name)
        if meaning is not None:
            self._claims["hook"] = self._claim("hook", meaning, name, at, offset)

    def has_terminal(self, at: int, offset: int, does: str, program: str) -> None:
        """What has the terminal in the foreground: it works, reads a line, or draws, of which nothing follows."""
        claims = {
            "works": Claim("process", EXECUTING, f"{program} works and reads nothing", at, offset, trust=0.6),
            "reads": Claim("process", IDLE | WAITING, f"{program} reads a line", at, offset, trust=0.6),
        }
        self._set("process", claims.get(does))

    def resized(self, at: int) -> None:
        """The window has another size: what is on it stands elsewhere."""
        if self._unseen_since is None:
            self._unseen_since = at

    def looked(self, at: int, offset: int, glance: Glance | None) -> None:
        """The screen, after everything that was printed; None if nobody could say it."""
        self._unseen_since, self._looked_at = None, at
        if glance is None:
            return
        self._screen.look(at, offset, glance)
        self._set("screen", self._screen.claim(at))
        seen = self._claims.get("screen")
        pastes = self._paste.look(at, glance.pastes, at_work=seen is not None and seen.states == EXECUTING)
        meaning = self._rules.paste.get(pastes) if pastes is not None else None
        self._read("paste", meaning, f"bracketed paste {pastes}", at, offset)

    # What follows from it.

    def look_due(self) -> int | None:
        """When the screen should be looked at; None if nothing was drawn since it was."""
        if self._unseen_since is None:
            return None
        told = any(len(self._claims[source].states) == 1 for source in ("program", "title") if source in self._claims)
        return max(self._unseen_since + _FRAME_US, self._looked_at + (_CALM_LOOK_US if told else _LOOK_US))

    def change_due(self, at: int) -> int | None:
        """When the verdict may be another though nothing happens; None if never."""
        moments = [self._screen.changes_at(at)]
        moments += [claim.at + _TYPED_US for claim in self._claims.values() if claim.source in ("typed", "leaving")]
        if "hook" in self._claims and "screen" in self._claims:
            moments.append(self._claims["screen"].at + _CORRECT_US)
        if self._printed_at is not None and any(claim.states == EXECUTING for claim in self._claims.values()):
            moments.append(self._printed_at + _STUCK_US)
        return min((moment for moment in moments if moment is not None and moment > at), default=None)

    @property
    def has_begun(self) -> bool:
        """Whether the agent has shown or said anything; before, it is neither idle nor at work."""
        return self._screen.has_text or any(source != "output" for source in self._claims)

    def verdict(self, at: int) -> Verdict:
        """What the agent is doing at an instant that is not before anything that was told."""
        if self._screen.has_looked:
            self._set("screen", self._screen.claim(at))
        fresh = self._screen.is_fresh(at)
        why = "something new is drawn" if fresh else "quiet"
        self._set("output", Claim("output", EXECUTING if fresh else IDLE, why, at, trust=0.5))
        possible, agreeing, outvoted = ANY, list[Claim](), list[Claim]()
        for source in ("typed", "leaving"):
            if source in self._claims and at - self._claims[source].at >= _TYPED_US:
                del self._claims[source]
        for source in self._rules.order:
            claim = self._claims.get(source)
            if claim is None:
                continue
            if claim.states & possible and not self._is_stale(claim, at):
                possible = claim.states & possible
                agreeing.append(claim)
            else:
                outvoted.append(claim)
        activity = min(possible, key=_LIKELIEST.index)
        return Verdict(
            activity,
            waiting_for=_waiting_for(agreeing) if activity == "waiting" else None,
            problem=next((claim.problem for claim in agreeing if claim.problem), None) if activity == "idle" else None,
            detail=next((claim.detail for claim in agreeing if claim.detail and activity in claim.states), None),
            confidence=_confidence(activity, agreeing, outvoted),
            agreeing=tuple(agreeing),
            outvoted=tuple(outvoted),
        )

    def _is_stale(self, claim: Claim, at: int) -> bool:
        """Whether what is seen has corrected it."""
        seen = self._claims.get("screen")
        if seen is None or seen.states & claim.states or claim.source in ("screen", "output"):
            return False
        if claim.source == "hook":
            return seen.at > claim.at and at - seen.at >= _CORRECT_US
        return claim.states == EXECUTING and self._printed_at is not None and at - self._printed_at >= _STUCK_US

    def _read(self, source: Source, meaning: Meaning | None, why: str, at: int, offset: int) -> None:
        self._set(source, self._claim(source, meaning, why, at, offset) if meaning is not None else None)

    @staticmethod
    def _claim(source: Source, meaning: Meaning, why: str, at: int, offset: int) -> Claim:
        return Claim(
            source, meaning.states, why, at, offset, waiting_for=meaning.waiting_for, problem=meaning.problem, trust=0.9
        )

    def _set(self, source: Source, claim: Claim | None) -> None:
        before = self._claims.get(source)
        if claim is None:
            self._claims.pop(source, None)
            return
        if before is not None and claim.means_the_same(before):
            claim = replace(claim, at=before.at, offset=before.offset)
        elif source != "output":
            self._claims.pop("typed", None)  # what became of a line that was typed can be seen
        self._claims[source] = claim


def _waiting_for(agreeing: list[Claim]) -> str:
    waits = [claim for claim in agreeing if "waiting" in claim.states]
    named = next((claim.waiting_for for claim in waits if claim.waiting_for is not None), None)
    return named if named is not None else PERMISSION if waits else QUESTION


def _confidence(activity: State, agreeing: list[Claim], outvoted: list[Claim]) -> float:
    doubt = 1.0
    for claim in agreeing:
        if claim.states == frozenset([activity]):
            doubt *= 1 - claim.trust
    sure = (1 - doubt) or 0.3
    for claim in outvoted:
        if claim.source != "output":  # which is quiet whenever somebody is waited for
            sure *= 1 - 0.3 * claim.trust
    return round(sure, 2)
