"""The copy of a tape, made of its records as they arrive from elsewhere.

A copy is a tape like any other: same records at the same offsets, segments by the same rules, a watermark beside it.
Only where it is cut into segments may differ from the original. One writer per copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.errors import DiskFull, NotATape, TapeDiverged
from scrubjay.tape.anchor import Anchor
from scrubjay.tape.format import (
    SEGMENT_BYTES,
    Kind,
    chain_checksums,
    peek_record,
    skim_records,
    tape_salt,
)
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.recover import cut, find_end
from scrubjay.tape.segment import list_raw_files, list_segments
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import Sync, TapeWriter

if TYPE_CHECKING:
    from scrubjay.tape.watermark import Overwritable
    from scrubjay.tape.writer import WritableFolder

_LAST_WITHIN_BYTES = 64 << 10  # of the end, where the last record is looked for


@dataclass(frozen=True, slots=True)
class Surviving:
    """What is left of a copy whose writer has ended, in whatever way."""

    end: int  #: of the last whole record, from where it can go on
    synced: int  #: how much of that is known to be on the medium
    chain: int
    last_kind: int
    number: int  #: of the newest segment
    raw_segments: int
    turn: int  #: of the watermark

    @property
    def complete(self) -> bool:
        """Whether it has the tape's end."""
        return self.last_kind == Kind.SEAL


def survey(folder: Path, tape: str, anchor: Anchor) -> Surviving:
    """Find out what is left of a copy, without changing it and, where there is a watermark, without reading all of it.

    Where less is there than was synced, the copy goes on from what is there: the original still has the rest.
    """
    watermark = anchor.watermark
    turn = watermark.turn if watermark is not None else 0
    try:
        found = Tape(folder, tape)
    except NotATape:
        return Surviving(0, 0, 0, 0, 0, 0, turn)
    number, raw_segments = list_segments(folder)[-1].number, len(list_raw_files(folder))
    if watermark is None or found.end < watermark.offset:
        recovery = find_end(found, anchor)
        end = max(found.end, recovery.end) - recovery.lost_bytes
        synced = min(end, found.sealed_end)
        return Surviving(end, synced, recovery.chain, recovery.last_kind, number, raw_segments, turn)
    end, chain, last_kind = watermark.offset, watermark.chain, 0
    for run in found.runs(watermark.offset):
        if isinstance(run, Damage):
            break
        end, last_kind = run.end, run.last_kind
        chain = chain_checksums(chain, run.checksums)
    if end == watermark.offset:
        last_kind = _last_kind(found, end)
    return Surviving(end, watermark.offset, chain, last_kind, number, raw_segments, turn)


def _last_kind(tape: Tape, end: int) -> int:
    """The kind of the record that ends at ``end``, 0 if it is larger than an end of a tape ever is."""
    kind = 0
    if end:
        for run in tape.runs(tape.align(max(0, end - _LAST_WITHIN_BYTES)), stop=end):
            kind = 0 if isinstance(run, Damage) else run.last_kind
            if run.end >= end:
                break
    return kind


def prepare(folder: Path, left: Surviving) -> None:
    """Make what is ``left`` of a copy ready to be gone on with: cut it at its end, and sync it."""
    if left.number:
        cut(folder, left.end, synced=left.synced)


class Replica:
    """The one writer of a copy."""

    def __init__(
        self,
        tape: str,
        folder: WritableFolder,
        watermark: Overwritable,
        left: Surviving,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Go on after what is ``left`` and was prepared."""
        marks = WatermarkFile(watermark, tape, turn=left.turn)
        if left.turn or left.number:
            # The newest slot may be in memory only: it must not be lost together with the one that is written now.
            marks.sync()
            marks.put(left.end, left.chain)
        self.tape = tape
        self.last_kind = left.last_kind
        self._salt = tape_salt(tape)
        self._segment_bytes = segment_bytes
        self._segment_first = left.end
        self._writer = TapeWriter(
            folder,
            tape,
            watermark=marks,
            start=left.end,
            chain=left.chain,
            number=left.number,
            segment_bytes=segment_bytes,
        )

    @property
    def written(self) -> int:
        """The end of the last record that survives the death of this process."""
        return self._writer.written

    @property
    def synced(self) -> int:
        """The end of the last record that survives a power cut."""
        return self._writer.synced

    @property
    def unsynced_bytes(self) -> int:
        """What is held in memory until it is synced."""
        return self._writer.offset - self._writer.synced

    @property
    def complete(self) -> bool:
        """Whether it has the tape's end, synced."""
        return self.last_kind == Kind.SEAL and self.synced == self._writer.offset

    @property
    def segments_begun(self) -> int:
        """How many segment files were made."""
        return len(self._writer.segments)

    @property
    def sync_due(self) -> bool:
        """Whether there is something to sync and no sync is under way."""
        return self._writer.sync_due

    def append(self, offset: int, records: bytes) -> int:
        """Add whole records that stand at ``offset`` of the tape; return how far the copy is written.

        What it has already is skipped, and what does not follow is not taken. On DiskFull and OSError some of it may
        be taken; giving it again is right. TapeDiverged if these are not the records that follow.
        """
        self.flush()
        end = self._writer.offset
        if offset > end or offset + len(records) <= end:
            return self.written
        self._take(records[end - offset :])
        self.flush()
        return self.written

    def flush(self) -> None:
        """Write what a full or failing disk has left in memory."""
        try:
            self._writer.flush()
        except DiskFull:
            raise
        except OSError:
            self._writer.abandon()
            raise

    def begin_sync(self, *, anchor: bool) -> Sync:
        """Take what is written and not synced as one job; ``anchor`` syncs the watermark, too."""
        return self._writer.begin_sync(anchor=anchor)

    def finish_sync(self, sync: Sync) -> bool:
        """Account for a sync that ran; False if it failed. Then ``flush`` writes its records to a new segment."""
        return self._writer.finish_sync(sync)

    def close(self) -> None:
        """Give all files back. Sync first: closing promises nothing."""
        self._writer.close()

    def _take(self, records: bytes) -> None:
        offset = self._writer.offset
        size, kind, _, checksums = skim_records(records, offset=offset, salt=self._salt, stop=-1)
        if size < len(records):
            raise TapeDiverged(self.tape, offset + size, "no record of this tape")
        if self.last_kind == Kind.SEAL:
            raise TapeDiverged(self.tape, offset, "the tape has ended")
        position = 0
        while position < size:
            start, first = position, offset + position
            if first - self._segment_first >= self._segment_bytes:
                self._segment_first = first
            # As its own writer would: a segment that is full ends with the record that fills it.
            full = min(size, self._segment_first + self._segment_bytes - offset)
            position, count = _walk(records, start, full) if full < size else (size, len(checksums) // 4)
            self._writer.append_run(records[start:position], checksums[: 4 * count])
            checksums = checksums[4 * count :]
        self.last_kind = kind


def _walk(records: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the record that reaches ``stop`` ends, and how many records that are from ``start``."""
    position, count = start, 0
    while position < stop and (peeked := peek_record(records, position)) is not None:
        position, count = position + peeked[0], count + 1
    return position, count
