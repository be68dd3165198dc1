"""Read a tape from any offset or instant, whatever shape it is in.

Implements docs/tape-format.md, section 7. Reading never changes a tape; what cannot be read is
reported as Damage and skipped, and the rest stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from scrubjay.errors import NotATape
from scrubjay.tape.format import (
    RECORD_MAX_BYTES,
    BadRecord,
    Skimmed,
    decode_record,
    peek_record,
    skim_records,
    tape_salt,
)
from scrubjay.tape.record import Record
from scrubjay.tape.sealed import SealedIndex
from scrubjay.tape.segment import (
    RawSegment,
    SealedSegment,
    Segment,
    SegmentFile,
    list_segments,
    open_segment,
)

_READ_BYTES = 1 << 20
_MISSING = "missing: no segment holds it"
# Where a record could begin: a length of at most 256 KiB, a kind below 64, a time below 2**56 µs.
_CANDIDATE = re.compile(rb"(?=..[\x00-\x04]\x00[\x01-\x3f].{7}\x00)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a tape that cannot be read, up to where reading goes on."""

    offset: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """Records that follow one another and are all right, of which only the checksums are kept."""

    offset: int
    end: int
    first_at: int
    last_at: int
    last_kind: int
    checksums: bytes  #: four bytes of each record

    @property
    def count(self) -> int:
        """How many records they are."""
        return len(self.checksums) // 4


class _Readable(Protocol):
    @property
    def end(self) -> int: ...


_Item = TypeVar("_Item", bound=_Readable)
_Read = Callable[[bytes, int], Iterator[_Item]]  # what ``data`` begins with, the first byte of which is at an offset


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
        self._indices: dict[str, SealedIndex] = {}  # of sealed segments by name: seeking reads them again and again

    @property
    def end(self) -> int:
        """The offset after the last byte there is, complete record or not."""
        last = list_segments(self.folder)[-1]
        try:
            with closing(open_segment(last, salt=self._salt)) as segment:
                return segment.end
        except BadRecord:
            return last.first

    @property
    def sealed_end(self) -> int:
        """The offset before which the tape is sealed. Only what was synced is, so a bad record there is damage."""
        sealed = [file for file in list_segments(self.folder) if file.sealed]
        if not sealed:
            return 0
        try:
            with closing(SealedSegment(sealed[-1], salt=self._salt)) as segment:
                return segment.end
        except BadRecord:
            return sealed[-1].first + 1

    @property
    def stored_bytes(self) -> int:
        """What the tape's files take on disk."""
        total = 0
        for file in list_segments(self.folder):
            with suppress(FileNotFoundError):  # sealed since the listing
                total += file.path.stat().st_size
        return total

    def records(self, offset: int = 0) -> Iterator[Record]:
        """Every readable record from ``offset``, which must be a record's, up to the end at this moment."""
        end = self.end  # a tape that grows faster than it is read would have none otherwise
        for item in self.scan(offset):
            if item.offset >= end:
                return
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
            with closing(open_segment(files[low - 1], salt=self._salt)) as segment:
                return segment.offset_at(at) if isinstance(segment, SealedSegment) else self._raw_offset_at(segment, at)
        except BadRecord:
            return files[low - 1].first

    def align(self, offset: int) -> int:
        """The offset of a record near ``offset``, without reading what is before it."""
        segment = self._open_at(offset)
        if not isinstance(segment, RawSegment | SealedSegment):
            return offset if segment is None else segment.end
        with closing(segment):
            if isinstance(segment, SealedSegment):
                return segment.index.frames[segment.frame_at(offset)].offset
            return offset if offset == segment.file.first else self._next_record(segment, offset - 1)

    def _first_at(self, file: SegmentFile) -> int | None:
        try:
            with closing(open_segment(file, salt=self._salt)) as segment:
                if isinstance(segment, SealedSegment):
                    return segment.index.frames[0].at
                data = segment.read(file.first, RECORD_MAX_BYTES)
            decoded = decode_record(data, 0, offset=file.first, salt=self._salt)
        except BadRecord:
            return None
        return None if decoded is None else decoded[1]

    def _raw_offset_at(self, segment: RawSegment, at: int) -> int:
        offset = segment.file.first
        # Not by the lengths alone, which would be twice as fast: a damaged one leads past records that are whole.
        for item in self._scan_segment(segment, offset, self._skim):
            if isinstance(item, Run) and item.last_at >= at:
                data = segment.read(item.offset, item.end - item.offset)
                offset = item.offset
                while (peeked := peek_record(data, offset - item.offset)) is not None and peeked[1] < at:
                    offset += peeked[0]
                return offset
            offset = item.end
        return offset

    def scan(self, offset: int = 0) -> Iterator[Record | Damage]:
        """Everything from ``offset`` in order: records, and Damage for what cannot be read.

        A tail that holds no further record is Damage too, the last item.
        """
        return self._scan(offset, self._decode)

    def skim(self, offset: int = 0) -> Iterator[Skimmed | Damage]:
        """The same with less around each record, several times as fast."""
        return chain.from_iterable(self._skim_some(offset))

    def _skim_some(self, offset: int) -> Iterator[Sequence[Skimmed | Damage]]:
        while (segment := self._open_at(offset, known=self._indices)) is not None:
            if isinstance(segment, Damage):
                yield [segment]
                offset = segment.end
                continue
            if isinstance(segment, SealedSegment) and segment.fault is None:
                self._indices[segment.file.name] = segment.index
            with closing(segment):
                skim = self._skim_sealed if isinstance(segment, SealedSegment) else self._skim_raw
                for items in skim(segment, offset):
                    yield items
                    last = items[-1]
                    offset = last.end if isinstance(last, Damage) else last[3]
            if segment.file.end is None and not self._goes_on(segment.file):
                return

    def _skim_sealed(self, segment: Segment, offset: int) -> Iterator[Sequence[Skimmed | Damage]]:
        assert isinstance(segment, SealedSegment)
        while offset < segment.end:
            try:
                for records in filter(None, segment.skim(offset)):
                    yield records
                    offset = records[-1][3]
            except BadRecord as error:
                end = self._next_record(segment, offset)
                yield [Damage(offset, end, str(error))]
                offset = end
        if segment.file.end is not None and offset < segment.file.end:
            yield [Damage(offset, segment.file.end, _MISSING)]

    def _skim_raw(self, segment: Segment, offset: int) -> Iterator[Sequence[Skimmed | Damage]]:
        for item in self._scan_segment(segment, offset, self._decode):
            if isinstance(item, Record):
                yield [(item.kind, item.at, item.payload, item.end)]
            elif segment.file.end is None and self._goes_on(segment.file):
                return
            else:
                yield [item]

    def runs(self, offset: int = 0, *, stop: int = -1) -> Iterator[Run | Damage]:
        """The same in runs of records, many times as fast; where a record ends at ``stop``, a run ends."""
        return self._scan(offset, lambda data, base: self._skim(data, base, stop))

    def _decode(self, data: bytes, offset: int) -> Iterator[Record]:
        position = 0
        while (decoded := decode_record(data, position, offset=offset + position, salt=self._salt)) is not None:
            record = Record(offset + position, *decoded)
            yield record
            position = record.end - offset

    def _skim(self, data: bytes, offset: int, stop: int = -1) -> Iterator[Run]:
        size, kind, at, checksums = skim_records(data, offset=offset, salt=self._salt, stop=stop)
        peeked = peek_record(data, 0)
        if size and peeked is not None:
            yield Run(offset, offset + size, peeked[1], at, kind, checksums)

    def _scan(self, offset: int, read: _Read[_Item]) -> Iterator[_Item | Damage]:
        while (segment := self._open_at(offset)) is not None:
            if isinstance(segment, Damage):
                yield segment
                offset = segment.end
                continue
            with closing(segment):
                for item in self._scan_segment(segment, offset, read):
                    if isinstance(item, Damage) and segment.file.end is None and self._goes_on(segment.file):
                        break  # it was the last one when it was listed: look again where it ends now
                    yield item
                    offset = item.end
            if segment.file.end is None and not self._goes_on(segment.file):
                return

    def _open_at(self, offset: int, *, known: dict[str, SealedIndex] | None = None) -> Segment | Damage | None:
        while True:
            files = list_segments(self.folder)
            holding = [file for file in files if file.end is None or file.end > offset]
            if not holding:
                return None
            file = holding[0]
            if file.first > offset:
                return Damage(offset, file.first, _MISSING)
            try:
                if known is not None and file.sealed:
                    return SealedSegment(file, salt=self._salt, index=known.get(file.name))
                return open_segment(file, salt=self._salt)
            except FileNotFoundError:
                continue  # gone since the listing
            except BadRecord as error:
                # Of the last segment nobody knows where it ended; its file's size says it was not empty.
                end = file.end if file.end is not None else file.first + max(1, file.path.stat().st_size)
                return Damage(offset, end, str(error)) if offset < end else None

    def _goes_on(self, file: SegmentFile) -> bool:
        return list_segments(self.folder)[-1].number > file.number

    def _scan_segment(self, segment: Segment, offset: int, read: _Read[_Item]) -> Iterator[_Item | Damage]:
        if segment.fault is not None and offset == segment.file.first:
            yield Damage(offset, offset, segment.fault)
        while True:
            start = offset
            try:
                data = segment.read(offset, _READ_BYTES)
                for item in read(data, offset):
                    yield item
                    offset = item.end
                if offset > start:
                    continue
                decode_record(data, 0, offset=offset, salt=self._salt)  # raises what is wrong, unless it is incomplete
                if isinstance(segment, RawSegment) and offset + len(data) < segment.end:
                    continue  # it has grown since
                why = f"an incomplete record at {offset}"
            except BadRecord as error:
                why = str(error)
            if offset >= segment.end:
                break
            # Even if it is incomplete: a damaged length that points beyond the end looks the same.
            end = self._next_record(segment, offset)
            yield Damage(offset, end, why)
            offset = end
        if segment.file.end is not None and offset < segment.file.end:
            yield Damage(offset, segment.file.end, _MISSING)

    def _next_record(self, segment: Segment, offset: int) -> int:
        """Where the next readable record begins, or the end of what the segment holds."""
        end = segment.end
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
