"""How long it takes to see any instant: by seek, from the start, and in asciinema-player, by the recording's length."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.family import one_core, spent_cpu_s
from benchmarks.plan import MB, SCRUBJAY, Plan
from benchmarks.player import NoPlayer, Player, open_player
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from benchmarks.streams import COLS, ROWS, SEED
from benchmarks.tapes import PACED, make_keyframes, record, up_to
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.replay.replay import Replay
from scrubjay.replay.workers import Workers, WorkerTerminal
from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Damage, Tape

P99_LIMIT_MS = 10.0
LENGTH_LIMIT = 1.5  # how much longer a seek may take in the longest recording than in the shortest
PLAIN_LIMIT = 100.0  # how much longer the player should take in a plain recording of PLAYED_MB
SEGMENTED_LIMIT = 1.0  # and how much of its time in a segmented one we may take

SIZES_MB = {"tui": (1, 10, 50, 100, 1000), "log": (1, 10, 50, 100)}
PLAYED_MB = 50  # the player keeps a plain recording in memory
SEEKS = 600
_BLOCK = 50  # seeks in one recording before the next
_PLAYER_SEEKS = 25
_FED_MB = 250  # about so much is fed from the start of each recording, in more samples of short ones
_PORTION_BYTES, _FORGET_BYTES = 64 << 10, 16 << 20

_COLUMNS = (
    *("recording", "hours", "keyframes", "open ms", "p50 ms", "p99 ms", "worst"),
    *("with text p50", "p99 ms ", "CPU p99", "from start ms", "to p50"),
)
_PLAYER_COLUMNS = (
    *("recording", "as", "MB", "open ms", "promise ms", "drawn ms", "worst"),
    *("ours ms", "with text", "ratio", "with text ", "same text"),
)


@dataclass(frozen=True, slots=True)
class _Sought:
    """What one seek took."""

    ms: float
    text_ms: float  #: until the screen's text was read, too
    text: str


@dataclass(slots=True)
class _Recording:
    """A recording that is sought in, and how long that took."""

    name: str
    size_mb: int
    pod: Pod
    replay: Replay
    keyframes: int
    open_ms: float
    seek_ms: list[float] = field(default_factory=list[float])
    text_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])
    from_start_ms: list[float] = field(default_factory=list[float])

    def __str__(self) -> str:
        return f"{self.name} {self.size_mb} MB"


def measure(plan: Plan) -> Report:
    """Make the recordings, seek in all of them in turns, and let the player do the same."""
    report = Report("seek")
    home = Home(plan.folder / "seek")
    with Workers() as workers:
        recordings = [
            _make(home, name, size_mb, workers)
            for name, sizes_mb in SIZES_MB.items()
            for size_mb in sizes_mb
            if size_mb * MB <= plan.longest_bytes
        ]
        with one_core(*workers.pids):
            _seek_everywhere(recordings, workers)
        for recording in recordings:
            _feed_from_start(recording, workers)
        report.tables.append(_seek_table(recordings))
        report.targets += _seek_targets(recordings)
        _compare_with_player(plan, report, home, [one for one in recordings if one.size_mb <= PLAYED_MB], workers)
    return report


def _make(home: Home, name: str, size_mb: int, workers: Workers) -> _Recording:
    pod, _ = record(home, f"{name}-{size_mb}", up_to(size_mb * MB, PACED[name]()))
    keyframes = make_keyframes(pod, workers)
    began = time.perf_counter()
    replay = Replay(pod.tape(), keyframes, workers)
    replay.seek(replay.duration // 2)
    open_ms = (time.perf_counter() - began) * 1e3
    return _Recording(name, size_mb, pod, replay, len(keyframes.offsets()), open_ms)


def _seek_everywhere(recordings: Sequence[_Recording], workers: Workers) -> None:
    """Seek in turns, so that what disturbs one recording disturbs all; the first turn is not counted."""
    rng = Random(SEED)
    for turn in range(1 + SEEKS // _BLOCK):
        for recording in recordings:
            for _ in range(_BLOCK):
                cpu_s = _cpu_s(workers)
                sought = _seek(recording.replay, rng.randrange(recording.replay.duration))
                if turn:
                    recording.seek_ms.append(sought.ms)
                    recording.text_ms.append(sought.text_ms)
                    recording.cpu_ms.append((_cpu_s(workers) - cpu_s) * 1e3)


def _seek(replay: Replay, at: int) -> _Sought:
    began = time.perf_counter()
    frame = replay.seek(at)
    sought = time.perf_counter()
    text = frame.picture.text
    return _Sought((sought - began) * 1e3, (time.perf_counter() - began) * 1e3, text)


def _seek_all(replay: Replay, instants: Sequence[int], workers: Workers) -> list[_Sought]:
    with one_core(*workers.pids):
        return [_seek(replay, at) for at in instants]


def _cpu_s(workers: Workers) -> float:
    """Of this process and its screen workers, up to now."""
    return time.process_time() + sum(map(spent_cpu_s, workers.pids))


def _feed_from_start(recording: _Recording, workers: Workers) -> None:
    """Show instants at even distances by feeding everything before them."""
    count = max(1, min(20, 2 * _FED_MB // recording.size_mb))
    for number in range(count):
        at = recording.replay.duration * (2 * number + 1) // (2 * count)
        began = time.perf_counter()
        _show_from_start(recording.replay.tape, at, workers)
        recording.from_start_ms.append((time.perf_counter() - began) * 1e3)


def _show_from_start(tape: Tape, until: int, workers: Workers) -> bytes:
    terminal = WorkerTerminal(workers, COLS, ROWS)
    terminal.restore(terminal.snapshot(), offset=0, scrollback=False)  # as a seek does: it is three times as fast
    shown: list[bytes] = []
    gathered = kept = 0
    for item in tape.skim():
        assert not isinstance(item, Damage)
        kind, at, payload, end = item
        if at > until:
            break
        if kind == Kind.OUTPUT:
            shown.append(payload)
            gathered += len(payload)
        if gathered >= _PORTION_BYTES:
            terminal.feed(b"".join(shown), offset=end)
            shown.clear()
            gathered = 0
        if end - kept >= _FORGET_BYTES:
            # Otherwise it would keep everything it was fed, to repeat it should the engine crash.
            terminal.checkpoint(terminal.snapshot(), offset=end)
            kept = end
    terminal.feed(b"".join(shown), offset=0)
    snapshot = terminal.snapshot()
    terminal.close()
    return snapshot


def _seek_table(recordings: Sequence[_Recording]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            str(recording),
            recording.replay.duration / 3.6e9,
            recording.keyframes,
            recording.open_ms,
            *(percentile(recording.seek_ms, percent) for percent in (50, 99, 100)),
            *(percentile(recording.text_ms, percent) for percent in (50, 99)),
            percentile(recording.cpu_ms, 99),
            middle(recording.from_start_ms),
            middle(recording.from_start_ms) / percentile(recording.seek_ms, 50),
        )
        for recording in recordings
    ]
    notes = (
        "open: until the first frame is there, with a screen worker at hand; with text: until its text is read, too",
        "CPU: of all processes, with text; others on the machine disturb it less than the time that passes",
        "from start: everything before an instant fed to the same engine, median over instants at even distances",
    )
    return Table(
        f"seek to random instants, {SEEKS} in each recording, all processes on one core", _COLUMNS, rows, notes
    )


def _seek_targets(recordings: Sequence[_Recording]) -> Iterator[Target]:
    for recording in recordings:
        yield Target(f"seek in {recording}, p99", percentile(recording.seek_ms, 99), P99_LIMIT_MS, "ms")
    for name in SIZES_MB:
        same = [recording for recording in recordings if recording.name == name]
        if len(same) < 2:
            continue
        for percent in (50, 99):
            ratio = percentile(same[-1].seek_ms, percent) / percentile(same[0].seek_ms, percent)
            what = f"seek in {same[-1]} to that in {same[0]}, p{percent}"
            yield Target(what, ratio, LENGTH_LIMIT, "times")


def _compare_with_player(
    plan: Plan, report: Report, home: Home, recordings: Sequence[_Recording], workers: Workers
) -> None:
    folder = plan.folder / "web"
    folder.mkdir()
    rows: list[tuple[Cell, ...]] = []
    name = "asciinema-player"
    try:
        with open_player(folder) as player:
            name = player.name
            for recording in recordings:
                rows += _play(plan, report, home, player, recording, workers)
    except NoPlayer as error:
        rows.append(_no_player(str(error)))
    notes = (
        "promise: until that of seek is kept, drawn: until the screen is there, medians",
        "ours: on one core, of the same instants just before and after; ratio: of drawn to ours, and to ours with text",
        "same text: on how many of its screens the letters and digits are ours",
    )
    title = f"seek in {name} in headless Chromium, {_PLAYER_SEEKS} random instants of the same recordings"
    report.tables.append(Table(title, _PLAYER_COLUMNS, rows, notes))


def _play(
    plan: Plan, report: Report, home: Home, player: Player, recording: _Recording, workers: Workers
) -> Iterator[tuple[Cell, ...]]:
    rng = Random(SEED)
    instants = [rng.randrange(recording.replay.duration) for _ in range(_PLAYER_SEEKS)]
    for form in ("plain", "segmented"):
        segmented = form == "segmented"
        try:
            path = _export(plan, home, recording.pod, segmented=segmented)
            before = _seek_all(recording.replay, instants, workers)
            played = player.seek(path.relative_to(plan.folder / "web").as_posix(), instants, segmented=segmented)
            after = _seek_all(recording.replay, instants, workers)
        except NoPlayer as error:
            yield _no_player(f"{recording}, {form}: {error}")
            continue
        size_bytes = sum(file.stat().st_size for file in (path.parent.iterdir() if segmented else [path]))
        theirs, ours = middle(played.drawn_ms), middle([sought.ms for sought in before + after])
        with_text = middle([sought.text_ms for sought in before + after])
        yield (
            *(str(recording), form, size_bytes / MB, played.open_ms),
            *(middle(played.kept_ms), theirs, max(played.drawn_ms)),
            *(ours, with_text, theirs / ours, theirs / with_text),
            _count_same(played.texts, [sought.text for sought in after]),
        )
        if segmented:
            what = f"seek in {recording} to that of the player in our segmented export, median"
            report.targets.append(Target(what, ours / theirs, SEGMENTED_LIMIT, "times"))
        elif recording.size_mb == PLAYED_MB:
            what = f"the player's seek in {recording} as a plain recording to ours, median"
            report.targets.append(Target(what, theirs / ours, PLAIN_LIMIT, "times", at_least=True))


def _export(plan: Plan, home: Home, pod: Pod, *, segmented: bool) -> Path:
    path = plan.folder / "web" / (f"{pod.name}" if segmented else f"{pod.name}.cast")
    format_ = "segmented" if segmented else "asciicast-v2"
    argv = [str(SCRUBJAY), "--data", str(home.path), "export", pod.name, "--format", format_, "-o", str(path)]
    done = subprocess.run(argv, env=dict(plan.environ), capture_output=True)
    if done.returncode != 0:
        raise NoPlayer(f"cannot be exported: {done.stderr.decode(errors='replace').strip()[-100:]}")
    return path / "index.json" if segmented else path


def _count_same(theirs: Sequence[str], ours: Sequence[str]) -> str:
    same = sum(_letters(one) == _letters(other) for one, other in zip(theirs, ours, strict=True))
    return f"{same} of {len(ours)}"


def _letters(text: str) -> str:
    # The rest is drawn as pictures, or as wide as this or that version of Unicode has it.
    return re.sub(r"[^A-Za-z0-9]+", " ", text).strip()


def _no_player(why: str) -> tuple[Cell, ...]:
    return (why, *[None] * (len(_PLAYER_COLUMNS) - 1))
