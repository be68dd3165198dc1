"""Stored size: a sealed tape against the same session as asciicast v2 under ``zstd -3``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.plan import SCRUBJAY, Plan
from benchmarks.recorders import Scrubjay, finish_sealing
from benchmarks.report import Report, Table, Target
from benchmarks.streams import STREAMS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RATIO_LIMIT = 1.0
_CORPUS = Path(__file__).parent / "corpus"
_COLUMNS = ("session", "cast kB", "zstd -3 kB", "tape kB", "ratio", "whole pod kB", "ratio ")


def measure(plan: Plan) -> Report:
    """Compare sizes for both streams and for recordings of real agents."""
    report = Report("storage")
    rows: list[tuple[str | float, ...]] = []
    scrubjay = Scrubjay(plan.environ)
    for name, write in STREAMS.items():
        stream = write(plan.stream(name), plan.size_bytes)
        folder = plan.folder / "run"
        folder.mkdir()
        scrubjay.record(stream, folder)
        cast = scrubjay.export(folder, "asciicast-v2", folder / "export.cast")
        rows.append(_compare(name, cast, folder / "home"))
        shutil.rmtree(folder)
    for packed in sorted(_CORPUS.glob("*.cast.zst")):
        folder = plan.folder / "run"
        folder.mkdir()
        cast = folder / packed.stem
        cast.write_bytes(zstd.decompress(packed.read_bytes()))
        argv = [str(SCRUBJAY), "--data", str(folder / "home"), "import", str(cast)]
        subprocess.run(argv, env=dict(plan.environ), check=True, capture_output=True)
        rows.append(_compare(cast.stem, cast, folder / "home"))
        shutil.rmtree(folder)
    note = "whole pod: with its facts, watermark and seals, which an asciicast does not have"
    report.tables.append(Table("stored size, sealed", _COLUMNS, rows, (note,)))
    for row in rows:
        report.targets.append(Target(f"stored size of {row[0]}", float(row[4]), RATIO_LIMIT, "times zstd -3"))
    return report


def _compare(name: str, cast: Path, home: Path) -> tuple[str | float, ...]:
    data = cast.read_bytes()
    packed = len(zstd.compress(data, level=3))
    (pod,) = (home / "pods").iterdir()
    finish_sealing(pod)
    tape, whole = _stored_bytes(pod / "tape"), _stored_bytes(pod)
    return name, len(data) / 1e3, packed / 1e3, tape / 1e3, tape / packed, whole / 1e3, whole / packed


def _stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
