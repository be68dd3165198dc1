"""One busy pod and many viewers: how late each sees what it shows, and what that takes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.family import CommandFailed
from benchmarks.fleet.audience import Seen
from benchmarks.fleet.parts import KEEPERS, SERVER, WORKERS, Parts
from benchmarks.fleet.server import Server, running_server
from benchmarks.fleet.stamps import is_whole, output_of
from benchmarks.memory import memory_of
from benchmarks.plan import MB, Plan
from benchmarks.report import Cell, Report, Table, Target, percentile
from scrubjay.pods.pod import Pod
from scrubjay.tape.format import Kind

VIEWERS = 200
PROCESSES = 4  # that they share
SECONDS = 20.0
BYTES_PER_S, UPDATES_PER_S = MB, 125
_SILENT_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class _Watched:
    viewers: int
    seen: list[Seen]
    shown_bytes: int
    wall_s: float
    cpu_s: dict[str, float]
    server_rss_mb: float
    resyncs: float
    end: int
    proven: bool

    @property
    def at_end(self) -> int:
        """How many viewers were shown all there was."""
        return sum(offset == self.end for one in self.seen for offset in one.offsets)

    def row(self) -> tuple[Cell, ...]:
        lags_us = [lag for one in self.seen for lag in one.lags_us]
        received = sum(one.received_bytes for one in self.seen)
        messages = sum(one.messages for one in self.seen)
        return (
            f"{self.viewers} viewer{'s' if self.viewers > 1 else ''}",
            *(percentile(lags_us, percent) / 1e3 for percent in (50, 99, 100)),
            self.shown_bytes / MB / self.wall_s,
            received / MB / self.wall_s,
            messages / self.wall_s,
            *(100 * self.cpu_s[name] / self.wall_s for name in (SERVER, WORKERS, KEEPERS)),
            100 * sum(one.cpu_s for one in self.seen) / self.wall_s,
            self.server_rss_mb,
            int(self.resyncs),
            f"{self.at_end} of {self.viewers}",
            "yes" if self.proven else "NO",
        )


def measure(plan: Plan) -> Report:
    """The same with one viewer and with many."""
    with running_server(plan) as server:
        watched = [_watch(server, count) for count in (1, VIEWERS)]
    columns = (
        *("viewers", "lag p50 ms", "p99 ms", "worst ms", "shown MB/s", "sent MB/s", "messages/s"),
        *("server CPU %", "workers %", "keeper %", "clients %", "server RSS MB", "resyncs", "at the end", "same bytes"),
    )
    title = f"one pod that draws {BYTES_PER_S / MB:g} MB/s, for {SECONDS:g} s"
    notes = (
        "lag: from the making of an update to its arrival in a viewer, of which there are several to a process",
        "same bytes: what a viewer of each process was shown after its last keyframe is what the tape has",
    )
    report = Report("viewers", [Table(title, columns, [one.row() for one in watched], notes)])
    report.targets.append(Target("at the end of the tape", watched[-1].at_end, VIEWERS, "viewers", at_least=True))
    return report


def _watch(server: Server, viewers: int) -> _Watched:
    pod = server.start_speaker("pace", BYTES_PER_S, UPDATES_PER_S)
    with _audience(server, pod, viewers) as clients:
        parts, resyncs = Parts(server.pid, [pod]), server.figure("scrubjay_viewer_resyncs_total")
        server.signal([pod])
        before, began = parts.cpu_s(), time.monotonic()
        time.sleep(SECONDS)
        after, wall_s = parts.cpu_s(), time.monotonic() - began
        rss_mb = memory_of(server.pid).rss_mb
        server.signal([pod])
        server.await_silence([pod], _SILENT_WITHIN_S)
        end = _last_shown(pod)
        seen = [_finish(client, end) for client in clients]
        resyncs = server.figure("scrubjay_viewer_resyncs_total") - resyncs
    output = output_of(pod)
    if not is_whole(output):
        raise CommandFailed("the tape of a busy pod lacks something")
    proven = all(_proof(pod, one.proof_after) == one.proof for one in seen)
    server.stop_pods()
    cpu_s = {name: after[name] - before[name] for name in after}
    return _Watched(viewers, seen, len(output), wall_s, cpu_s, rss_mb, resyncs, end, proven)


@contextmanager
def _audience(server: Server, pod: Pod, viewers: int) -> Generator[list[subprocess.Popen[str]]]:
    """Processes with viewers that all have a screen."""
    host, port = server.address
    task: dict[str, object] = {"host": host, "port": port, "token": server.make_token(), "pod": pod.id}
    shares = [len(range(number, viewers, PROCESSES)) for number in range(min(PROCESSES, viewers))]
    argv = [sys.executable, "-m", "benchmarks.fleet.audience"]
    clients = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in shares]
    try:
        for client, share in zip(clients, shares, strict=True):
            _tell(client, task | {"count": share})
        for client in clients:
            _hear(client)
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def _tell(client: subprocess.Popen[str], message: dict[str, object]) -> None:
    assert client.stdin is not None
    client.stdin.write(json.dumps(message) + "\n")
    client.stdin.flush()


def _hear(client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None
    if not (line := client.stdout.readline()):
        raise CommandFailed("some viewers failed")
    return line


def _finish(client: subprocess.Popen[str], end: int) -> Seen:
    _tell(client, {"end": end})
    return Seen(**json.loads(_hear(client)))


def _last_shown(pod: Pod) -> int:
    """Where the last record ends that viewers are shown."""
    return max(record.end for record in pod.tape().records() if record.kind == Kind.OUTPUT)


def _proof(pod: Pod, after: int) -> str:
    return hashlib.sha256(output_of(pod, after)).hexdigest()
