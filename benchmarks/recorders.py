"""Those who record: bare drains to compare with, Scrubjay, and its peers."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.family import Effort, run_family
from benchmarks.plan import PEERS, SCRUBJAY
from benchmarks.streams import COLS, ROWS
from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Tape
from scrubjay.tape.seal import seal_ended_segments

_HERE = Path(__file__).parent
_SEALED_S = 120.0


@dataclass(frozen=True, slots=True)
class Recording:
    """One stream recorded once.

    ``wall_s`` runs from just before the recorder's command starts to the moment the recording is complete,
    minus nothing. Complete means for the peers that all their processes have ended: what they wrote is in
    the page cache and nobody has synced it. For Scrubjay it means that the tape is closed and synced, by
    the wall clock its keeper writes down then. So every recorder pays for its own start, and Scrubjay
    alone for the disk.
    """

    wall_s: float
    cpu_s: float  #: all processes, cat and (for Scrubjay) sealing included
    recorder_cpu_s: float | None  #: of the recorder's background process alone, where it has one
    kept: Path | None  #: the file with the bytes, where there is one file
    agent_s: float | None = None  #: from the beginning of the tape to the agent's end, by the tape's own clock
    unsealed: int = 0  #: segments that are still raw when everything has ended


class Recorder(Protocol):
    """Something that records a command's output."""

    name: str

    def record(self, stream: Path, folder: Path) -> Recording:
        """Record ``cat stream`` into the empty ``folder``."""
        ...


class Drain:
    """Reads the terminal and throws everything away: as fast as this machine's pseudo-terminals go."""

    def __init__(self, name: str, argv: list[str], environ: Mapping[str, str]) -> None:
        self.name, self._argv, self._environ = name, argv, environ

    def record(self, stream: Path, folder: Path) -> Recording:
        """Drain and keep nothing."""
        effort = run_family([*self._argv, "-", "cat", str(stream)], self._environ, folder / "log")
        return Recording(effort.wall_s, effort.cpu_s, None, None)

    def capture(self, stream: Path, folder: Path) -> Path:
        """What a recorder has to keep of ``stream``: the bytes as the terminal gives them out."""
        target = folder / f"{stream.stem}.capture"
        run_family([*self._argv, str(target), "cat", str(stream)], self._environ, folder / "log")
        return target


class Scrubjay:
    """``scrubjay run -d`` with its default settings."""

    name = "Scrubjay"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def record(self, stream: Path, folder: Path) -> Recording:
        """Record into a data directory of its own, and return when its sealers have ended too."""
        home = folder / "home"
        size = ["--cols", str(COLS), "--rows", str(ROWS)]
        argv = [str(SCRUBJAY), "--data", str(home), "run", "-d", "--name", "bench", *size, "--", "cat", str(stream)]
        effort = run_family(argv, self._environ, folder / "log")
        (pod,) = (home / "pods").iterdir()
        ended_wall_us = int(json.loads((pod / "end.json").read_bytes())["wall"])
        wall_s = (ended_wall_us - effort.began_wall_us) / 1e6
        unsealed = len(list((pod / "tape").glob("*.raw")))
        return Recording(wall_s, effort.cpu_s, effort.parent_cpu_s, None, _agent_s(pod), unsealed)

    def export(self, folder: Path, format_: str, target: Path) -> Path:
        """What the recording in ``folder`` holds, in one of the formats of ``scrubjay export``."""
        argv = [
            str(SCRUBJAY),
            "--data",
            str(folder / "home"),
            "export",
            "bench",
            "--format",
            format_,
            "-o",
            str(target),
        ]
        subprocess.run(argv, env=dict(self._environ), check=True, capture_output=True)
        return target


class Script:
    """util-linux ``script`` with a timing file."""

    name = "script -q -T"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def record(self, stream: Path, folder: Path) -> Recording:
        """Record without a terminal of its own, as a detached pod does."""
        # script takes the size of the terminal it runs on; without one it has to be set inside.
        command = f"stty cols {COLS} rows {ROWS}; exec cat {shlex.quote(str(stream))}"
        kept = folder / "typescript"
        argv = ["script", "-q", "-T", str(folder / "timing"), "-O", str(kept), "-c", command]
        return _recording(run_family(argv, self._environ, folder / "log"), kept)


class Asciinema:
    """asciinema from PyPI."""

    name = "asciinema rec"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def record(self, stream: Path, folder: Path) -> Recording:
        """Record to an asciicast v2 file."""
        kept = folder / "session.cast"
        size = ["--cols", str(COLS), "--rows", str(ROWS)]
        argv = [str(PEERS / "asciinema"), "rec", "-q", *size, "-c", f"cat {shlex.quote(str(stream))}", str(kept)]
        # It keeps an id of the installation below HOME, which is nobody's but this run's.
        environ = dict(self._environ) | {"HOME": str(folder)}
        return _recording(run_family(argv, environ, folder / "log"), kept)


class Tmux:
    """A detached tmux session piped to a file."""

    name = "tmux pipe-pane"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def record(self, stream: Path, folder: Path) -> Recording:
        """Record until the server, whose only session ends with cat, has ended."""
        kept = folder / "pane"
        session = ["new-session", "-d", "-x", str(COLS), "-y", str(ROWS), f"exec cat {shlex.quote(str(stream))}"]
        # In one command list, so that the pipe is there before the server reads the first byte.
        pipe = [";", "pipe-pane", f"exec cat > {shlex.quote(str(kept))}"]
        argv = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null", *session, *pipe]
        effort = run_family(argv, self._environ, folder / "log")
        return Recording(effort.wall_s, effort.cpu_s, effort.parent_cpu_s, kept)


def drains(folder: Path, environ: Mapping[str, str]) -> list[Drain]:
    """The bare drains this machine can run: in Python always, in C if it has a compiler."""
    python = Drain("bare drain, Python", [sys.executable, "-I", "-S", str(_HERE / "drain.py")], environ)
    compiler = shutil.which("cc")
    if compiler is None:
        return [python]
    binary = folder / "drain"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(_HERE / "drain.c"), "-lutil"], check=True)
    return [Drain("bare drain, C", [str(binary)], environ), python]


def peers(environ: Mapping[str, str]) -> tuple[list[Recorder], list[str]]:
    """The peers that are installed, and the versions of all (or that they are missing)."""
    found: list[Recorder] = []
    versions: list[str] = []
    for recorder, version in (
        (Script(environ), ["script", "--version"]),
        (Asciinema(environ), [str(PEERS / "asciinema"), "--version"]),
        (Tmux(environ), ["tmux", "-V"]),
    ):
        try:
            told = subprocess.run(version, capture_output=True, text=True, check=True, env=dict(environ)).stdout
        except (OSError, subprocess.CalledProcessError):
            versions.append(f"{recorder.name}: not installed; scripts/install-peers gets it")
            continue
        found.append(recorder)
        versions.append(f"{recorder.name}: {told.strip()}")
    return found, versions


def finish_sealing(pod: Path) -> int:
    """Seal what is raw of a pod that has ended, after whoever is sealing it now; how many segments that were."""
    sealed, deadline = 0, time.monotonic() + _SEALED_S
    while list((pod / "tape").glob("*.raw")):
        done = seal_ended_segments(pod / "tape", pod, pod.name, complete=True)
        sealed += done.segments
        if time.monotonic() > deadline:
            raise TimeoutError(f"not sealed in {_SEALED_S:g} s: {done.left}")
        time.sleep(0.05)
    return sealed


def _agent_s(pod: Path) -> float | None:
    for record in Tape(pod / "tape").records():
        if record.kind == Kind.EXIT:
            return record.at / 1e6
    return None


def _recording(effort: Effort, kept: Path) -> Recording:
    return Recording(effort.wall_s, effort.cpu_s, None, kept)
