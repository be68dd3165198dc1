"""What it costs to make tapes seekable and searchable: time on one core, and bytes beside the sealed tape."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.family import one_core, spent_cpu_s
from benchmarks.plan import MB, Plan
from benchmarks.report import Cell, Report, Table, Target, middle
from benchmarks.tapes import Portion, drawn_frames, flood, make_keyframes, printed_lines, record, up_to
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.replay.search import INDEX_NAME, SearchIndex
from scrubjay.replay.workers import Workers
from tests.support.corpus import Output, Recording, recordings

SPEED_LIMIT_MB_S = 20.0
SIZE_LIMIT = 0.15
_SHARE = 4  # of what recorders are measured with: CPU time is steady
_BETWEEN_US = 1_000_000  # two recordings that are made one

_DRAWN = "tui, as an agent draws it"
_PRINTED = "log, as a build prints it"
_REAL = "real agents, all on one tape"

_SPEED_COLUMNS = (
    *("output", "MB", "keyframes only MB/s", "best", "with rows MB/s", "best ", "by the clock"),
    *("in the worker", "keyframes", "rows"),
)
_SIZE_COLUMNS = ("output", "sealed kB", "keyframes kB", "of tape", "search kB", "of tape ", "together", "B per row")


@dataclass(frozen=True, slots=True)
class _Walk:
    """What it took to index all tapes of a subject once."""

    wall_s: float
    own_s: float  #: CPU time of this process
    worker_s: float
    keyframes: int
    keyframe_bytes: int
    search_bytes: int
    rows: int


@dataclass(slots=True)
class _Subject:
    """Tapes that are indexed together."""

    name: str
    pods: list[Pod]
    output_bytes: int
    keyframes_only: list[_Walk] = field(default_factory=list[_Walk])
    with_rows: list[_Walk] = field(default_factory=list[_Walk])

    def speeds(self, walks: Sequence[_Walk]) -> list[float]:
        """Megabytes of output per second of CPU time."""
        return [self.output_bytes / MB / (walk.own_s + walk.worker_s) for walk in walks]

    @property
    def sealed_bytes(self) -> int:
        """What the tapes take."""
        return sum(pod.tape().stored_bytes for pod in self.pods)


def measure(plan: Plan) -> Report:
    """Index everything anew in each run, with and without rows."""
    report = Report("indexing")
    home = Home(plan.folder / "indexing")
    subjects = list(_subjects(home, plan.size_bytes // _SHARE))
    with one_core(), Workers() as workers:
        _ = workers.identity  # once it has said this it has started
        for _ in range(plan.runs):
            for subject in subjects:
                subject.keyframes_only.append(_walk(plan, subject.pods, workers, with_rows=False))
                subject.with_rows.append(_walk(plan, subject.pods, workers, with_rows=True))
    report.tables += [_speed_table(plan, subjects), _size_table(subjects)]
    for subject in subjects:
        if subject.name in (_DRAWN, _PRINTED, _REAL):
            speed = middle(subject.speeds(subject.with_rows))
            what = f"indexing {subject.name}"
            report.targets.append(Target(what, speed, SPEED_LIMIT_MB_S, "MB/s of one core", at_least=True))
        if subject.name == _DRAWN:
            walk = subject.with_rows[-1]
            share = (walk.keyframe_bytes + walk.search_bytes) / subject.sealed_bytes
            report.targets.append(
                Target(f"keyframes and search index of {subject.name}", share, SIZE_LIMIT, "of the sealed tape")
            )
    return report


def _subjects(home: Home, size_bytes: int) -> Iterator[_Subject]:
    for name, portions in (
        (_DRAWN, drawn_frames()),
        ("tui, in a flood", flood(drawn_frames())),
        (_PRINTED, printed_lines()),
        ("log, in a flood", flood(printed_lines())),
    ):
        pod, output_bytes = record(home, name[:3], up_to(size_bytes, portions))
        yield _Subject(name, [pod], output_bytes)
    found = list(recordings())
    cols, rows = found[0].size  # which all of them have
    pod, output_bytes = record(home, "corpus", _one_after_the_other(found), cols=cols, rows=rows)
    yield _Subject(_REAL, [pod], output_bytes)
    made = [record(home, "corpus", _portions(one), cols=cols, rows=rows) for one in found]
    yield _Subject(
        f"real agents, on {len(made)} tapes", [pod for pod, _ in made], sum(output_bytes for _, output_bytes in made)
    )


def _portions(recording: Recording) -> Iterator[Portion]:
    return ((event.at_us, event.data) for event in recording.events if isinstance(event, Output))


def _one_after_the_other(found: Iterable[Recording]) -> Iterator[Portion]:
    began = at = 0
    for recording in found:
        for at_us, data in _portions(recording):
            at = began + at_us
            yield at, data
        began = at + _BETWEEN_US


def _walk(plan: Plan, pods: Sequence[Pod], workers: Workers, *, with_rows: bool) -> _Walk:
    folder = plan.folder / "index"
    folder.mkdir()
    with _CountingIndex(folder / INDEX_NAME) as index:
        before = time.perf_counter(), time.process_time(), _worker_cpu_s(workers)
        made = [make_keyframes(pod, workers, index if with_rows else None, folder=folder / pod.id) for pod in pods]
        after = time.perf_counter(), time.process_time(), _worker_cpu_s(workers)
    wall_s, own_s, worker_s = (now - then for now, then in zip(after, before, strict=True))
    keyframes, keyframe_bytes = sum(len(one.offsets()) for one in made), sum(one.stored_bytes for one in made)
    search_bytes = (folder / INDEX_NAME).stat().st_size if with_rows else 0
    for one in made:
        one.close()
    shutil.rmtree(folder)
    return _Walk(wall_s, own_s, worker_s, keyframes, keyframe_bytes, search_bytes, index.rows)


class _CountingIndex(SearchIndex):
    rows = 0

    def add(self, tape: str, rows: Iterable[tuple[int, int, int, str, str]]) -> None:
        counted = list(rows)
        self.rows += len(counted)
        super().add(tape, counted)


def _speed_table(plan: Plan, subjects: Sequence[_Subject]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for subject in subjects:
        alone, speeds = subject.speeds(subject.keyframes_only), subject.speeds(subject.with_rows)
        walks = subject.with_rows
        rows.append(
            (
                *(subject.name, subject.output_bytes / MB, middle(alone), max(alone), middle(speeds), max(speeds)),
                middle([subject.output_bytes / MB / walk.wall_s for walk in walks]),
                middle([walk.worker_s / (walk.worker_s + walk.own_s) for walk in walks]),
                *(walks[-1].keyframes, walks[-1].rows),
            )
        )
    notes = (
        "MB of output by the CPU time of all processes, median and best; by the clock: median, with all on one core",
        "in the worker: its share of the CPU time; the rest is spent on reading tapes and writing indexes",
    )
    return Table(f"indexing in {plan.runs} runs, all processes on one core", _SPEED_COLUMNS, rows, notes)


def _size_table(subjects: Sequence[_Subject]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for subject in subjects:
        walk, sealed = subject.with_rows[-1], subject.sealed_bytes
        rows.append(
            (
                *(subject.name, sealed / 1e3, walk.keyframe_bytes / 1e3, walk.keyframe_bytes / sealed),
                *(walk.search_bytes / 1e3, walk.search_bytes / sealed),
                (walk.keyframe_bytes + walk.search_bytes) / sealed,
                walk.search_bytes / walk.rows if walk.rows else None,
            )
        )
    note = "an index with nothing in it has some pages, too, which is what a tape of seconds mostly pays for"
    return Table("size of indexes beside sealed tapes", _SIZE_COLUMNS, rows, (note,))


def _worker_cpu_s(workers: Workers) -> float:
    return sum(map(spent_cpu_s, workers.pids))
