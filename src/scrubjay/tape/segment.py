"""The segment files of a tape, raw or sealed, read by the tape's own offsets."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scrubjay.tape.format import (
    SEALED_MAGIC,
    SEGMENT_HEADER_BYTES,
    BadRecord,
    Skimmed,
    decode_segment_header,
    peek_record,
    skim_stripped,
    tape_salt,
)
from scrubjay.tape.sealed import (
    FOOTER_BYTES,
    Frame,
    SealedIndex,
    decode_footer,
    decode_index,
    decompress_frame,
    salvage_index,
    unpack_pieces,
)

_MISNAMED = "a segment under another one's name"
_NAME = re.compile(r"([0-9]{6,})-([0-9]{20})\.(raw|sealed)")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file, and which part of the tape to take from it."""

    folder: Path
    name: str
    number: int
    first: int
    end: int | None  #: where the next segment begins; None for the last, which ends where it ends
    sealed: bool

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name


def list_segments(folder: Path) -> list[SegmentFile]:
    """The segments in order, each with the part of the tape that is to be read from it.

    A segment that begins before an older one ends replaces the rest of the older one: that is how a
    writer goes on after a failed sync. A sealed file replaces the raw one it was made from.
    """
    found: dict[int, tuple[int, bool, str]] = {}
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        number, first, sealed = int(match[1]), int(match[2]), match[3] == "sealed"
        if number not in found or sealed:
            found[number] = (first, sealed, name)
    segments: list[SegmentFile] = []
    end: int | None = None
    for number in sorted(found, reverse=True):
        first, sealed, name = found[number]
        if end is None or first < end:
            segments.append(SegmentFile(folder, name, number, first, end, sealed))
            end = first
    return segments[::-1]


def list_raw_files(folder: Path) -> list[tuple[int, Path]]:
    """First offset and path of every raw file by number, also of those that are replaced."""
    matches = [match for match in map(_NAME.fullmatch, os.listdir(folder)) if match and match[3] == "raw"]
    return [(int(match[2]), folder / match[0]) for match in sorted(matches, key=lambda match: int(match[1]))]


class RawSegment:
    """A raw segment open for reading; it may still grow."""

    def __init__(self, file: SegmentFile) -> None:
        self.file = file
        self._fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        self.tape: str | None = None
        self.fault: str | None = None  #: of its header; its name says where its records stand, so they stay readable
        header = os.pread(self._fd, SEGMENT_HEADER_BYTES, 0)
        if len(header) < SEGMENT_HEADER_BYTES:
            return  # begun, and nothing of it is written yet: that it ends too early is for the scan to say
        try:
            self.tape, number, first = decode_segment_header(header)
        except BadRecord as error:
            self.fault = str(error)
        else:
            if (number, first) != (file.number, file.first):
                self.fault = _MISNAMED

    @property
    def end(self) -> int:
        """The offset after the last byte there is to read, complete record or not."""
        size = self.file.first + max(0, os.fstat(self._fd).st_size - SEGMENT_HEADER_BYTES)
        return size if self.file.end is None else min(size, self.file.end)

    def read(self, offset: int, limit: int) -> bytes:
        """Up to ``limit`` bytes of the tape from ``offset``."""
        if self.file.end is not None:
            limit = min(limit, self.file.end - offset)
        return os.pread(self._fd, max(0, limit), SEGMENT_HEADER_BYTES + offset - self.file.first)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


class SealedSegment:
    """A sealed segment open for reading; a read decompresses one frame."""

    def __init__(self, file: SegmentFile, *, salt: int = 0, index: SealedIndex | None = None) -> None:
        """``salt`` is of the tape it should belong to, for when it cannot say so itself.

        ``index`` is what it said when it was read before: a sealed segment never changes.
        """
        self.file = file
        self._fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        self._frame: tuple[int, bytes] = (-1, b"")
        self.fault: str | None = None  #: of its header or index; the frames can be found without either
        try:
            self.index = index if index is not None else self._read_index()
        except BadRecord as error:
            self.fault = str(error)
            try:
                self.index = self._salvage_index(salt)
            except BadRecord:
                self.close()
                raise
        self.tape = self.index.tape or None
        # Its own tape's, not the reader's: the records of another tape's segment must not come out as ours.
        self._salt = tape_salt(self.tape) if self.tape is not None else salt

    def _read_index(self) -> SealedIndex:
        size = os.fstat(self._fd).st_size
        header = os.pread(self._fd, SEGMENT_HEADER_BYTES, 0)
        decode_segment_header(header, magic=SEALED_MAGIC)
        footer = os.pread(self._fd, FOOTER_BYTES, max(0, size - FOOTER_BYTES))
        position, length = decode_footer(footer)
        if position + length + FOOTER_BYTES != size:
            raise BadRecord("an index of the wrong length")
        index = decode_index(header, os.pread(self._fd, length, position), footer)
        if (index.number, index.first) != (self.file.number, self.file.first):
            raise BadRecord(_MISNAMED)
        return index

    def _salvage_index(self, salt: int) -> SealedIndex:
        data = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        return salvage_index(data, self.file.number, self.file.first, salt=salt)

    @property
    def end(self) -> int:
        """The offset after the last record there is to read."""
        return self.index.end if self.file.end is None else min(self.index.end, self.file.end)

    def frame_at(self, offset: int) -> int:
        """The number of the frame that holds ``offset``."""
        return bisect_right(self.index.frames, offset, key=lambda frame: frame.offset) - 1

    def frame_end(self, number: int) -> int:
        """The offset after a frame's last record."""
        frames = self.index.frames
        return frames[number + 1].offset if number + 1 < len(frames) else self.index.end

    def frame(self, number: int) -> bytes:
        """The records of a frame; BadRecord if it is damaged."""
        if self._frame[0] != number:
            packed, this = self._packed(number)
            self._frame = (number, decompress_frame(packed, this, self.frame_end(number), salt=self._salt))
        return self._frame[1]

    def skim(self, offset: int) -> Iterator[list[Skimmed]]:
        """The records from ``offset`` to the end of its frame, some at a time; BadRecord if it is damaged."""
        packed, frame = self._packed(self.frame_at(offset))
        return skim_stripped(unpack_pieces(packed, frame), frame.offset, offset, self.end)

    def _packed(self, number: int) -> tuple[bytes, Frame]:
        frames = self.index.frames
        this = frames[number]
        stop = frames[number + 1].position if number + 1 < len(frames) else self.index.frames_end
        return os.pread(self._fd, stop - this.position, this.position), this

    def read(self, offset: int, limit: int) -> bytes:
        """Up to ``limit`` bytes of the tape from ``offset``, not beyond the end of its frame."""
        if offset >= self.end:
            return b""
        number = self.frame_at(offset)
        start = offset - self.index.frames[number].offset
        return self.frame(number)[start : start + min(limit, self.end - offset)]

    def offset_at(self, at: int) -> int:
        """The offset of the first record not before ``at``, or of the damaged frame it may be in, or the end."""
        frames = self.index.frames
        number = max(0, bisect_left(frames, at, key=lambda frame: frame.at) - 1)
        base = offset = frames[number].offset
        try:
            data = self.frame(number)
        except BadRecord:
            return min(base, self.end)
        while (peeked := peek_record(data, offset - base)) is not None and peeked[1] < at:
            offset += peeked[0]
        return min(offset, self.end)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


Segment = RawSegment | SealedSegment


def open_segment(file: SegmentFile, *, salt: int = 0) -> Segment:
    """Open a segment of the tape with ``salt`` for reading; BadRecord if nothing in it can be read."""
    if file.sealed:
        return SealedSegment(file, salt=salt)
    try:
        return RawSegment(file)
    except FileNotFoundError:
        # Sealed between the listing and this; the sealed file was there before the raw one went.
        sealed = replace(file, name=file.path.with_suffix(".sealed").name, sealed=True)
        return SealedSegment(sealed, salt=salt)
