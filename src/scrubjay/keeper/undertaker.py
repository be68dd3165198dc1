"""End what is left of a pod after its keeper was killed.

The kernel hangs up the agent when the keeper dies, but not the tools it put into sessions of their
own. A shell of 1 MB waits beside every keeper for its death, then runs this file.
"""

from __future__ import annotations

import os
import signal
import sys
import time

_GRACE_S = 0.3  # the hangup has told the agent already; this is for what it did not reach
_GIVE_UP_S = 5.0

# Reads one word: a keeper that ends in order writes it, one that is killed only closes the pipe.
_WAIT = 'read -r word && exit 0; exec "$@"'


def station(pod: str) -> tuple[int, int]:
    """Start the waiting shell; its pid, and the descriptor to dismiss it by."""
    listen, dismiss = os.pipe()
    here = os.path.abspath(__file__)
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", _WAIT, "undertaker", sys.executable, "-I", "-S", here, pod],
        {"PATH": os.environ.get("PATH", os.defpath)},
        file_actions=[(os.POSIX_SPAWN_DUP2, listen, 0)],
        setsid=True,
    )
    os.close(listen)
    return pid, dismiss


def bury(pod: str) -> int:
    """End every process of the pod, politely first; how many there were."""
    from scrubjay.keeper.processes import of_pod, send

    seen: set[int] = set()
    deadline = time.monotonic() + _GIVE_UP_S
    polite_until = time.monotonic() + _GRACE_S
    while (left := of_pod(pod)) and time.monotonic() < deadline:
        fresh = [pid for pid in left if pid not in seen]
        send(fresh, signal.SIGTERM)
        seen.update(fresh)
        if time.monotonic() >= polite_until:
            send(left, signal.SIGKILL)
        time.sleep(0.02)
    return len(seen)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    bury(sys.argv[1])
