"""What the kernel says about processes, their descriptors and their terminals."""

from __future__ import annotations

import os
import platform
import re
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_WRITE = {"x86_64": "1", "aarch64": "64"}  # the number of the system call
_TTY_INDEX = re.compile(r"^tty-index:\s*([0-9]+)$", re.MULTILINE)


def state_of(pid: int) -> str:
    """The one letter the kernel has for a process's state; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process is there and more than a zombie."""
    return state_of(pid) not in ("", "Z", "X")


def pids() -> list[int]:
    """Every process there is, zombies included."""
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]


def command_of(pid: int) -> bytes:
    """The command line of a process, its words ended by NUL; empty for a zombie or none."""
    return _read(pid, "cmdline")


def environment_of(pid: int) -> bytes:
    """The environment a process was started with; empty for a zombie or none."""
    return _read(pid, "environ")


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def children_of(pid: int) -> list[int]:
    """The processes, zombies included, that ``pid`` is the parent of."""
    found: list[int] = []
    for child in pids():
        with suppress(OSError):
            if parent_of(child) == pid:
                found.append(child)
    return found


def parent_of(pid: int) -> int:
    """The parent of a process; OSError if there is no such process."""
    return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def screen_workers_of(pid: int) -> list[int]:
    """The screen workers, zombies included, of a process: its child that has loaded the engine forks them."""
    templates = [child for child in children_of(pid) if b"scrubjay.replay.worker" in command_of(child)]
    return [worker for template in templates for worker in children_of(template)]


def descriptors_of(pid: int) -> dict[int, str]:
    """What each open descriptor of a process points to."""
    found: dict[int, str] = {}
    folder = _PROC / str(pid) / "fd"
    for entry in os.listdir(folder):
        with suppress(FileNotFoundError):
            found[int(entry)] = os.readlink(folder / entry)
    return found


def sockets_of(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    return {target[8:-1] for target in descriptors_of(pid).values() if target.startswith("socket:[")}


def unix_sockets() -> set[str]:
    """The inodes of all unix sockets there are."""
    lines = (_PROC / "net" / "unix").read_text().splitlines()[1:]
    return {line.split()[6] for line in lines}


def terminals_of(pid: int) -> set[int]:
    """The numbers of the pseudo-terminals whose controlling side a process holds."""
    found: set[int] = set()
    for fd, target in descriptors_of(pid).items():
        if target.endswith("/ptmx"):
            with suppress(FileNotFoundError):
                match = _TTY_INDEX.search((_PROC / str(pid) / "fdinfo" / str(fd)).read_text())
                if match is not None:
                    found.add(int(match[1]))
    return found


def resident_kib(pid: int) -> int:
    """The memory of a process that is not swapped out."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def is_traced(pid: int) -> bool:
    """Whether every thread of a process is traced."""
    statuses = [(task / "status").read_text() for task in (_PROC / str(pid) / "task").iterdir()]
    return all("TracerPid:\t0\n" not in status for status in statuses)


def is_blocked_in_write(pid: int) -> bool:
    """Whether a process sleeps in a write, as it does when a terminal or a pipe takes no more."""
    try:
        call, *_ = (_PROC / str(pid) / "syscall").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return call == _WRITE[platform.machine()]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal one process if it is there."""
    # 0 and below are whole groups to the kernel, the test runner's own first of all; a pod that has ended has pid 0.
    assert pid > 1, f"{pid} is not one process: the pod had ended when it was looked at"
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def takes_idle_time(pid: int) -> bool:
    """Whether a process runs only when nothing else wants to, as sealers and indexers do."""
    try:
        return os.sched_getscheduler(pid) == os.SCHED_IDLE
    except ProcessLookupError:
        return False


def hurry(pid: int) -> None:
    """Let one that takes only idle time run like others: on a busy machine it would not even get to its end."""
    if takes_idle_time(pid):
        with suppress(ProcessLookupError, PermissionError):  # not everybody may
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
