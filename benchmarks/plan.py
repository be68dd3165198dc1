"""What a benchmark is told: where to work, how much, how often."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MB = 1_000_000
SCRUBJAY = Path(sys.executable).parent / "scrubjay"
PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin"


@dataclass(frozen=True, slots=True)
class Plan:
    """One call of the benchmarks."""

    folder: Path  #: empty, on the disk that is measured
    runs: int
    size_bytes: int  #: of each stream that is recorded
    longest_bytes: int  #: of the recordings that are sought in
    environ: Mapping[str, str]

    def stream(self, name: str) -> Path:
        """Where the stream of that name is kept for all benchmarks."""
        return self.folder / f"{name}.stream"


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The same for everybody who is measured, and nothing that changes what they do."""
    kept = {key: value for key, value in environ.items() if not key.startswith(("SCRUBJAY_", "TMUX", "ASCIINEMA_"))}
    return kept | {"TERM": "xterm-256color", "SHELL": "/bin/sh", "LC_ALL": "C.UTF-8"}
