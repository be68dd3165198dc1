"""Key-to-echo latency: how long a typed byte takes to be shown by ``cat`` on various ways to a terminal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.family import reap_ended
from benchmarks.plan import PEERS, SCRUBJAY, Plan
from benchmarks.report import Report, Table, Target, percentile
from benchmarks.streams import COLS, ROWS
from benchmarks.terminal import NoEcho, Terminal
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.settings import Settings
from scrubjay.tape.format import Kind
from scrubjay.tape.stream import RecordStream

RATIO_LIMIT = 2.0
SAMPLES = 1000
_BLOCK = 50  # keys on one way before the next: alone on the machine its code would stay in the caches, too
_PAUSE_S = 0.002  # between two keys, so that everybody sleeps again as between the keys of a person
_KEYS = tuple(bytes([letter]) for letter in b"qvwxyz")  # no letter that ends a common escape sequence

_SCRIPT, _OURS = "script -q -T", "Scrubjay, attached"


class _Way(Protocol):
    def echo_s(self, key: bytes) -> float:
        """Type one key and return how long it took to be shown."""
        ...

    def end_input(self) -> None:
        """End cat and return when it has ended."""
        ...


def measure(plan: Plan) -> Report:
    """Type on all ways in turns, so that what disturbs one disturbs all."""
    folder = plan.folder / "run"
    folder.mkdir()
    ways = _open_ways(plan, folder)
    try:
        samples = _type_on(ways)
    finally:
        for way in ways.values():
            way.end_input()
        shutil.rmtree(folder)
    script = percentile(samples[_SCRIPT], 50) if _SCRIPT in samples else None
    rows = [
        (
            name,
            *(percentile(times, percent) * 1e3 for percent in (50, 95, 99)),
            percentile(times, 50) / script if script is not None else None,
        )
        for name, times in samples.items()
    ]
    columns = ("way", "p50 ms", "p95 ms", "p99 ms", "p50 to script")
    report = Report("echo", [Table(f"key to echo, {SAMPLES} keys each", columns, rows)])
    if script is not None:
        ratio = percentile(samples[_OURS], 50) / script
        report.targets.append(Target("key to echo, p50 against script", ratio, RATIO_LIMIT, "times"))
    return report


def _open_ways(plan: Plan, folder: Path) -> dict[str, _Way]:
    environ = plan.environ
    ways: dict[str, _Way] = {"direct": Terminal(["cat"], environ)}
    if shutil.which("script"):
        argv = ["script", "-q", "-T", str(folder / "timing"), "-O", str(folder / "typescript"), "-c", "exec cat"]
        ways[_SCRIPT] = Terminal(argv, environ)
    if (PEERS / "asciinema").exists():
        argv = [str(PEERS / "asciinema"), "rec", "-q", "-c", "exec cat", str(folder / "session.cast")]
        ways["asciinema rec"] = Terminal(argv, dict(environ) | {"HOME": str(folder)})
    if shutil.which("tmux"):
        server = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        # Without the status line, which draws by itself.
        ways["tmux"] = Terminal([*server, "new-session", "exec cat", ";", "set", "status", "off"], environ)
    ways["Scrubjay, by the protocol"] = _KeeperSocket(folder / "socket-home", environ)
    argv = [str(SCRUBJAY), "--data", str(folder / "home"), "run", "--", "cat"]
    ways[_OURS] = Terminal(argv, environ)
    return ways


def _type_on(ways: dict[str, _Way]) -> dict[str, list[float]]:
    for way in ways.values():
        if isinstance(way, Terminal):
            time.sleep(0.5)  # nothing tells from outside that a terminal has been set up
            way.settle()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        _type_block(way)  # not counted: everything is done for the first time
    for _ in range(SAMPLES // _BLOCK):
        for name, way in ways.items():
            samples[name] += _type_block(way)
    return samples


def _type_block(way: _Way) -> list[float]:
    taken_s: list[float] = []
    for number in range(_BLOCK):
        taken_s.append(way.echo_s(_KEYS[number % len(_KEYS)]))
        time.sleep(_PAUSE_S)
    return taken_s


class _KeeperSocket:
    """The keeper's protocol, as a script speaks it."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        request = StartRequest(argv=("cat",), cwd=home.parent, cols=COLS, rows=ROWS)
        self._pod = start_pod(Home(home), request, Settings(home), environ)
        self._keeper = self._pod.connect()
        self._stream = RecordStream(self._pod.id, 0)
        self._keeper.send({"do": "follow", "from": 0})

    def echo_s(self, key: bytes) -> float:
        began = time.perf_counter()
        self._keeper.send({"do": "write", "author": "benchmark"}, key)
        while True:
            for meta, tail in self._keeper.receive():
                if "tape" not in meta:
                    continue
                shown = [record.payload for record in self._stream.feed(tail) if record.kind == Kind.OUTPUT]
                if key in b"".join(shown):
                    return time.perf_counter() - began
            if time.perf_counter() - began > 10:
                raise NoEcho(f"{key!r} was not on the tape in 10 s")

    def end_input(self) -> None:
        self._keeper.send({"do": "write", "author": "benchmark"}, b"\n\x04")
        self._keeper.close()
        while self._pod.alive:
            time.sleep(0.01)
        reap_ended()
