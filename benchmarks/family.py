"""Run a command and wait for it and everything it leaves behind.

Keepers, tmux servers and sealers outlive the command that started them. This process adopts them, so
their end and their CPU time are known without asking them anything while they are measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scrubjay.keeper.processes import adopt_orphans


class CommandFailed(Exception):
    """A command that is measured did not work."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What a command and all its descendants took."""

    began_wall_us: int
    wall_s: float  #: until the last of them had ended
    cpu_s: float  #: of all of them, the agent included
    parent_cpu_s: float  #: of those alone that had children and outlived the command: keeper or tmux server


def run_family(argv: list[str], environ: Mapping[str, str], log: Path) -> Effort:
    """Run ``argv`` without a terminal; CommandFailed if it does not end with 0. No other child may be running."""
    adopt_orphans()
    reap_ended()
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    began_wall_us = time.time_ns() // 1000
    began = time.perf_counter()
    first = os.posix_spawnp(argv[0], argv, environ, file_actions=files, setsid=True)
    cpu_s, parent_cpu_s, status = 0.0, 0.0, 0
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            break
        assert ended is not None
        own_s, children_s = _zombie_cpu_s(ended.si_pid)
        os.waitpid(ended.si_pid, 0)
        cpu_s += own_s + children_s
        if ended.si_pid == first:
            status = ended.si_status
        elif children_s:
            parent_cpu_s += own_s
    wall_s = time.perf_counter() - began
    if status != 0:
        raise CommandFailed(f"{argv[0]} ended with {status}: {log.read_text(errors='replace').strip()[-300:]}")
    return Effort(began_wall_us, wall_s, cpu_s, parent_cpu_s)


def wait_for_calm() -> None:
    """Return when no child is left, adopted or not."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def reap_ended() -> None:
    """Let go of adopted children that have ended since."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def spent_cpu_s(pid: int) -> float:
    """CPU time of a running process up to this moment."""
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python does not have


@contextmanager
def one_core(*pids: int) -> Generator[None]:
    """Keep this process and some others on one core, and those that are started meanwhile."""
    before = os.sched_getaffinity(0)
    for pid in (0, *pids):
        os.sched_setaffinity(pid, {max(before)})
    try:
        yield
    finally:
        for pid in (0, *pids):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(pid, before)


def stolen_s() -> float:
    """Time of this machine's processors that its host has given to others since it was started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _zombie_cpu_s(pid: int) -> tuple[float, float]:
    """CPU time of an ended process itself, and of the children it had waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, (int(fields[13]) + int(fields[14])) / ticks
