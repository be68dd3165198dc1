"""The processes of a fleet, and what each kind of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from benchmarks.family import spent_cpu_s
from benchmarks.memory import memory_of
from scrubjay.keeper.processes import descendants
from scrubjay.pods.pod import Pod

SERVER, WORKERS, KEEPERS, AGENTS = "server and runner", "screen workers", "keepers", "the programs themselves"


class Parts:
    """All processes there were when it was made, by what they are; keepers with the shells that wait beside them."""

    def __init__(self, server_pid: int, pods: Sequence[Pod]) -> None:
        keepers, aides, agents = list[int](), list[int](), list[int]()
        for pod in pods:
            live = pod.observe().live
            assert live is not None
            keeper, agent = cast(int, live["keeper_pid"]), cast(int, live["agent_pid"])
            keepers.append(keeper)
            agents.append(agent)
            aides += [pid for pid in descendants(keeper) if pid != agent]
        apart = {*keepers, *aides, *agents}
        workers = [pid for pid in descendants(server_pid) if pid not in apart]
        self.pids = {SERVER: [server_pid], WORKERS: workers, KEEPERS: [*keepers, *aides], AGENTS: agents}

    def cpu_s(self) -> dict[str, float]:
        """What each kind has spent so far."""
        return {name: sum(map(_cpu_s, pids)) for name, pids in self.pids.items()}

    def memory_mb(self) -> dict[str, tuple[float, float]]:
        """RSS and PSS of each kind now."""
        found: dict[str, tuple[float, float]] = {}
        for name, pids in self.pids.items():
            each = [memory_of(pid) for pid in pids if Path(f"/proc/{pid}").exists()]
            found[name] = sum(one.rss_mb for one in each), sum(one.pss_mb for one in each)
        return found


def _cpu_s(pid: int) -> float:
    try:
        return spent_cpu_s(pid)
    except OSError:  # a worker that was not needed any more
        return 0.0
