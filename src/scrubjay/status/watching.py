"""Keeps a detector up with a tape and with a terminal that shows it. Pure.

Live, whoever keeps the terminal tells what happens as it does; a recording is walked through. Both go through here, so
that both come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from scrubjay.screen.engine import Effect
from scrubjay.screen.glance import Glance
from scrubjay.screen.queries import CallWatch
from scrubjay.status.detector import Detector, Verdict
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json, Record


class Change(NamedTuple):
    """A status begins."""

    at: int
    offset: int  #: of the tape, up to which it was read
    verdict: Verdict


class Watching:
    """Passes on what happens to a detector, looks at the screen when that is due, and tells of changes."""

    def __init__(
        self, detector: Detector, *, glance: Callable[[], Glance | None], changed: Callable[[Change], None]
    ) -> None:
        """``glance`` looks at the screen after everything that was told, None where it cannot be said."""
        self.detector = detector
        self._glance, self._changed = glance, changed
        self._at = self._offset = 0
        self._last: Verdict | None = None

    def resume(self, change: Change) -> None:
        """Go on after a status that is known already, and look at the screen as it is now."""
        self._at, self._offset, self._last = change
        self.detector.resume(change.verdict)
        self.detector.resized(change.at)

    @property
    def due(self) -> int | None:
        """When ``pass_time`` is wanted though nothing happens; None if never."""
        moments = (self.detector.look_due(), self.detector.change_due(self._at))
        return min((moment for moment in moments if moment is not None), default=None)

    def pass_time(self, until: int) -> None:
        """Nothing else happened up to an instant."""
        while (due := self.due) is not None and due <= until:
            self._at = max(self._at, due)
            look_due = self.detector.look_due()
            if look_due is not None and look_due <= self._at:
                self.detector.looked(self._at, self._offset, self._glance())
            self._decide()
        self._at = max(self._at, until)

    def recorded(self, kind: int, at: int, payload: bytes, end: int) -> None:
        """A record that the terminal has been shown, if it is one that shows; time has passed up to it."""
        self._at, self._offset = max(self._at, at), end
        match kind:
            case Kind.OUTPUT:
                self.detector.printed(self._at)
            case Kind.RESIZE:
                self.detector.resized(self._at)
            case Kind.INPUT:
                typed = Record(0, kind, at, payload, 0).typed()
                if typed.answers is None:
                    self.detector.typed(self._at, end, typed.data)
                    self._decide()
            case Kind.EVENT:
                self._take_event(end, Record(0, kind, at, payload, 0).json())
                self._decide()
            case _:
                pass

    def _take_event(self, end: int, event: Json) -> None:
        if "source" in event:
            self.detector.hook(self._at, end, event)
        elif event.get("event") == "terminal.foreground":
            self.detector.has_terminal(self._at, end, str(event.get("does")), str(event.get("program") or "it"))

    def heard(self, effects: Iterable[Effect]) -> None:
        """What output did besides drawing, up to the last record."""
        for effect in effects:
            self.detector.heard(self._at, self._offset, effect)
        self._decide()

    def _decide(self) -> None:
        if not self.detector.has_begun:
            return
        verdict = self.detector.verdict(self._at)
        if self._last is None or verdict.essence != self._last.essence or verdict.is_sure > self._last.is_sure:
            self._last = verdict
            self._changed(Change(self._at, self._offset, verdict))


class Shown(Protocol):
    """A terminal that a recording is shown on."""

    def show(self, record: Record) -> None:
        """Show output, or take another size."""
        ...

    def effects(self) -> list[Effect]:
        """What output did besides drawing since this was last asked."""
        ...

    def glance(self) -> Glance | None:
        """What is on it."""
        ...


def watch_recording(
    records: Iterable[Record],
    terminal: Shown,
    detector: Detector,
    changed: Callable[[Change], None],
    *,
    until: int | None = None,
) -> int:
    """Walk through a recording from its beginning and tell of every change; the instant it ends.

    With ``until`` time goes on up to then, after its last record if need be.
    """
    watching = Watching(detector, glance=terminal.glance, changed=changed)
    calls = CallWatch()
    at = 0
    for record in records:
        at = max(at, record.at)
        watching.pass_time(at)
        if record.kind in (Kind.HEAD, Kind.OUTPUT, Kind.RESIZE):
            terminal.show(record)
        watching.recorded(record.kind, at, record.payload, record.end)
        if record.kind == Kind.OUTPUT and calls.feed(record.payload):
            watching.heard(terminal.effects())
    # What was drawn last has been there for somebody to see.
    at = max(at, watching.detector.look_due() or 0) if until is None else until
    watching.pass_time(at)
    return at
