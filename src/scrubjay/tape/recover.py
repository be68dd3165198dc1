"""Go on with a tape whose writer died.

Implements docs/tape-format.md, section 9. Every complete record is kept, the torn tail is cut, and
the tape says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scrubjay.tape.anchor import WATERMARK, Anchor
from scrubjay.tape.disk import File, Folder
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, Kind, chain_checksums
from scrubjay.tape.payload import encode_json
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.segment import list_raw_files, list_segments
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where a tape goes on and what is lost."""

    end: int  #: where the next record goes: never below the watermark, for others may hold what was there
    chain: int
    last_at: int
    last_kind: int
    lost_bytes: int  #: after the last record that can be read


def find_end(tape: Tape, anchor: Anchor) -> Recovery:
    """Where the writer left off. Damage below the watermark is passed over; above it, it is the torn tail."""
    synced = max(anchor.watermark.offset if anchor.watermark is not None else 0, tape.sealed_end)
    end = chain = last_at = last_kind = 0
    for item in tape.runs():
        if isinstance(item, Damage):
            if item.offset >= synced:
                break
            continue
        end, last_at, last_kind = item.end, item.last_at, item.last_kind
        chain = chain_checksums(chain, item.checksums)
    return Recovery(max(end, synced), chain, last_at, last_kind, max(tape.end, synced) - end)


def reopen(tape: Tape, anchor: Anchor, anchor_folder: Path) -> tuple[TapeWriter, Recovery]:
    """Cut the torn tail and open a writer after the last complete record. The caller is the only writer."""
    found = find_end(tape, anchor)
    number = list_segments(tape.folder)[-1].number
    cut(tape.folder, found.end, synced=anchor.watermark.offset if anchor.watermark is not None else 0)
    turn = anchor.watermark.turn if anchor.watermark is not None else 0
    path = str(anchor_folder / WATERMARK)
    marks = WatermarkFile(File(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)), tape.id, turn=turn)
    # Before the other slot is written: the newest one may be no further than the memory of a killed writer's machine.
    marks.sync()
    Folder(str(anchor_folder)).sync()
    writer = TapeWriter(
        Folder(str(tape.folder)),
        tape.id,
        watermark=marks,
        start=found.end,
        chain=found.chain,
        number=number,
    )
    return writer, found


def cut(folder: Path, end: int, *, synced: int) -> None:
    """Remove what raw segments hold from ``end`` on, also where a newer one has replaced it.

    It is on the medium when this returns: should the next writer's first segment be lost in a power cut, what
    it would have replaced must not come back between its records. So is what they hold after ``synced``: the
    next writer counts it as synced, and of a writer that was killed it may be in memory only.
    """
    for first, path in list_raw_files(folder):
        size = SEGMENT_HEADER_BYTES + end - first
        with suppress(FileNotFoundError):  # sealed since the listing, so it was before the end
            if first >= end and first > 0:
                path.unlink()
                continue
            stored = path.stat().st_size
            if stored > size:
                os.truncate(path, size)
            if stored > size or first + stored - SEGMENT_HEADER_BYTES > synced:
                _sync(path)
    Folder(str(folder)).sync()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def close_lost_tape(tape: Tape, anchor: Anchor, anchor_folder: Path) -> Recovery:
    """End a tape whose writer died before it could: say what is missing, then write its end."""
    writer, found = reopen(tape, anchor, anchor_folder)
    try:
        if found.last_kind != Kind.SEAL:
            gap = encode_json(reason="the recorder died", bytes=found.lost_bytes, **{"from": found.last_at})
            writer.append(Kind.GAP, found.last_at, gap)
            writer.append(Kind.SEAL, found.last_at, encode_json(reason="recovered"))
            writer.sync()
    finally:
        writer.close()
    return found
