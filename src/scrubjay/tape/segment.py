"""The segment files of a tape, raw or sealed, read by the tape's own offsets."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path

from scrubjay.tape.format import (
    SEALED_MAGIC,
    SEGMENT_HEADER_BYTES,
    BadRecord,
    decode_segment_header,
    peek_record,
)
from scrubjay.tape.sealed import FOOTER_BYTES, SealedIndex, decode_footer, decode_index, decompress_frame

_PEEK_BYTES = 1 << 20
_NAME = re.compile(r"(\d{6})-(\d{20})\.(raw|sealed)")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file, and which part of the tape to take from it."""

    path: Path
    number: int
    first: int
    end: int | None  #: where the next segment begins; None for the last, which ends where it ends
    sealed: bool


def list_segments(folder: Path) -> list[SegmentFile]:
    """The segments in order, each with the part of the tape that is to be read from it.

    A segment that begins before an older one ends replaces the rest of the older one: that is how a
    writer goes on after a failed sync. A sealed file replaces the raw one it was made from.
    """
    found: dict[int, tuple[int, bool, Path]] = {}
    for entry in os.scandir(folder):
        match = _NAME.fullmatch(entry.name)
        if match is None:
            continue
        number, first, sealed = int(match[1]), int(match[2]), match[3] == "sealed"
        if number not in found or sealed:
            found[number] = (first, sealed, folder / entry.name)
    segments: list[SegmentFile] = []
    end: int | None = None
    for number in sorted(found, reverse=True):
        first, sealed, path = found[number]
        if end is None or first < end:
            segments.append(SegmentFile(path, number, first, end, sealed))
            end = first
    return segments[::-1]


class RawSegment:
    """A raw segment open for reading; it may still grow."""

    def __init__(self, file: SegmentFile) -> None:
        self.file = file
        self._fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        self.tape: str | None = None
        self.header_fault: str | None = None  # its name says where its records stand, so they stay readable
        header = os.pread(self._fd, SEGMENT_HEADER_BYTES, 0)
        try:
            self.tape, number, first = decode_segment_header(header)
        except BadRecord as error:
            self.header_fault = str(error)
        else:
            if (number, first) != (file.number, file.first):
                self.header_fault = "a segment under another one's name"

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

    def offset_at(self, at: int) -> int:
        """The offset of the first record not before ``at``, or the end."""
        offset = base = self.file.first
        chunk = self.read(offset, _PEEK_BYTES)
        while offset < self.end:
            peeked = peek_record(chunk, offset - base)
            if peeked is None:
                base, chunk = offset, self.read(offset, _PEEK_BYTES)
                if peek_record(chunk, 0) is None:
                    break
                continue
            size, record_at = peeked
            if record_at >= at:
                return offset
            offset += size
        return min(offset, self.end)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


class SealedSegment:
    """A sealed segment open for reading; a read decompresses one frame."""

    def __init__(self, file: SegmentFile) -> None:
        self.file = file
        self._fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        self._frame: tuple[int, bytes] = (-1, b"")
        try:
            self.index = self._read_index()
        except BadRecord:
            self.close()
            raise
        self.tape = self.index.tape

    def _read_index(self) -> SealedIndex:
        size = os.fstat(self._fd).st_size
        header = os.pread(self._fd, SEGMENT_HEADER_BYTES, 0)
        decode_segment_header(header, magic=SEALED_MAGIC)
        footer = os.pread(self._fd, FOOTER_BYTES, max(0, size - FOOTER_BYTES))
        position, length = decode_footer(footer)
        if position + length + FOOTER_BYTES != size:
            raise BadRecord("an index of the wrong length")
        return decode_index(header, os.pread(self._fd, length, position), footer)

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
            frames = self.index.frames
            this = frames[number]
            stop = frames[number + 1].position if number + 1 < len(frames) else self.index.frames_end
            packed = os.pread(self._fd, stop - this.position, this.position)
            self._frame = (number, decompress_frame(packed, self.frame_end(number) - this.offset))
        return self._frame[1]

    def read(self, offset: int, limit: int) -> bytes:
        """Up to ``limit`` bytes of the tape from ``offset``, not beyond the end of its frame."""
        if offset >= self.end:
            return b""
        number = self.frame_at(offset)
        start = offset - self.index.frames[number].offset
        return self.frame(number)[start : start + min(limit, self.end - offset)]

    def offset_at(self, at: int) -> int:
        """The offset of the first record not before ``at``, or the end."""
        frames = self.index.frames
        number = max(0, bisect_left(frames, at, key=lambda frame: frame.at) - 1)
        base = offset = frames[number].offset
        data = self.frame(number)
        while (peeked := peek_record(data, offset - base)) is not None and peeked[1] < at:
            offset += peeked[0]
        return min(offset, self.end)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


Segment = RawSegment | SealedSegment


def open_segment(file: SegmentFile) -> Segment:
    """Open a segment for reading; BadRecord if the file is not one."""
    return SealedSegment(file) if file.sealed else RawSegment(file)
