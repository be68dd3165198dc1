"""What a keeper costs: to start, to have, to leave idle; and how fast tapes are verified, recovered and sealed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.family import reap_ended, wait_for_calm
from benchmarks.memory import memory_of
from benchmarks.plan import MB, Plan
from benchmarks.recorders import finish_sealing
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from benchmarks.streams import COLS, ROWS, write_log
from scrubjay.ids import new_pod_id
from scrubjay.keeper.processes import adopt_orphans, descendants
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.settings import Settings
from scrubjay.tape.anchor import WATERMARK, read_anchor
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.reader import Tape
from scrubjay.tape.recover import close_lost_tape
from scrubjay.tape.seal import seal_ended_segments
from scrubjay.tape.verify import verify
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter

START_LIMIT_MS = 60.0
IDLE_LIMIT_MB = 16.0
VERIFY_LIMIT_MB_S = 100.0
_STARTS = 30
_IDLE_KEEPERS, _IDLE_S = 20, 10.0
_SETTLE_S = 1.0  # after which a keeper that was just started does nothing any more
_RECORD_SIZES = {"of 128 KiB, as in a flood": 128 << 10, "of 512 B, as agents draw": 512}
_FLOODED_S = 120.0


def measure(plan: Plan) -> Report:
    """Measure keepers, then tapes."""
    report = Report("keeper")
    adopt_orphans()
    stream = write_log(plan.stream("log"), plan.size_bytes)
    _measure_start(plan, report)
    _measure_memory(plan, report, stream)
    _measure_idle(plan, report)
    _measure_tapes(plan, report, stream)
    return report


def _measure_start(plan: Plan, report: Report) -> None:
    taken_ms: list[float] = []
    with _home(plan) as start:
        for _ in range(_STARTS):
            began = time.perf_counter()
            pod = start("cat")
            taken_ms.append((time.perf_counter() - began) * 1e3)
            _end(pod)
            wait_for_calm()  # its sealer is not to run beside the next start
    row = [percentile(taken_ms, percent) for percent in (50, 95)]
    report.tables.append(
        Table(
            f"start of a keeper, from start_pod to the agent running, {_STARTS} times",
            ("best ms", "p50 ms", "p95 ms"),
            [(min(taken_ms), *row)],
        )
    )
    report.targets.append(Target("start of a keeper, p50", row[0], START_LIMIT_MS, "ms"))


def _measure_memory(plan: Plan, report: Report, stream: Path) -> None:
    with _home(plan) as start:
        idle = start("cat")
        time.sleep(_SETTLE_S)
        before = memory_of(_keeper_pid(idle))
        shells = sum(memory_of(pid).pss_mb for pid in _aides_of(idle))
        flooded = start("sh", "-c", f"cat '{stream}'; exec cat")
        _wait_until(lambda: _written(flooded) > plan.size_bytes, _FLOODED_S)
        time.sleep(_SETTLE_S)
        after = memory_of(_keeper_pid(flooded))
        for pod in (idle, flooded):
            _end(pod)
    rows: list[tuple[Cell, ...]] = [
        ("idle", before.rss_mb, before.pss_mb, before.peak_mb),
        (f"after {plan.size_bytes // MB} MB of output", after.rss_mb, after.pss_mb, after.peak_mb),
        ("the shell that waits beside it", None, shells, None),
    ]
    report.tables.append(Table("memory of a keeper", ("keeper", "VmRSS MB", "Pss MB", "peak VmRSS MB"), rows))
    report.targets.append(Target("memory of an idle keeper, VmRSS", before.rss_mb, IDLE_LIMIT_MB, "MB"))


def _measure_idle(plan: Plan, report: Report) -> None:
    with _home(plan) as start:
        pods = [start("cat") for _ in range(_IDLE_KEEPERS)]
        time.sleep(_SETTLE_S)
        pids = [_keeper_pid(pod) for pod in pods]
        before = [_activity_of(pid) for pid in pids]
        time.sleep(_IDLE_S)
        after = [_activity_of(pid) for pid in pids]
        for pod in pods:
            _end(pod)
    cpu_ms = sum(now[0] - then[0] for now, then in zip(after, before, strict=True)) / 1e6
    wakeups = sum(now[1] - then[1] for now, then in zip(after, before, strict=True))
    title = f"{_IDLE_KEEPERS} idle keepers for {_IDLE_S:g} s"
    columns = ("CPU ms, all", "percent of one core", "wakeups, all")
    report.tables.append(Table(title, columns, [(cpu_ms, cpu_ms / _IDLE_S / 10, wakeups)]))


def _measure_tapes(plan: Plan, report: Report, stream: Path) -> None:
    rows: list[tuple[Cell, ...]] = []
    for name, record_bytes in _RECORD_SIZES.items():
        speeds: dict[str, list[float]] = {}
        for _ in range(plan.runs):
            pod = plan.folder / str(new_pod_id())
            size = _write_tape(pod, stream, record_bytes)
            for job, seconds in _work_on(pod):
                speeds.setdefault(job, []).append(size / MB / seconds)
            shutil.rmtree(pod)
        rows += [(f"{job}, records {name}", max(all_), middle(all_)) for job, all_ in speeds.items()]
        report.targets += [
            Target(f"{job}, records {name}", middle(all_), VERIFY_LIMIT_MB_S, "MB/s", at_least=True)
            for job, all_ in speeds.items()
            if job.startswith("verify")
        ]
    report.tables.append(Table("work on tapes, MB/s of records", ("work", "best MB/s", "median"), rows))


def _work_on(pod: Path) -> Iterator[tuple[str, float]]:
    """Each kind of work on one lost tape, and the seconds it took."""
    tape = Tape(pod / "tape", pod.name)
    yield "verify, raw", _timed(lambda: verify(tape, read_anchor(pod, pod.name)))
    yield "recover", _timed(lambda: close_lost_tape(tape, read_anchor(pod, pod.name), pod))
    yield "seal", _timed(lambda: seal_ended_segments(pod / "tape", pod, pod.name, complete=True))
    yield "verify, sealed", _timed(lambda: verify(tape, read_anchor(pod, pod.name)))


def _write_tape(pod: Path, stream: Path, record_bytes: int) -> int:
    """A tape as a killed keeper leaves it: synced, a torn record at its end, never closed."""
    (pod / "tape").mkdir(parents=True)
    watermark = WatermarkFile(Folder(str(pod)).create(WATERMARK), pod.name)
    writer = TapeWriter(Folder(str(pod / "tape")), pod.name, watermark=watermark)
    writer.append(Kind.HEAD, 0, encode_json(format=1, tape=pod.name))
    at = 0
    with stream.open("rb") as file:
        while data := file.read(record_bytes):
            at += 1000
            writer.append(Kind.OUTPUT, at, data)
            if writer.half_full:
                writer.sync()
    writer.sync()
    writer.close()
    last = max((pod / "tape").iterdir())
    with last.open("ab") as file:
        file.write(b"\x00\x02\x00\x00\x02torn")
    return writer.offset


@contextmanager
def _home(plan: Plan) -> Generator[Callable[..., Pod]]:
    """A way to start pods in a data directory that is gone afterwards."""
    path = plan.folder / "run"
    home = Home(path)

    def start(*argv: str) -> Pod:
        return start_pod(home, StartRequest(argv, plan.folder, COLS, ROWS), Settings(path), plan.environ)

    yield start
    shutil.rmtree(path)


def _end(pod: Pod) -> None:
    """Stop a pod and return when its keeper and its sealer are gone."""
    with pod.connect() as connection:
        connection.send({"do": "stop", "author": "benchmark", "grace_ms": 1000})
    _wait_until(lambda: not pod.alive, 10)
    finish_sealing(pod.folder)
    reap_ended()


def _keeper_pid(pod: Pod) -> int:
    live = pod.observe().live
    assert live is not None
    pid = live["keeper_pid"]
    assert isinstance(pid, int)
    return pid


def _aides_of(pod: Pod) -> list[int]:
    live = pod.observe().live
    assert live is not None
    return [pid for pid in descendants(_keeper_pid(pod)) if pid != live["agent_pid"]]


def _written(pod: Pod) -> int:
    live = pod.observe().live
    written = live["synced"] if live is not None else 0
    return written if isinstance(written, int) else 0


def _activity_of(pid: int) -> tuple[int, int]:
    """Nanoseconds of CPU and times it was put on one, over all threads."""
    spent = [Path(task, "schedstat").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(fields[0]) for fields in spent), sum(int(fields[2]) for fields in spent)


def _wait_until(done: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done in {limit_s:g} s")
        time.sleep(0.01)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
