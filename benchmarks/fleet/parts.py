"""The processes of a fleet, and what each kind of them takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from benchmarks.family import spent_cpu_s
from benchmarks.memory import memory_of
from scrubjay.keeper.processes import descendants
from scrubjay.pods.pod import Pod

SERVER, WORKERS, KEEPERS, AGENTS = "server and runner", "screen workers", "keepers", "the programs themselves"
INDEXING = "indexing, in idle time"
_INDEXER = b"scrubjay.server.library"


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
        indexers = _indexers(server_pid)
        apart = {*keepers, *aides, *agents, *indexers}
        workers = [pid for pid in descendants(server_pid) if pid not in apart]
        self._server_pid = server_pid
        self.pids = {
            SERVER: [server_pid],
            WORKERS: workers,
            KEEPERS: [*keepers, *aides],
            INDEXING: indexers,
            AGENTS: agents,
        }

    def cpu_s(self) -> dict[str, float]:
        """What each kind has spent so far. Indexers come and go, so theirs is that of all there ever were."""
        spent = {name: sum(map(_cpu_s, pids)) for name, pids in self.pids.items()}
        spent[INDEXING] = _ended_children_cpu_s(self._server_pid) + sum(map(_cpu_s, _indexers(self._server_pid)))
        return spent

    def memory_mb(self) -> dict[str, tuple[float, float]]:
        """RSS and PSS of each kind now."""
        found: dict[str, tuple[float, float]] = {}
        for name, pids in self.pids.items():
            each = [memory_of(pid) for pid in pids if Path(f"/proc/{pid}").exists()]
            found[name] = sum(one.rss_mb for one in each), sum(one.pss_mb for one in each)
        return found


def _indexers(server_pid: int) -> list[int]:
    """Processes that index at this moment, with the workers they have."""
    found: list[int] = []
    for pid in descendants(server_pid):
        with suppress(OSError):
            if _INDEXER in Path(f"/proc/{pid}/cmdline").read_bytes():
                found += [pid, *descendants(pid)]
    return found


def _ended_children_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _cpu_s(pid: int) -> float:
    try:
        return spent_cpu_s(pid)
    except OSError:  # a worker that was not needed any more
        return 0.0
