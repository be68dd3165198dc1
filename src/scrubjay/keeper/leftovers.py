"""What the agent leaves running: named on the tape, asked to end, and ended after a grace."""

from __future__ import annotations

import os
import signal

from scrubjay.keeper import processes
from scrubjay.keeper.signals import exit_fields
from scrubjay.tape.format import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scrubjay.keeper.recorder import Recorder


class Leftovers:
    """Living descendants of the keeper that are neither the agent nor the keeper's own aides."""

    def __init__(self, recorder: Recorder, aides: set[int]) -> None:
        self._recorder, self._aides = recorder, aides
        self._known: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    def ask_to_end(self) -> bool:
        """Name and ask those that are not known yet; whether there were any."""
        fresh = [pid for pid in self._living() if pid not in self._known]
        for pid in fresh:
            self._recorder.note(
                Kind.EVENT,
                event="process.left",
                pid=pid,
                session=processes.session_of(pid),
                command=processes.command_of(pid),
            )
        self._known.update(fresh)
        processes.send(fresh, signal.SIGTERM)
        return bool(fresh)

    def look_again(self) -> bool:
        """Forget those that are gone, and ask those that have come since; whether any are left."""
        # Those that ended as somebody else's child were never ours to wait for.
        self._known.intersection_update(self._living())
        self.ask_to_end()
        return bool(self._known)

    def kill(self) -> bool:
        """End those that are still there; whether there were any."""
        self._known = set(self._living())  # the number of one known of old may be another process's by now
        processes.send(list(self._known), signal.SIGKILL)
        return bool(self._known)

    def ended(self, pid: int, wait_status: int) -> bool:
        """Record the end of one of them; whether it was one."""
        if pid not in self._known:
            return False
        self._known.discard(pid)
        self._recorder.note(Kind.EVENT, event="process.ended", pid=pid, **exit_fields(wait_status))
        return True

    def _living(self) -> list[int]:
        ours = set(self._aides)
        for aide in self._aides:
            ours.update(processes.descendants(aide))
        return [pid for pid in processes.descendants(os.getpid()) if pid not in ours]
