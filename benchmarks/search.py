"""How long a search takes among a million rows, beside ripgrep over asciicasts of the same rows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from benchmarks.streams import COLS, ROWS, SEED, log_lines
from scrubjay.query import mark, parse_query
from scrubjay.replay.rows import Row
from scrubjay.replay.search import INDEX_NAME, SearchIndex

P99_LIMIT_MS = 50.0
TAPES, TAPE_ROWS = 10, 100_000
_QUERIES = 200  # of each kind
_RIPGREPPED = 3  # of these
_LIMIT = 20
_BATCH_ROWS = 50_000
_LINE_US, _LINE_BYTES = 20_000, 174
_TAPE_US = TAPE_ROWS * _LINE_US
_WALL_US = 1_772_323_200_000_000
_STAGGER_US = 300_000_000  # one pod after the other, most of their time side by side

_COLUMNS = ("search for", "like", "p50 ms", "p99 ms", "worst", "CPU p99", "hits", "rg ms", "to p50")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FREQUENT = ("request", "worker", "info", "get", "api", "error", "warn", "200", "post")


@dataclass(slots=True)
class _Kind:
    """One kind of search."""

    name: str
    make: Callable[[Random], _Search]
    searches: list[_Search] = field(default_factory=list["_Search"])
    took_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])
    hits: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class _Search:
    raw: str
    tape: int | None = None
    window: tuple[int, int] | None = None  #: of the wall clock


def measure(plan: Plan) -> Report:
    """Fill an index, ask it everything in turns, and ripgrep a few of the same questions."""
    report = Report("search")
    folder = plan.folder / "search"
    folder.mkdir()
    lines = list(islice(log_lines(Random(SEED)), TAPES * TAPE_ROWS))
    texts = [_COLOURS.sub("", line).rstrip("\n") for line in lines]
    casts = [_write_cast(folder, tape, lines[tape * TAPE_ROWS : (tape + 1) * TAPE_ROWS]) for tape in range(TAPES)]
    with SearchIndex(folder / INDEX_NAME) as index:
        cpu_s = _fill(index, texts)
        kinds = _kinds(texts)
        _search_all(index, kinds)
    stored = (folder / INDEX_NAME).stat().st_size / len(texts)
    rows = [_row(plan, kind, casts) for kind in kinds]
    took_ms = [took for kind in kinds for took in kind.took_ms]
    cpu_ms = [cpu for kind in kinds for cpu in kind.cpu_ms]
    overall = [percentile(took_ms, percent) for percent in (50, 99, 100)]
    rows.append(("all of them", None, *overall, percentile(cpu_ms, 99), None, None, None))
    length = sum(map(len, texts)) / len(texts)
    notes = (
        f"{len(texts):,} rows on {TAPES} tapes, the newest {_LIMIT} hits with their texts and marks",
        f"to take in a row of {length:.0f} characters: {cpu_s / len(texts) * 1e6:.1f} µs of CPU, {stored:.0f} bytes",
        "rg: all matching lines of the asciicasts, an event for each row, from the page cache; it knows no times",
    )
    report.tables.append(Table(f"search, {_QUERIES} of each kind", _COLUMNS, rows, notes))
    for kind in kinds:
        report.targets.append(Target(f"search for {kind.name}, p99", percentile(kind.took_ms, 99), P99_LIMIT_MS, "ms"))
    report.targets.append(Target("search, all kinds, p99", percentile(took_ms, 99), P99_LIMIT_MS, "ms"))
    shutil.rmtree(folder)
    return report


def _kinds(texts: Sequence[str]) -> list[_Kind]:
    words = sorted({word for text in texts[:2000] for word in text.split()[8:]})

    def ago(rng: Random) -> tuple[int, int]:
        start = _WALL_US + rng.randrange(_TAPE_US + (TAPES - 1) * _STAGGER_US)
        return start, start + 60_000_000

    def neighbours(rng: Random) -> str:
        found = rng.choice(texts).split()[8:]
        start = rng.randrange(max(1, len(found) - 1))
        return f'"{" ".join(found[start : start + 2])}"'

    def tape(rng: Random) -> int:
        return rng.randrange(TAPES)

    return [
        _Kind("a word in every other row", lambda rng: _Search(rng.choice(_FREQUENT))),
        _Kind("a word in some rows", lambda rng: _Search(rng.choice(words))),
        _Kind("a word in one row", lambda rng: _Search(rng.choice(texts).split()[3].removeprefix("request="))),
        _Kind("a word in no row", lambda rng: _Search(f"{rng.getrandbits(64):016x}")),
        _Kind("two words", lambda rng: _Search(" ".join(rng.sample(words, 2)))),
        _Kind("three words", lambda rng: _Search(" ".join(rng.sample(words, 3)))),
        _Kind("a phrase that was shown", lambda rng: _Search(neighbours(rng))),
        _Kind("any two words as a phrase", lambda rng: _Search(f'"{" ".join(rng.sample(words, 2))}"')),
        _Kind("a prefix", lambda rng: _Search(rng.choice(words)[: rng.randint(2, 4)] + "*")),
        _Kind("a prefix and a word", lambda rng: _Search(f"{rng.choice(words)[:3]}* {rng.choice(words)}")),
        _Kind("a path", lambda rng: _Search(f"/api/v1/items/{rng.getrandbits(17)}")),
        _Kind("a word, without another", lambda rng: _Search("{} -{}".format(*rng.sample(words, 2)))),
        _Kind("a word in one pod", lambda rng: _Search(rng.choice(words), tape(rng))),
        _Kind("two words in one minute", lambda rng: _Search(" ".join(rng.sample(words, 2)), None, ago(rng))),
        _Kind("a word in one pod and minute", lambda rng: _Search(rng.choice(words), tape(rng), ago(rng))),
    ]


def _write_cast(folder: Path, tape: int, lines: Sequence[str]) -> Path:
    path = folder / f"{_name(tape)}.cast"
    with path.open("w") as file:
        file.write(json.dumps({"version": 2, "width": COLS, "height": ROWS}) + "\n")
        file.writelines(
            json.dumps([number * _LINE_US / 1e6, "o", line.replace("\n", "\r\n")], ensure_ascii=False) + "\n"
            for number, line in enumerate(lines)
        )
    return path


def _fill(index: SearchIndex, texts: Sequence[str]) -> float:
    """Take the rows in; the CPU time that took."""
    cpu_s = 0.0
    for tape in range(TAPES):
        index.register(_name(tape), _WALL_US + tape * _STAGGER_US)
        for start in range(0, TAPE_ROWS, _BATCH_ROWS):
            numbers = range(start, start + _BATCH_ROWS)
            rows = [
                Row(number * _LINE_US, number * _LINE_BYTES, -1, "shown", texts[tape * TAPE_ROWS + number])
                for number in numbers
            ]
            began = time.process_time()
            index.add(_name(tape), rows)
            index.finish_batch(_name(tape), numbers.stop, b"")
            cpu_s += time.process_time() - began
    return cpu_s


def _search_all(index: SearchIndex, kinds: Sequence[_Kind]) -> None:
    """Search in turns, so that what disturbs one kind disturbs all."""
    rng = Random(SEED)
    for _ in range(_QUERIES):
        for kind in kinds:
            search = kind.make(rng)
            began, cpu_s = time.perf_counter(), time.process_time()
            query = parse_query(search.raw)
            since_us, until_us = search.window or (None, None)
            tapes = None if search.tape is None else [_name(search.tape)]
            hits = index.search(query, tapes=tapes, since_us=since_us, until_us=until_us, limit=_LIMIT)
            for hit in hits:
                mark(hit.text, query)
            kind.cpu_ms.append((time.process_time() - cpu_s) * 1e3)
            kind.took_ms.append((time.perf_counter() - began) * 1e3)
            kind.searches.append(search)
            kind.hits.append(len(hits))


def _row(plan: Plan, kind: _Kind, casts: Sequence[Path]) -> tuple[Cell, ...]:
    fastest = percentile(kind.took_ms, 50)
    theirs = [_ripgrep(plan, search, casts) for search in kind.searches[:_RIPGREPPED]]
    rg_ms = middle([took for took in theirs if took is not None])
    return (
        *(kind.name, kind.searches[0].raw),
        *(percentile(kind.took_ms, percent) for percent in (50, 99, 100)),
        percentile(kind.cpu_ms, 99),
        middle(kind.hits),
        *((rg_ms, rg_ms / fastest) if None not in theirs else (None, None)),
    )


def _ripgrep(plan: Plan, search: _Search, casts: Sequence[Path]) -> float | None:
    """How long ripgrep takes for the same; None if there is none or it cannot ask that."""
    program = shutil.which("rg")
    if program is None or search.window is not None:
        return None
    files = [str(cast) for cast in (casts if search.tape is None else [casts[search.tape]])]
    steps = [[program, "--no-filename", *step] for step in _steps(search.raw)]
    steps[0] += files
    began = time.perf_counter()
    running: list[subprocess.Popen[bytes]] = []
    for step in steps:
        source = running[-1].stdout if running else subprocess.DEVNULL
        output = subprocess.PIPE if len(running) + 1 < len(steps) else subprocess.DEVNULL
        running.append(subprocess.Popen(step, stdin=source, stdout=output, env=dict(plan.environ)))
    for process in running:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return (time.perf_counter() - began) * 1e3


def _steps(raw: str) -> Iterator[list[str]]:
    """What to give to one ripgrep after the other, each of which gets the lines of the one before."""
    query = parse_query(raw)
    for term in query.terms:
        yield ["-i", r"\b" + r"\W+".join(term.words) + ("" if term.prefix else r"\b")]
    for term in query.without:
        yield ["-i", "-v", r"\b" + r"\W+".join(term.words) + r"\b"]


def _name(tape: int) -> str:
    return f"pod-{tape}"
