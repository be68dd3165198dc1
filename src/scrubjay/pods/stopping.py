"""End a pod, and wait until its tape is closed."""

from __future__ import annotations

import time

from scrubjay.errors import KeeperGone, KeeperRefused, PodNotRunning
from scrubjay.keeper.processes import is_dying
from scrubjay.pods.pod import Pod

END_WITHIN_S = 20.0  # beyond the grace, for leftovers, slow viewers and the last sync


def stop_pod(pod: Pod, *, author: str, grace_s: float) -> None:
    """TERM, then KILL after the grace; on the tape stands who asked. KeeperRefused if it does not end."""
    with pod.connect() as keeper:
        keeper.ask({"do": "stop", "author": author, "grace_ms": int(grace_s * 1000)})
    wait_for_end(pod, timeout_s=grace_s + END_WITHIN_S)


def wait_for_end(pod: Pod, *, timeout_s: float) -> None:
    """Return when its keeper is gone; KeeperRefused if that takes longer."""
    deadline = time.monotonic() + timeout_s
    try:
        with pod.connect() as keeper:
            keeper.socket.settimeout(0.2)
            while time.monotonic() < deadline:
                keeper.receive()
    except (KeeperGone, PodNotRunning):
        while pod.alive and time.monotonic() < deadline:
            time.sleep(0.01)
    if pod.alive:
        raise KeeperRefused(
            f"pod {pod.name!r} has not ended after {timeout_s:g} s", hint="its disk may be full: see 'scrubjay ps'"
        )


def is_ending(pod: Pod) -> bool:
    """Whether a pod seems about to be over: its agent is gone or was just killed, or its keeper hears no more."""
    seen = pod.observe()
    if seen.state != "running" or seen.live is None:
        return seen.state in ("running", "ending")
    agent = seen.live.get("agent_pid")
    return isinstance(agent, int) and is_dying(agent)
