"""The thread that syncs, so that a slow disk holds up nothing else."""

from __future__ import annotations

import queue
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.tape.writer import Sync


class Syncer:
    """Runs syncs one after the other and says when one is done."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        """``on_done`` is called in the thread, after each sync."""
        self._on_done = on_done
        self._asked: queue.SimpleQueue[Sync | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Sync] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, sync: Sync) -> None:
        """Have a sync run."""
        self._asked.put(sync)

    def take_done(self) -> list[Sync]:
        """The syncs that have run since this was last asked."""
        done: list[Sync] = []
        while not self._done.empty():
            done.append(self._done.get())
        return done

    def stop(self) -> None:
        """Let the thread end."""
        self._asked.put(None)

    def _run(self) -> None:
        while (sync := self._asked.get()) is not None:
            self._done.put(sync.run())
            self._on_done()
