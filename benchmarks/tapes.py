"""Recordings an agent would take hours for, made in seconds: written straight to a tape, sealed, indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

from benchmarks.streams import COLS, ROWS, SEED, log_lines, screen_frames
from scrubjay.ids import new_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod, read_pod, write_facts
from scrubjay.replay.indexer import Indexer, RowSink
from scrubjay.replay.keyframes import Keyframes, open_keyframes
from scrubjay.replay.workers import Workers
from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.seal import seal_ended_segments
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter

_WALL_US = 1_772_323_200_000_000  # 2026-03-01, as the log lines say
_READ_BYTES = 4096  # what a terminal hands over at once
_FLOOD_US = 50  # for each of these, which is 80 MB a second

Portion = tuple[int, bytes]
"""When something was shown, in microseconds since the beginning, and what."""


def drawn_frames() -> Iterator[Portion]:
    """The ``tui`` stream as an agent draws it: an update every 30 to 95 ms."""
    rng, at = Random(SEED), 0
    for frame in screen_frames(Random(SEED)):
        at += 30_000 + rng.getrandbits(16)
        yield at, frame.encode()


def printed_lines() -> Iterator[Portion]:
    """The ``log`` stream as a build prints it: up to 16 lines every few milliseconds, and now and then a pause."""
    rng, at, lines = Random(SEED), 0, log_lines(Random(SEED))
    while True:
        at += rng.getrandbits(15) + (rng.getrandbits(21) if not rng.getrandbits(6) else 0)
        some = [next(lines) for _ in range(1 + rng.getrandbits(4))]
        yield at, "".join(some).replace("\n", "\r\n").encode()


def flood(portions: Iterable[Portion]) -> Iterator[Portion]:
    """The same bytes as fast as a terminal takes them."""
    gathered, at = bytearray(), 0
    for _, data in portions:
        gathered += data
        while len(gathered) >= _READ_BYTES:
            at += _FLOOD_US
            yield at, bytes(gathered[:_READ_BYTES])
            del gathered[:_READ_BYTES]
    yield at + _FLOOD_US, bytes(gathered)


#: The two streams at the pace of life, by name.
PACED: dict[str, Callable[[], Iterator[Portion]]] = {"tui": drawn_frames, "log": printed_lines}


def up_to(size_bytes: int, portions: Iterable[Portion]) -> Iterator[Portion]:
    """As much of something endless."""
    left = size_bytes
    for at, data in portions:
        yield at, data
        left -= len(data)
        if left <= 0:
            return


def record(
    home: Home, name: str, portions: Iterable[Portion], *, cols: int = COLS, rows: int = ROWS
) -> tuple[Pod, int]:
    """A pod that has shown this and ended, its tape sealed, and how many bytes of output that were."""
    with home.changing():
        folder = home.make_folder(new_pod_id())
    tape, shown, at = folder.name, 0, 0
    watermark = WatermarkFile(Folder(str(folder)).create(WATERMARK), tape)
    writer = TapeWriter(Folder(str(folder / "tape")), tape, watermark=watermark)
    writer.append(Kind.HEAD, 0, encode_json(format=1, tape=tape, name=name, cols=cols, rows=rows, wall=_WALL_US))
    for at, data in portions:
        writer.append(Kind.OUTPUT, at, data)
        shown += len(data)
        if writer.half_full:
            writer.sync()
    writer.append(Kind.SEAL, at, encode_json(reason="exit"))
    writer.sync()
    writer.close()
    seal_ended_segments(folder / "tape", folder, tape, complete=True)
    write_facts(folder / "end.json", status=0, offset=writer.offset, wall=_WALL_US + at)
    write_facts(folder / "pod.json", id=tape, name=name, argv=["agent"], cols=cols, rows=rows, created=_WALL_US)
    pod = read_pod(folder)
    assert pod is not None
    return pod, shown


def make_keyframes(pod: Pod, workers: Workers, rows: RowSink | None = None, *, folder: Path | None = None) -> Keyframes:
    """Walk a pod's tape once, as the first who looks into it does; the keyframes, by default in the pod's folder."""
    keyframes = open_keyframes(folder or pod.folder, pod.tape(), workers.identity)
    Indexer(pod.tape(), workers, keyframes, rows).run()
    return keyframes
