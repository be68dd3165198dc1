"""What has the terminal: a program that works, one that reads a line, or one that draws and reads keys as it likes.

Of the last nothing can be said, nor of programs that hide what they do, as another user's may. Of the others it can,
however silent they are: a terminal that gives out whole lines is not drawn on, and who waits for a line stands in a
read of it. Each change is an event on the tape.
"""

from __future__ import annotations

import os

from scrubjay.keeper.processes import descendants
from scrubjay.tape.format import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.keeper.agent import Agent
    from scrubjay.keeper.recorder import Recorder

SOON_S = 0.25  # after output; a command that takes less is not worth a word
AGAIN_S = 1.0  # while there is output, and once after it
_MEMBERS_MAX = 64  # of a group that are looked at; more hardly wait for a person

DRAWS, WORKS, READS = "draws", "works", "reads"
_UNKNOWN = (DRAWS, "")


class Foreground:
    """Looks at the terminal of one agent a moment after something was shown, and never else."""

    def __init__(self, agent: Agent, recorder: Recorder, later: Callable[[float, Callable[[], None]], None]) -> None:
        self._agent, self._recorder, self._later = agent, recorder, later
        self._looking = False
        self._looked_at = -1  # the last output when it was looked
        self._noted = _UNKNOWN

    def look_soon(self) -> None:
        """Something was shown, or is about to be."""
        if not self._looking:
            self._looking = True
            self._later(SOON_S, self._look)

    def _look(self) -> None:
        recorder = self._recorder
        self._looking = False
        if self._agent.hung_up or recorder.ended or recorder.paused is not None:
            return
        found = observe(self._agent)
        if found is not None and found != self._noted:
            self._noted = found
            does, program = found
            recorder.note(Kind.EVENT, event="terminal.foreground", does=does, program=program or None)
            recorder.flush()
        if recorder.last_output_at != self._looked_at:
            self._looked_at = recorder.last_output_at
            self._looking = True
            self._later(AGAIN_S, self._look)


def observe(agent: Agent) -> tuple[str, str] | None:
    """What has the terminal does, and its name; None if it has ended meanwhile."""
    return observe_group(agent.foreground_group(), agent.name) if agent.gives_lines else _UNKNOWN


def observe_group(group: int, terminal: str, proc: str = "/proc") -> tuple[str, str] | None:
    """The same of a process group that has a terminal which gives out lines."""
    members = [pid for pid in (group, *descendants(group)[:_MEMBERS_MAX]) if pid > 0 and _group_of(pid) == group]
    try:
        reads = [_reads(f"{proc}/{pid}", terminal) for pid in members]  # of all: one that hides may be the reader
        with open(f"{proc}/{group}/comm") as file:
            return READS if any(reads) else WORKS, file.read().strip()
    except PermissionError:
        return _UNKNOWN
    except OSError:
        return None


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _reads(process: str, terminal: str) -> bool:
    """Whether a process waits for a line of this terminal; PermissionError if it hides that."""
    with open(f"{process}/wchan") as file:
        waits_in = file.read()
    if waits_in in ("", "0") and _sleeps(process):
        raise PermissionError  # the kernel says where it sleeps only to who may see it
    if waits_in not in ("wait_woken", "n_tty_read"):
        return False
    with open(f"{process}/syscall") as file:
        words = file.read().split()
    try:
        return len(words) > 1 and os.readlink(f"{process}/fd/{int(words[1], 16)}") in (terminal, "/dev/tty")
    except FileNotFoundError:  # that number was no file: another call
        return False


def _sleeps(process: str) -> bool:
    with open(f"{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in ("S", "D")
