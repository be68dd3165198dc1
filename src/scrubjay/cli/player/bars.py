"""The line of time and the line of words below the screen."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style as Look
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from scrubjay.cli.player.status import Part, Status, Tone, draw_status
from scrubjay.cli.player.timeline import Cell, Signs, draw_timeline, time_of
from scrubjay.cli.player.timeline import Look as Sign
from scrubjay.replay.frame import Timeline

# Colours of the person's own palette; without colours the characters and weights are enough.
_SIGNS = {
    Sign.PLAYED: Look(color="cyan"),
    Sign.AHEAD: Look(),
    Sign.IDLE: Look(dim=True),
    Sign.SEAM: Look(color="magenta", bold=True),
    Sign.HIT: Look(color="yellow"),
    Sign.ASKS: Look(color="red", bold=True),
    Sign.MARK: Look(color="yellow", bold=True),
    Sign.CUT: Look(color="green", bold=True),
    Sign.HEAD: Look(color="cyan", bold=True),
    Sign.EMPTY: Look(),
}
_TONES = {
    Tone.STATE: Look(color="cyan", bold=True),
    Tone.PLAIN: Look(),
    Tone.QUIET: Look(dim=True),
    Tone.LIVE: Look(color="green", bold=True),
    Tone.NOTE: Look(color="yellow", bold=True),
    Tone.GAP: Look(),
}


class TimelineBar(Widget):
    """The whole recording, and where in it we are."""

    DEFAULT_CSS = "TimelineBar { width: 1fr; height: 1; }"

    class Scrubbed(Message):
        """The person pointed at an instant."""

        def __init__(self, instant: int) -> None:
            super().__init__()
            self.instant = instant  #: in microseconds

    def __init__(self) -> None:
        super().__init__()
        self.timeline = Timeline(0, (), (), (), ())
        self._signs = Signs(0)
        self._drawn: list[list[Cell]] = []
        self._scrubbing = False

    def show(self, timeline: Timeline, signs: Signs) -> None:
        """Draw it if it looks different now."""
        self.timeline, self._signs = timeline, signs
        drawn = self._draw()
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_resize(self) -> None:
        """Draw it at another size."""
        self._drawn = self._draw()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of its rows."""
        cells = self._drawn[y] if y < len(self._drawn) else []
        return Strip([Segment(cell.character, _SIGNS[cell.look]) for cell in cells]).simplify()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go where the person points, and follow the mouse until it is let go."""
        self._scrubbing = True
        self.capture_mouse()
        self._scrub(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self._scrubbing:
            self._scrub(event.x)

    def on_mouse_up(self) -> None:
        """Let it go."""
        self._scrubbing = False
        self.release_mouse()

    def _scrub(self, column: int) -> None:
        self.post_message(self.Scrubbed(time_of(column, self.timeline.duration, self.size.width)))

    def _draw(self) -> list[list[Cell]]:
        return draw_timeline(self.timeline, self._signs, self.size.width, rows=self.size.height)


class StatusBar(Widget):
    """What there is to say."""

    DEFAULT_CSS = "StatusBar { width: 1fr; height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._status: Status | None = None
        self._drawn: list[Part] = []

    @property
    def text(self) -> str:
        """The line as it is shown."""
        return "".join(part.text for part in self._drawn)

    def show(self, status: Status) -> None:
        """Draw it if it reads different now."""
        self._status = status
        drawn = draw_status(status, self.size.width)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_resize(self) -> None:
        """Draw it at another size."""
        if self._status is not None:
            self._drawn = draw_status(self._status, self.size.width)
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        """The line."""
        return Strip([Segment(part.text, _TONES[part.tone]) for part in self._drawn]).simplify()
