"""What a terminal engine must do, and what it tells. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

SCROLLBACK_BYTES = 4 << 20  # of rows kept above the screen: some 4,000 of 120 columns; the tape has the rest

EffectKind = Literal["reply", "bell", "title", "cwd", "notification", "progress", "clipboard", "unknown", "hold"]


class Effect(NamedTuple):
    """Something output did besides drawing."""

    kind: EffectKind
    data: bytes = b""  #: the reply, title, directory, text of a notification, or an OSC the engine does not know
    title: bytes = b""  #: of a notification
    state: int = 0  #: of progress: 0 removed, 1 set, 2 error, 3 indeterminate, 4 paused; of hold: begins or ends
    percent: int = -1  #: of progress


class ChangedRow(NamedTuple):
    """A row of the screen that is not as it was when it was last asked for."""

    y: int
    id: int  #: follows the row when the screen scrolls
    text: str


class Engine(Protocol):
    """A terminal that nobody looks at directly."""

    def feed(self, data: bytes) -> None:
        """Show output; an escape sequence may end in a later portion."""
        ...

    def resize(self, cols: int, rows: int) -> None:
        """Change the size as a window does, lines rewrapped."""
        ...

    def snapshot(self, *, history: bool, exact: bool = False) -> bytes | None:
        """Everything needed to go on from here; None if the engine cannot say it at this point, or not exactly."""
        ...

    def text(self, history: int) -> str:
        """The screen as plain text, after up to ``history`` rows of what scrolled off."""
        ...
