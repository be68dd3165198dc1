"""Recording speed: the same bytes through a 120x40 terminal into every recorder, in turns."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.plan import MB, Plan
from benchmarks.recorders import Drain, Recorder, Recording, Scrubjay, drains, peers
from benchmarks.report import Report, Table, Target, middle
from benchmarks.streams import STREAMS, write_noise

# A drain with a file and one sync a second took 1.35 times the bare drain in our first measurements; a
# recorder that only appends and syncs in the background should not take more.
RATIO_LIMIT = 1.3
_NOISE_SHARE = 10  # the exactness check of bytes that are no text needs no more than a tenth of the size

_COLUMNS = ("recorder", "best MB/s", "median", "worst", "ratio by median", "by best", "CPU s", "of it own", "exact")


@dataclass(slots=True)
class _Row:
    recorder: Recorder
    recordings: list[Recording] = field(default_factory=list[Recording])
    verdicts: set[str] = field(default_factory=set[str])

    def speeds(self, size_bytes: int) -> list[float]:
        return [size_bytes / MB / recording.wall_s for recording in self.recordings]


def measure(plan: Plan) -> Report:
    """Compare the recorders on both streams."""
    report = Report("recording")
    bare = drains(plan.folder, plan.environ)
    scrubjay = Scrubjay(plan.environ)
    others, versions = peers(plan.environ)
    for name, write in STREAMS.items():
        stream = write(plan.stream(name), plan.size_bytes)
        _measure_stream(plan, report, stream, bare, scrubjay, others)
    _check_noise(plan, report, bare[0], scrubjay)
    report.tables.append(Table("peers", ("peer",), [(version,) for version in versions]))
    return report


def _measure_stream(
    plan: Plan, report: Report, stream: Path, bare: list[Drain], scrubjay: Scrubjay, others: list[Recorder]
) -> None:
    capture = bare[0].capture(stream, plan.folder)
    expected, size_bytes = _sha256(capture), capture.stat().st_size
    capture.unlink()
    rows = [_Row(recorder) for recorder in (*bare, scrubjay, *others)]
    for turn in range(plan.runs):
        # Each turn begins with another one, so that nobody always follows the one who leaves the most to clean up.
        first = turn % len(rows)
        for row in rows[first:] + rows[:first]:
            folder = plan.folder / "run"
            folder.mkdir()
            os.sync()  # what the one before has written is not to be paid for by this one
            recording = row.recorder.record(stream, folder)
            row.recordings.append(recording)
            row.verdicts.add(_compare(row.recorder, recording, folder, expected, size_bytes))
            shutil.rmtree(folder)
    speeds = {row.recorder.name: row.speeds(size_bytes) for row in rows}
    fastest = max(bare, key=lambda drain: middle(speeds[drain.name]))
    base = speeds[fastest.name]
    table = Table(
        f"recording: {size_bytes / MB:.0f} MB of {stream.stem} in {plan.runs} runs, ratios to the {fastest.name}",
        _COLUMNS,
        [_cells(row, speeds[row.recorder.name], base) for row in rows],
        (_explain_scrubjay(rows), "exact: yes has the SHA-256 of a drain's capture, whole is no smaller than it"),
    )
    report.tables.append(table)
    ours = speeds[scrubjay.name]
    report.targets.append(
        Target(f"recording {stream.stem}, ratio to a bare drain", middle(base) / middle(ours), RATIO_LIMIT, "times")
    )
    for other in others:
        theirs = middle(speeds[other.name])
        what = f"recording {stream.stem}, time against {other.name}"
        report.targets.append(Target(what, theirs / middle(ours), 1.0, "times"))


def _cells(row: _Row, speeds: list[float], base: list[float]) -> tuple[str | float | None, ...]:
    own = [recording.recorder_cpu_s for recording in row.recordings if recording.recorder_cpu_s is not None]
    return (
        row.recorder.name,
        max(speeds),
        middle(speeds),
        min(speeds),
        middle(base) / middle(speeds),
        max(base) / max(speeds),
        middle([recording.cpu_s for recording in row.recordings]),
        middle(own) if own else None,
        "/".join(sorted(row.verdicts)),
    )


def _explain_scrubjay(rows: list[_Row]) -> str:
    """Where the time went, by the tape itself."""
    ours = [recording for row in rows for recording in row.recordings if recording.agent_s is not None]
    whole_s = middle([recording.wall_s for recording in ours])
    agent_s = middle([recording.agent_s for recording in ours if recording.agent_s is not None])
    unsealed = sum(recording.unsealed > 0 for recording in ours)
    return (
        f"Scrubjay's {whole_s:.2f} s are {agent_s:.2f} s from the tape's beginning to the agent's end, the rest is the "
        "command's start and the last sync; CPU s includes sealing, own is the keeper's alone"
        + (f"; in {unsealed} of {len(ours)} runs its own sealers left segments raw" if unsealed else "")
    )


def _compare(recorder: Recorder, recording: Recording, folder: Path, expected: str, size_bytes: int) -> str:
    """Whether the recording holds what the terminal gave out."""
    if isinstance(recorder, Scrubjay):
        exported = recorder.export(folder, "raw", folder / "raw")
        return "yes" if _sha256(exported) == expected else "NO"
    if recording.kept is None:
        return "-"
    # Script adds lines of its own and asciinema writes JSON: of those it is only known that nothing is missing.
    kept_bytes = recording.kept.stat().st_size
    if kept_bytes == size_bytes and _sha256(recording.kept) == expected:
        return "yes"
    return "whole" if kept_bytes > size_bytes else "NO"


def _check_noise(plan: Plan, report: Report, drain: Drain, scrubjay: Scrubjay) -> None:
    stream = write_noise(plan.folder / "noise.stream", plan.size_bytes // _NOISE_SHARE)
    capture = drain.capture(stream, plan.folder)
    folder = plan.folder / "run"
    folder.mkdir()
    recording = scrubjay.record(stream, folder)
    verdict = _compare(scrubjay, recording, folder, _sha256(capture), capture.stat().st_size)
    row = ("every byte value, invalid UTF-8, NULs", capture.stat().st_size / MB, verdict)
    report.tables.append(Table("exactness of what is no text", ("stream", "MB", "exact"), [row]))
    shutil.rmtree(folder)
    capture.unlink()
    stream.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
