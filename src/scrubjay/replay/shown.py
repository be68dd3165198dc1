"""A terminal in a worker that a recording is shown on, record by record."""

from __future__ import annotations

from scrubjay.replay.workers import Workers, WorkerTerminal
from scrubjay.screen.engine import Effect
from scrubjay.screen.glance import Glance
from scrubjay.screen.picture import DEFAULT_SIZE
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record


class ShownTerminal:
    """Shows records; EngineRefused if the engine cannot."""

    def __init__(self, workers: Workers) -> None:
        self._terminal = WorkerTerminal(workers, *DEFAULT_SIZE)
        self._terminal.listen()

    def show(self, record: Record) -> None:
        """Show output, or take another size."""
        if record.kind == Kind.OUTPUT:
            self._terminal.feed(record.payload, offset=record.end)
        elif record.kind == Kind.RESIZE:
            self._terminal.resize(*record.size(), offset=record.end)
        elif record.kind == Kind.HEAD:
            head = record.json()
            cols, rows = head.get("cols"), head.get("rows")
            if isinstance(cols, int) and isinstance(rows, int):
                self._terminal.begin(cols, rows, offset=record.end)
                self._terminal.listen()

    def effects(self) -> list[Effect]:
        """What output did besides drawing since this was last asked."""
        return self._terminal.effects()

    def glance(self) -> Glance:
        """What is on it."""
        return self._terminal.glance()

    def close(self) -> None:
        """Free it."""
        self._terminal.close()
