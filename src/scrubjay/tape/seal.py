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
from zlib import crc32

from scrubjay.tape.anchor import add_seal, read_anchor
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import (
    SEALED_MAGIC,
    SEGMENT_HEADER_BYTES,
    BadRecord,
    encode_segment_header,
    peek_record,
    skim_records,
    tape_salt,
)
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
    with _only_sealer(folder, patient=complete) as alone:
        if not alone:
            return Sealed(0, 0, 0, "another process is sealing this tape")
        return _seal(folder, anchor_folder, tape_id, complete=complete, progress=progress)


def _seal(
    folder: Path, anchor_folder: Path, tape_id: str, *, complete: bool, progress: Callable[[int], None]
) -> Sealed:
    watermark = read_anchor(anchor_folder, tape_id).watermark
    synced = watermark.offset if watermark is not None else 0
    previous, segments, raw_bytes, sealed_bytes = bytes(32), 0, 0, 0
    for file in list_segments(folder):
        raw_path = file.path.with_suffix(".raw")
        try:
            if file.sealed:
                previous = _sealed_digest(file)
                if raw_path.exists():  # sealed before, but the sealer died before it was done with it
                    add_seal(anchor_folder, file.number, previous)
                    raw_path.unlink()
                continue
            # Unsynced segments may yet be written again elsewhere, so only what is below the watermark is final.
            if not complete and (file.end is None or file.end > synced):
                break
            records = _read_whole(file, tape_id)
        except BadRecord as error:
            return Sealed(segments, raw_bytes, sealed_bytes, str(error))
        if not records:
            break
        size, previous = _seal_segment(file, tape_id, records, previous)
        add_seal(anchor_folder, file.number, previous)
        stored = raw_path.stat().st_size
        raw_path.unlink()
        segments, raw_bytes, sealed_bytes = segments + 1, raw_bytes + stored, sealed_bytes + size
        progress(stored)
    return Sealed(segments, raw_bytes, sealed_bytes)


def _sealed_digest(file: SegmentFile) -> bytes:
    with closing(SealedSegment(file)) as segment:
        if segment.fault is not None:
            raise BadRecord(f"damaged at offset {file.first}: {segment.fault}")
        return segment.index.digest


def _read_whole(file: SegmentFile, tape_id: str) -> bytes:
    """All records of a raw segment; BadRecord if any is damaged or missing, for a seal says that they are right."""
    with closing(RawSegment(file)) as raw:
        if raw.fault is not None:
            raise BadRecord(f"damaged at offset {file.first}: {raw.fault}")
        records = raw.read(file.first, raw.end - file.first)
    good, *_ = skim_records(records, offset=file.first, salt=tape_salt(tape_id), stop=-1)
    if good < len(records):
        raise BadRecord(f"damaged at offset {file.first + good}")
    if file.end is not None and file.first + good < file.end:
        raise BadRecord(f"missing from offset {file.first + good}")
    return records


def _seal_segment(file: SegmentFile, tape_id: str, records: bytes, previous: bytes) -> tuple[int, bytes]:
    """Write the sealed file beside the raw one; return its size and digest."""
    frames: list[Frame] = []
    packed: list[bytes] = []
    position = SEGMENT_HEADER_BYTES
    for start, end, at in _frame_cuts(records):
        frame = compress_frame(records[start:end])
        frames.append(Frame(file.first + start, at, position, crc32(frame)))
        packed.append(frame)
        position += len(frame)
    digest = chain_digest(previous, records)
    index = encode_index(frames, end=file.first + len(records), position=position, previous=previous, digest=digest)
    header = encode_segment_header(tape_id, file.number, file.first, magic=SEALED_MAGIC)
    _replace(file.path.with_suffix(".sealed"), [header, *packed, index])
    return position + len(index), digest


def _frame_cuts(records: bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and first at of each frame: as many whole records as fit."""
    start = first_at = position = 0
    while (peeked := peek_record(records, position)) is not None:
        size, at = peeked
        if position + size - start > FRAME_BYTES:
            yield start, position, first_at
            start = position
        if position == start:
            first_at = at
        position += size
    yield start, position, first_at


def _replace(path: Path, parts: list[bytes]) -> None:
    temporary = path.with_suffix(".sealing")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink()  # most likely the disk is full, and this would keep it so
        raise
    os.replace(temporary, path)
    Folder(str(path.parent)).sync()


@contextmanager
def _only_sealer(folder: Path, *, patient: bool) -> Generator[bool]:
    """Whether this process is the only one that seals the tape; a ``patient`` one waits until it is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            # The last sealer of a tape must not give up: the one before does not know that the tape has ended.
            fcntl.flock(fd, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)
