"""The memory of a running process, as the kernel counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.plan import MB


@dataclass(frozen=True, slots=True)
class Memory:
    """What one process has."""

    rss_mb: float
    pss_mb: float  #: pages that several processes have are shared out among them
    peak_mb: float


def memory_of(pid: int) -> Memory:
    """The memory of a process now."""
    status = Path(f"/proc/{pid}/status").read_text()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return Memory(_read_mb(status, "VmRSS:"), _read_mb(rollup, "Pss:"), _read_mb(status, "VmHWM:"))


def _read_mb(text: str, name: str) -> float:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / MB
    raise AssertionError(f"no {name} here")
