"""Read a tape from any offset or instant, whatever shape it is in.

Implements docs/tape-format.md, section 7. Reading never changes a tape; what cannot be read is
reported as Damage and skipped, and the rest stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from scrubjay.errors import NotATape
from scrubjay.tape.format import (
    RECORD_MAX_BYTES,
    BadRecord,
    decode_record,
    tape_salt,
)
from scrubjay.tape.record import Record
from scrubjay.tape.segment import (
    RawSegment,
    SealedSegment,
    Segment,
    SegmentFile,
    list_segments,
    open_segment,
)

_READ_BYTES = 1 << 20
# Where a record could begin: a length of at most 256 KiB, a kind below 64, a time below 2**56 µs.
_CANDIDATE = re.compile(rb"(?=..[\x00-\x04]\x00[\x01-\x3f].{7}\x00)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a tape that cannot be read, up to where reading goes on."""

    offset: int
    end: int
    why: str


class Tape:
    """A tape on disk, perhaps still being written."""

    def __init__(self, folder: Path, tape: str | None = None) -> None:
        """Open the tape in ``folder``; NotATape if there is none. ``tape`` is its id where it is known."""
        self.folder = folder
        try:
            segments = list_segments(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotATape(str(folder), "there is no such folder") from error
        if not segments:
            raise NotATape(str(folder), "it holds no segment file")
        self.id = tape if tape is not None else _read_tape_id(segments)
        self._salt = tape_salt(self.id)

    @property
    def end(self) -> int:
        """The offset after the last byte there is, complete record or not."""
        last = list_segments(self.folder)[-1]
        try:
            with closing(open_segment(last)) as segment:
                return segment.end
        except BadRecord:
            return last.first

    @property
    def stored_bytes(self) -> int:
        """What the tape's files take on disk."""
        return sum(file.path.stat().st_size for file in list_segments(self.folder))

    def records(self, offset: int = 0) -> Iterator[Record]:
        """Every readable record from ``offset``, which must be a record's, up to the end at this moment."""
        for item in self.scan(offset):
            if isinstance(item, Record):
                yield item

    def records_from(self, at: int) -> Iterator[Record]:
        """Every readable record not before ``at``, without reading what is before it."""
        for record in self.records(self.offset_at(at)):
            # After damage the offset may be a little early.
            if record.at >= at:
                yield record

    def offset_at(self, at: int) -> int:
        """The offset of the first record not before ``at``, or the end of the tape."""
        files = list_segments(self.folder)
        low, high = 0, len(files)
        while low < high:
            middle = (low + high) // 2
            first_at = self._first_at(files[middle])
            if first_at is not None and first_at < at:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return files[0].first
        try:
            with closing(open_segment(files[low - 1])) as segment:
                return segment.offset_at(at)
        except BadRecord:
            return files[low - 1].first

    def _first_at(self, file: SegmentFile) -> int | None:
        try:
            with closing(open_segment(file)) as segment:
                if isinstance(segment, SealedSegment):
                    return segment.index.frames[0].at
                data = segment.read(file.first, RECORD_MAX_BYTES)
            decoded = decode_record(data, 0, offset=file.first, salt=self._salt)
        except BadRecord:
            return None
        return None if decoded is None else decoded[1]

    def scan(self, offset: int = 0) -> Iterator[Record | Damage]:
        """Everything from ``offset`` in order: records, and Damage for what cannot be read.

        A tail that holds no further record is Damage too, the last item.
        """
        while (segment := self._open_at(offset)) is not None:
            if isinstance(segment, Damage):
                yield segment
                offset = segment.end
                continue
            before = offset
            with closing(segment):
                for item in self._scan_segment(segment, offset):
                    yield item
                    offset = item.end
            if segment.file.end is None and (offset == before or not self._goes_on(segment.file)):
                return

    def _open_at(self, offset: int) -> Segment | Damage | None:
        while True:
            files = list_segments(self.folder)
            holding = [file for file in files if file.end is None or file.end > offset]
            if not holding:
                return None
            file = holding[0]
            if file.first > offset:
                return Damage(offset, file.first, "missing: its segment is not there")
            try:
                segment = open_segment(file)
            except FileNotFoundError:
                continue  # sealed between the listing and the opening; the sealed file is there now
            except BadRecord as error:
                if file.end is None:
                    return Damage(offset, self._sealed_end(file), str(error)) if offset == file.first else None
                return Damage(offset, file.end, str(error))
            return segment

    def _sealed_end(self, file: SegmentFile) -> int:
        # The index is unreadable, so nobody knows where the segment ended; its file's size says it was not empty.
        return file.first + max(1, file.path.stat().st_size)

    def _goes_on(self, file: SegmentFile) -> bool:
        return list_segments(self.folder)[-1].number > file.number

    def _scan_segment(self, segment: Segment, offset: int) -> Iterator[Record | Damage]:
        if isinstance(segment, RawSegment) and segment.header_fault and offset == segment.file.first:
            yield Damage(offset, offset, segment.header_fault)
        base, data = offset, b""
        while True:
            try:
                decoded = decode_record(data, offset - base, offset=offset, salt=self._salt)
                if decoded is None and base + len(data) < segment.end:
                    fresh = segment.read(offset, _READ_BYTES)
                    decoded = decode_record(fresh, 0, offset=offset, salt=self._salt)
                    base, data = offset, fresh
            except BadRecord as error:
                end = self._next_record(segment, offset)
                yield Damage(offset, end, str(error))
                base, data, offset = end, b"", end
                continue
            if decoded is None:
                break
            record = Record(offset, *decoded)
            yield record
            offset = record.end
        end = segment.end if segment.file.end is None else segment.file.end
        if offset < end:
            yield Damage(offset, end, f"an incomplete record at {offset}")

    def _next_record(self, segment: Segment, offset: int) -> int:
        """Where the next readable record begins, or the end of the segment's part of the tape."""
        end = segment.end if segment.file.end is None else segment.file.end
        if isinstance(segment, SealedSegment):
            # A frame is verified as a whole, so the next one is the next place to try.
            return min(segment.frame_end(segment.frame_at(offset)), end)
        start = offset + 1
        while start < end:
            data = segment.read(start, _READ_BYTES + RECORD_MAX_BYTES)
            for match in _CANDIDATE.finditer(data):
                position = match.start()
                if position >= _READ_BYTES:
                    break
                try:
                    if decode_record(data, position, offset=start + position, salt=self._salt) is not None:
                        return start + position
                except BadRecord:
                    continue
            if len(data) < _READ_BYTES:
                break
            start += _READ_BYTES
        return end


def _read_tape_id(files: list[SegmentFile]) -> str:
    for file in files:
        try:
            with closing(open_segment(file)) as segment:
                if segment.tape is not None:
                    return segment.tape
        except BadRecord:
            continue
    first = files[0].path
    raise NotATape(str(first), "no segment has a readable header")
