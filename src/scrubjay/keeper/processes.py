"""The processes an agent starts and leaves behind.

Agents start tools and daemons in sessions of their own, which neither a hangup nor a signal to the
agent's process group reaches. As a child subreaper the keeper becomes the parent of all of them.
"""

from __future__ import annotations

import os
import signal

_PR_SET_CHILD_SUBREAPER = 36
_COMMAND_MAX_BYTES = 300


def adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own; False where the system cannot."""
    import ctypes  # here, because an undertaker needs the rest of this module and not 0.3 MB of ctypes

    try:
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def give_memory_back() -> None:
    """Return to the system what a flood of output took; the C library would keep it for the next one."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def descendants(pid: int) -> list[int]:
    """All living processes below ``pid``, parents before children."""
    found: list[int] = []
    level = [pid]
    while level:
        below = [child for parent in level for child in _children(parent)]
        found += below
        level = below
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return children
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += [int(child) for child in file.read().split()]
        except OSError:
            continue
    return children


def of_pod(pod: str) -> list[int]:
    """All living processes that were started inside a pod, by what the pod put into their environment."""
    wanted = f"SCRUBJAY_POD={pod}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(entry))
    return found


def command_of(pid: int) -> str:
    """The command line of a process, cut to a readable length."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_COMMAND_MAX_BYTES).rstrip(b"\0").split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode("utf-8", "replace") or "?"


def is_dying(pid: int) -> bool:
    """Whether a process has ended or is bound to: it was killed, or is being taken apart, which may take a while."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if not file.read(1):
                return True
        with open(f"/proc/{pid}/status") as file:
            pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return True
    return any(mask & (1 << signal.SIGKILL - 1) for mask in pending)


def session_of(pid: int) -> int | None:
    """The session a process belongs to."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def send(pids: list[int], number: int) -> None:
    """Signal each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
