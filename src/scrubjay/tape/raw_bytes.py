"""Read the bytes of a tape as they stand on it, records and checksums, by offset.

For copying: nothing is decoded, and what comes out is the same whether a segment is raw or sealed.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import closing
from pathlib import Path

from scrubjay.errors import NotATape, TapeDamaged
from scrubjay.tape.format import BadRecord, tape_salt
from scrubjay.tape.reader import Tape
from scrubjay.tape.segment import Segment, list_segments, open_segment

_READ_BYTES = 1 << 20  # at once: the system makes room for all that it is asked for
_FINGERPRINT_BYTES = 4 << 10  # the last before an offset
# A folder's time moves in steps of up to 10 ms: a change within one after a look at it would not be seen.
_TIME_STEP_NS = 20_000_000


class TapeBytes:
    """The bytes of one tape. Quick when asked for one part after the other: it keeps a file and a frame between calls.

    Not safe for threads.
    """

    def __init__(self, folder: Path, tape: str) -> None:
        self.folder, self.tape = folder, tape
        self._salt = tape_salt(tape)
        self._segment: Segment | None = None
        self._version = -1  # of the folder, when the segment was looked for
        self._looked_ns = 0

    def read(self, offset: int, limit: int) -> bytes:
        """Up to ``limit`` bytes from ``offset``, fewer only at the end; TapeDamaged if the first cannot be read."""
        parts: list[bytes] = []
        while limit > 0:
            try:
                data = self._read_some(offset, min(limit, _READ_BYTES))
            except TapeDamaged:
                if not parts:
                    raise
                break
            if not data:
                break
            parts.append(data)
            offset += len(data)
            limit -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def fingerprint(self, offset: int) -> int:
        """What tells this copy of the tape up to ``offset`` from one that differs."""
        start = max(0, offset - _FINGERPRINT_BYTES)
        return fingerprint(self.read(start, offset - start))

    def close(self) -> None:
        """Give the file back. Reading opens it again."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _read_some(self, offset: int, limit: int) -> bytes:
        if not self._is_current(offset):
            self._look(offset)
        data = self._try(offset, limit)
        if not data:
            # The end of what was the last segment: it may have been followed or replaced since.
            self._look(offset)
            data = self._try(offset, limit)
        if not data and self._segment is not None and self._segment.file.end is not None:
            raise TapeDamaged(self.tape, offset, "missing: its segment ends too early")
        return data

    def _try(self, offset: int, limit: int) -> bytes:
        if self._segment is None:
            return b""
        try:
            return self._segment.read(offset, limit)
        except BadRecord as error:
            raise TapeDamaged(self.tape, offset, str(error)) from error

    def _is_current(self, offset: int) -> bool:
        if self._segment is None:
            return False
        file = self._segment.file
        if offset < file.first or (file.end is not None and offset >= file.end):
            return False
        version = _version_of(self.folder)
        return version == self._version and self._looked_ns - version > _TIME_STEP_NS

    def _look(self, offset: int) -> None:
        """Open the segment that holds ``offset``; none if it is beyond the end."""
        self._version, self._looked_ns = _version_of(self.folder), time.time_ns()
        try:
            files = list_segments(self.folder)
        except FileNotFoundError as error:
            raise NotATape(str(self.folder), "there is no such folder") from error
        file = next((file for file in files if file.end is None or file.end > offset), None)
        if file is not None and file.first > offset:
            raise TapeDamaged(self.tape, offset, "missing: no segment holds it")
        if self._segment is not None and self._segment.file == file:
            return
        self.close()
        if file is None:
            return
        try:
            self._segment = open_segment(file, salt=self._salt)
        except BadRecord as error:
            raise TapeDamaged(self.tape, offset, str(error)) from error


def read_bytes(tape: Tape, offset: int, limit: int) -> bytes:
    """Up to ``limit`` bytes of a tape from ``offset``, fewer only at its end; TapeDamaged if they cannot be read."""
    with closing(TapeBytes(tape.folder, tape.id)) as raw:
        return raw.read(offset, limit)


def fingerprint(data: bytes) -> int:
    """64 bits that tell the last bytes of ``data`` from others."""
    # Not CRC-32, which is the same for all records of one length: each ends with its own.
    return int.from_bytes(hashlib.blake2b(data[-_FINGERPRINT_BYTES:], digest_size=8).digest())


def _version_of(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return -1
