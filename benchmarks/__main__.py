"""Run the benchmarks and print what they found: ``python -m benchmarks [NAME]... [--runs N] [--size-mb N]``.

Exits with 0 whatever was measured: a target that is missed is a finding, not a failure.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import scrubjay
from benchmarks import echo, indexing, keeper, recording, search, seek, status_accuracy, storage
from benchmarks.family import CommandFailed, stolen_s
from benchmarks.fleet import (
    echo_live,
    ingest,
    late_join,
    memories,
    messages,
    resume,
    status_live,
    topology,
    viewers,
    wait_graph,
)
from benchmarks.plan import MB, Plan, clean_environment
from benchmarks.report import Report
from benchmarks.terminal import NoEcho
from scrubjay.errors import ScrubjayError

_BENCHMARKS = {
    "recording": recording.measure,
    "storage": storage.measure,
    "echo": echo.measure,
    "keeper": keeper.measure,
    "seek": seek.measure,
    "indexing": indexing.measure,
    "search": search.measure,
    "echo-live": echo_live.measure,
    "viewers": viewers.measure,
    "ingest": ingest.measure,
    "late-join": late_join.measure,
    "status": status_accuracy.measure,
    "status-live": status_live.measure,
    "waits": wait_graph.measure,
    "topology": topology.measure,
    "messages": messages.measure,
    "memory": memories.measure,
    "resume": resume.measure,
}
_RESULTS = Path(__file__).parent / "results"
_SIZE_MB, _LONGEST_MB = 100, 1000


def main() -> None:
    """Measure what was asked for, in the order it is listed in."""
    options = _parser().parse_args()
    _RESULTS.mkdir(exist_ok=True)
    compileall.compile_dir(Path(scrubjay.__file__).parent, quiet=1)  # as installing a package does
    reports: list[Report] = []
    began, load_before, stolen_before_s = time.time(), os.getloadavg(), stolen_s()
    print(f"{_machine()}; load average {_show_load(load_before)}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir, ignore_cleanup_errors=True) as folder:
        environ = clean_environment(os.environ)
        size_mb, longest_mb = options.size_mb or _SIZE_MB, options.size_mb or _LONGEST_MB
        plan = Plan(Path(folder).resolve(), options.runs, size_mb * MB, longest_mb * MB, environ)
        for name in options.names or _BENCHMARKS:
            report = _measure(name, plan)
            reports.append(report)
            print("\n\n".join(table.render() for table in report.tables), end="\n\n", flush=True)
    targets = [target for report in reports for target in report.targets]
    print("\n".join(target.describe() for target in targets))
    met = sum(target.met for target in targets)
    stolen = (stolen_s() - stolen_before_s) / (time.time() - began) / (os.cpu_count() or 1)
    print(
        f"\n{met} of {len(targets)} targets met; load average at the end {_show_load(os.getloadavg())}; "
        f"{stolen:.1%} of the processors' time was given to others by the host"
    )
    if options.json is not None:
        facts = {
            "machine": _machine(),
            "began": began,
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "stolen": stolen,
            "runs": options.runs,
            "size_mb": plan.size_bytes // MB,
            "longest_mb": plan.longest_bytes // MB,
            "reports": [report.to_json() for report in reports],
        }
        options.json.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def _measure(name: str, plan: Plan) -> Report:
    try:
        return _BENCHMARKS[name](plan)
    except (CommandFailed, NoEcho, ScrubjayError, OSError, subprocess.CalledProcessError) as error:
        print(f"{name} could not be measured: {error}\n")
        return Report(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Scrubjay beside its peers.")
    parser.add_argument("names", nargs="*", choices=[[], *_BENCHMARKS], metavar="NAME", help=", ".join(_BENCHMARKS))
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of every recorder (default: 5)")
    parser.add_argument(
        "--size-mb",
        type=int,
        metavar="N",
        help=f"of each stream (default: {_SIZE_MB}), and of the longest recording to seek in ({_LONGEST_MB})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything here too")
    parser.add_argument("--dir", type=Path, default=_RESULTS, metavar="DIR", help="on the disk to measure")
    return parser


def _machine() -> str:
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _show_load(load: tuple[float, float, float]) -> str:
    return " ".join(f"{value:.2f}" for value in load)


if __name__ == "__main__":
    main()
