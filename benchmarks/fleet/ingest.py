"""A hundred pods at once, silent and then speaking: CPU and memory of everything that watches over them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.fleet.parts import AGENTS, Parts
from benchmarks.fleet.server import Server, running_server
from benchmarks.fleet.stamps import is_whole, output_of
from benchmarks.plan import MB, Plan
from benchmarks.report import Cell, Report, Table, Target
from scrubjay.pods.pod import Pod

PODS = 100
SECONDS = 30.0
BYTES_PER_S, UPDATES_PER_S = 20_000, 20
_SETTLE_S = 5.0  # after which what was just started or woken does only what it will go on doing
_SILENT_WITHIN_S = 120.0


def measure(plan: Plan) -> Report:
    """Start them, leave them alone for a while, let them speak for a while, and see that everything was kept."""
    report = Report("ingest")
    with running_server(plan) as server:
        began = time.monotonic()
        pods = server.start_speakers(PODS, "pace", BYTES_PER_S, UPDATES_PER_S)
        started_s = time.monotonic() - began
        report.tables.append(_observe(server, pods, f"{PODS} idle pods, {SECONDS:g} s; started in {started_s:.1f} s"))
        server.signal(pods)
        report.tables.append(_observe(server, pods, f"{PODS} pods of {BYTES_PER_S / 1e3:g} kB/s each, {SECONDS:g} s"))
        server.signal(pods)
        began = time.monotonic()
        extents = server.await_silence(pods, _SILENT_WITHIN_S)
        silent_s = time.monotonic() - began
        outputs = [output_of(pod) for pod in pods]
        whole = sum(map(is_whole, outputs))
    equal = sum(extent.known == extent.end for extent in extents)
    columns = ("output MB", "tapes MB", "known by the server MB", "within s", "whole and in order", "ends known")
    row = (
        sum(map(len, outputs)) / MB,
        sum(extent.end for extent in extents) / MB,
        sum(extent.known for extent in extents) / MB,
        silent_s,
        f"{whole} of {PODS}",
        f"{equal} of {PODS}",
    )
    report.tables.append(Table("what was kept, once all were silent again", columns, [row]))
    report.targets.append(Target("tapes that are whole and in order", whole, PODS, "tapes", at_least=True))
    report.targets.append(Target("tapes whose end the server knows", equal, PODS, "tapes", at_least=True))
    return report


def _observe(server: Server, pods: Sequence[Pod], title: str) -> Table:
    time.sleep(_SETTLE_S)
    parts, received = Parts(server.pid, pods), server.figure("scrubjay_received_bytes_total")
    before, began = parts.cpu_s(), time.monotonic()
    time.sleep(SECONDS)
    after, wall_s = parts.cpu_s(), time.monotonic() - began
    received = server.figure("scrubjay_received_bytes_total") - received
    memory = parts.memory_mb()
    rows: list[tuple[Cell, ...]] = [
        (name, len(pids), 100 * (after[name] - before[name]) / wall_s, *memory[name])
        for name, pids in parts.pids.items()
    ]
    ours = [row for row in rows if row[0] != AGENTS]
    sums = [sum(value for row in ours if isinstance(value := row[index], int | float)) for index in range(1, 5)]
    rows.append(("all of ours", *sums))
    note = f"{received / wall_s / 1e3:.0f} kB/s of tapes came from the runner to the server"
    return Table(title, ("process", "count", "CPU % of a core", "RSS MB", "PSS MB"), rows, (note,))
