"""Turn ended raw segments into sealed ones: compressed, indexed, chained, anchored.

Implements docs/tape-format.md, section 6. A crash at any point leaves the raw or the sealed file
whole; sealing again finishes the work.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scrubjay.tape.anchor import add_seal, read_anchor
from scrubjay.tape.format import SEALED_MAGIC, SEGMENT_HEADER_BYTES, encode_segment_header
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.sealed import FRAME_BYTES, Frame, chain_digest, compress_frame, encode_index
from scrubjay.tape.segment import RawSegment, SealedSegment, SegmentFile, list_segments


@dataclass(frozen=True, slots=True)
class Sealed:
    """What sealing did to one tape."""

    segments: int
    raw_bytes: int
    sealed_bytes: int
    left: str | None = None  #: why a segment that has ended was left raw


def seal_ended_segments(
    folder: Path,
    anchor_folder: Path,
    tape_id: str,
    *,
    complete: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> Sealed:
    """Seal every raw segment that has ended; the last one too if the tape is ``complete``."""
    with _only_sealer(folder) as alone:
        if not alone:
            return Sealed(0, 0, 0, "another process is sealing this tape")
        return _seal(folder, anchor_folder, tape_id, complete=complete, progress=progress)


def _seal(
    folder: Path, anchor_folder: Path, tape_id: str, *, complete: bool, progress: Callable[[int], None]
) -> Sealed:
    tape = Tape(folder, tape_id)
    watermark = read_anchor(anchor_folder, tape_id).watermark
    synced = watermark.offset if watermark is not None else 0
    previous, segments, raw_bytes, sealed_bytes = bytes(32), 0, 0, 0
    for file in list_segments(folder):
        raw_path = file.path.with_suffix(".raw")
        if file.sealed:
            with closing(SealedSegment(file)) as segment:
                previous = segment.index.digest
            if raw_path.exists():  # sealed before, but the sealer died before it was done with it
                add_seal(anchor_folder, file.number, previous)
                raw_path.unlink()
            continue
        # Unsynced segments may yet be written again elsewhere, so only what is below the watermark is final.
        if not complete if file.end is None else file.end > synced:
            break
        bad = next((item for item in _scan_file(tape, file) if isinstance(item, Damage)), None)
        if bad is not None:
            return Sealed(segments, raw_bytes, sealed_bytes, f"damaged at offset {bad.offset}: {bad.why}")
        size, previous = _seal_segment(tape, file, previous)
        add_seal(anchor_folder, file.number, previous)
        raw_bytes += raw_path.stat().st_size
        sealed_bytes += size
        segments += 1
        progress(raw_path.stat().st_size)
        raw_path.unlink()
    return Sealed(segments, raw_bytes, sealed_bytes)


def _scan_file(tape: Tape, file: SegmentFile) -> Iterator[object]:
    for item in tape.scan(file.first):
        if file.end is not None and item.offset >= file.end:
            return
        yield item


def _seal_segment(tape: Tape, file: SegmentFile, previous: bytes) -> tuple[int, bytes]:
    """Write the sealed file beside the raw one; return its size and digest."""
    with closing(RawSegment(file)) as raw:
        records = raw.read(file.first, raw.end - file.first)
    frames: list[Frame] = []
    packed: list[bytes] = []
    position = SEGMENT_HEADER_BYTES
    for offset, at, end in _frame_cuts(tape, file):
        frames.append(Frame(offset, at, position))
        packed.append(compress_frame(records[offset - file.first : end - file.first]))
        position += len(packed[-1])
    digest = chain_digest(previous, records)
    index = encode_index(frames, end=file.first + len(records), position=position, previous=previous, digest=digest)
    header = encode_segment_header(tape.id, file.number, file.first, magic=SEALED_MAGIC)
    _replace(file.path.with_suffix(".sealed"), [header, *packed, index])
    return position + len(index), digest


def _frame_cuts(tape: Tape, file: SegmentFile) -> Iterator[tuple[int, int, int]]:
    """Offset, first at and end of each frame: as many whole records as fit."""
    start = first_at = end = -1
    for item in tape.records(file.first):
        if file.end is not None and item.offset >= file.end:
            break
        if start >= 0 and item.end - start > FRAME_BYTES:
            yield start, first_at, end
            start = -1
        if start < 0:
            start, first_at = item.offset, item.at
        end = item.end
    if start >= 0:
        yield start, first_at, end


def _replace(path: Path, parts: list[bytes]) -> None:
    temporary = path.with_suffix(".sealing")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _only_sealer(folder: Path) -> Generator[bool]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)
