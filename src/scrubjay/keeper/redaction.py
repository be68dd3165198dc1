"""What of an agent's secrets is shown and recorded: nothing, and that they were there."""

from __future__ import annotations

import time

from scrubjay.keeper.secrets import Mask
from scrubjay.tape.format import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.keeper.recorder import Recorder
    from scrubjay.keeper.secrets import Secret

HOLD_S = 0.04  # what may be the beginning of a secret is kept back for so long; 50 ms are promised
NOTE_EVERY_S = 1.0  # a program that prints a secret in a loop must not fill the tape with notes of it


class Redaction:
    """Stands between an agent's terminal and the recording of both its directions."""

    def __init__(
        self,
        secrets: list[Secret],
        recorder: Recorder,
        *,
        show: Callable[[list[bytes]], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        """``show`` records and shows output; ``later`` calls back after so many seconds."""
        self._output = Mask(secrets)
        # Nothing is kept back of what is typed: it is on the tape before the agent can act on it.
        self._input = Mask(secrets, waits=False)
        self._recorder, self._show, self._later = recorder, show, later
        self._held_from: int | None = None
        self._held_since = 0.0
        self._waiting = self._noting = False  # for the time to release, and to note

    def show(self, parts: list[bytes]) -> None:
        """Show output, but for the secrets in it and what may be the beginning of one."""
        shown = self._output.feed(b"".join(parts))
        if shown:
            self._show([shown])
        held_from = self._output.held_from
        if held_from is not None and held_from != self._held_from:
            self._held_since = time.monotonic()
            self._wait(HOLD_S)
        self._held_from = held_from
        self._note_masked()

    def typed(self, data: bytes, *, hidden: bool) -> bytes:
        """What to record of what is typed."""
        if hidden:  # only its length will be
            self._input.forget()
            return data
        kept = self._input.feed(data)
        if self._input.has_masked and not self._noting:
            self._noting = True
            self._later(0, self._note_later)  # not before it is on the tape
        return kept

    def release(self) -> bool:
        """Show what is kept back; False if nothing can be recorded at the moment."""
        if self._output.held_from is None:
            return True
        if not self._recorder.wants_output:
            return False
        self._held_from = None
        self._show([self._output.release()])
        self._note_masked()
        return True

    def _wait(self, seconds: float) -> None:
        if not self._waiting:
            self._waiting = True
            self._later(seconds, self._release_in_time)

    def _release_in_time(self) -> None:
        self._waiting = False
        if self._output.held_from is None:
            return
        left = self._held_since + HOLD_S - time.monotonic()
        if left > 0:
            self._wait(left)
        elif not self.release():
            self._wait(HOLD_S)

    def _note_masked(self) -> None:
        if not self._noting and (self._output.has_masked or self._input.has_masked):
            self.note()
            self._noting = True
            self._later(NOTE_EVERY_S, self._note_later)

    def _note_later(self) -> None:
        self._noting = False
        self._note_masked()

    def note(self) -> None:
        """Record which secrets were hidden since this was last recorded."""
        (shown, shown_count), (typed, typed_count) = self._output.take_masked(), self._input.take_masked()
        if shown or typed:
            names = sorted({*shown, *typed})
            self._recorder.note(Kind.EVENT, event="secret.masked", names=names, count=shown_count + typed_count)
