"""Append records to a tape and make them durable.

Implements docs/tape-format.md, section 4. One writer per tape. Three offsets tell how far a record
has come: ``offset`` (appended), ``written`` (survives the death of any process), ``synced``
(survives a power cut). Records stay in memory until they are synced, so that after a failed sync
they can be written again to a new segment: a descriptor whose sync failed is never trusted again.
"""

from __future__ import annotations

import errno

from scrubjay.errors import DiskFull, RecordTooLarge
from scrubjay.tape.disk import FULL
from scrubjay.tape.format import (
    PAYLOAD_MAX_BYTES,
    RECORD_MAX_BYTES,
    RECORD_OVERHEAD_BYTES,
    SEGMENT_BYTES,
    chain_checksums,
    encode_parts,
    encode_segment_header,
    segment_stem,
    tape_salt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from scrubjay.tape.watermark import WatermarkFile

    class WritableFile(Protocol):
        """A segment file as the writer sees it."""

        path: str

        def write(self, parts: Sequence[bytes]) -> int:
            """Write some of ``parts``; return the number of bytes taken."""
            ...

        def sync(self) -> None:
            """Return when everything written is on the medium."""
            ...

        def close(self) -> None:
            """Give the descriptor back."""
            ...

    class WritableFolder(Protocol):
        """Where segment files are made."""

        def create(self, name: str) -> WritableFile:
            """Make a new file; it is an error if it exists."""
            ...

        def sync(self) -> None:
            """Return when the names of the files created are on the medium."""
            ...


_RECENT_BYTES = 256 << 10
# Unsynced records kept in memory; above this the writer asks for a pause. A flood fills a quarter of it in the time
# one sync takes, and with less it would wait for every sync; at an ordinary pace it holds a few kilobytes.
WINDOW_BYTES = 16 << 20


class _Record:
    """An encoded record in the parts it came in; to copy them together would cost a flood a tenth of its speed."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))

    @property
    def checksum(self) -> bytes:
        """Its last part."""
        return self.parts[-1]

    def after(self, position: int) -> tuple[bytes, ...]:
        """What follows ``position``."""
        return (b"".join(self.parts)[position:],) if position else self.parts


class _Run:
    """Records that were encoded elsewhere, all in one piece."""

    __slots__ = ("checksum", "parts", "size")

    def __init__(self, records: bytes, checksums: bytes) -> None:
        self.parts = (records,)
        self.size = len(records)
        self.checksum = checksums

    def after(self, position: int) -> tuple[bytes, ...]:
        """What follows ``position``."""
        return (self.parts[0][position:],)


class Sync:
    """One sync of one tape, to be run in any thread and then given back to its writer."""

    __slots__ = ("_anchor", "_files", "_folder", "_watermark", "chain", "end", "error", "watermark_error")

    def __init__(
        self,
        files: list[WritableFile],
        folder: WritableFolder | None,
        watermark: WatermarkFile | None,
        *,
        end: int,
        chain: int,
        anchor: bool,
    ) -> None:
        self._files, self._folder, self._watermark = files, folder, watermark
        self._anchor = anchor
        self.end, self.chain = end, chain
        self.error: OSError | None = None
        self.watermark_error: OSError | None = None

    def run(self) -> Sync:
        """Do it. An error is kept in ``error``, not raised: the writer decides what follows."""
        try:
            for file in self._files:
                file.sync()
            if self._folder is not None:
                self._folder.sync()
        except OSError as error:
            self.error = error
            return self
        if self._watermark is not None:
            try:
                self._watermark.put(self.end, self.chain)
                if self._anchor:
                    self._watermark.sync()
            except OSError as error:
                # Not a failed sync: a watermark that lags promises less than is true, never more.
                self.watermark_error = error
        return self


class TapeWriter:
    """The one writer of a tape."""

    def __init__(
        self,
        folder: WritableFolder,
        tape: str,
        *,
        watermark: WatermarkFile | None = None,
        start: int = 0,
        chain: int = 0,
        number: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """Begin a tape, or go on with one that ends at ``start`` with ``chain`` in segment ``number``."""
        self.tape = tape
        self.offset = self.written = self.synced = start
        self.segments: list[tuple[int, str]] = []  #: first offset and path of each one begun here, newest last
        self._folder, self._watermark = folder, watermark
        self._salt = tape_salt(tape)
        self._segment_bytes, self._window_bytes = segment_bytes, window_bytes
        # Records from ``synced`` to ``offset``, in order. Those before ``_next`` are written.
        self._window: list[_Record | _Run] = []
        self._next = 0
        self._chain_synced = chain
        self._number = number
        self._live: WritableFile | None = None
        self._live_first = start
        self._prelude = b""  # of the live segment's header, what is not written yet
        self._partial = 0  # bytes of the next record that are written already
        self._ended: list[WritableFile] = []  # segments that are complete and not synced
        self._retiring: list[WritableFile] = []  # those of them that a sync has taken
        self._folder_changed = False
        self._syncing = False
        self._condemned = False

    @property
    def full(self) -> bool:
        """Whether so much waits for a sync that nothing more should be appended before it."""
        return self.offset - self.synced >= self._window_bytes

    @property
    def half_full(self) -> bool:
        """Whether it is better to sync now than to come near ``full``."""
        return self.offset - self.synced >= self._window_bytes // 2

    @property
    def sync_due(self) -> bool:
        """Whether there is something to sync and no sync is under way."""
        return self.written > self.synced and not self._syncing

    def append(self, kind: int, at: int, *payload: bytes) -> int:
        """Put one record at the end of the tape and return the offset after it. It is not written yet."""
        record = _Record(encode_parts(kind, at, *payload, offset=self.offset, salt=self._salt))
        if record.size > RECORD_MAX_BYTES:
            raise RecordTooLarge(record.size - RECORD_OVERHEAD_BYTES, PAYLOAD_MAX_BYTES)
        self._window.append(record)
        self.offset += record.size
        return self.offset

    def append_run(self, records: bytes, checksums: bytes) -> int:
        """Put whole records of this very offset at the end of the tape, as they are; return the offset after them."""
        self._window.append(_Run(records, checksums))
        self.offset += len(records)
        return self.offset

    def put(self, kind: int, at: int, *payload: bytes) -> None:
        """Append and write one record: ``append`` and ``flush`` by the shortest way, for a key waits for it."""
        self.append(kind, at, *payload)
        live = self._live
        room = self._live_first + self._segment_bytes - self.written
        nothing_before = self._next + 1 == len(self._window) and not (self._partial or self._prelude)
        if live is None or room <= 0 or not nothing_before or self._condemned:
            self.flush()
            return
        record = self._window[-1]
        try:
            taken = live.write(record.parts)
        except OSError as error:
            raise _full_or_same(error, live.path) from error
        if taken < record.size:
            self._partial = taken
            self.flush()
            return
        self.written += taken
        self._next += 1

    def flush(self) -> None:
        """Write what was appended. On DiskFull nothing is lost: call again when there is space."""
        if self._condemned:
            raise OSError(errno.EBUSY, "the disk is still busy with a failed segment")
        while self._next < len(self._window):
            live = self._live
            if live is None or (self._partial == 0 and self.written - self._live_first >= self._segment_bytes):
                live = self._begin_segment(self.written)
            self._write_some(live)

    def recent(self, offset: int) -> bytes | None:
        """What is written from ``offset`` on, if that is a little and still in memory."""
        start, index = self.written, self._next
        while start > offset >= self.written - _RECENT_BYTES and index > 0:
            index -= 1
            start -= self._window[index].size
        if start != offset:
            return None
        return b"".join(part for record in self._window[index : self._next] for part in record.parts)

    def begin_sync(self, *, anchor: bool = False) -> Sync:
        """Take what is written and not synced as one job. Give it back with ``finish_sync``.

        ``anchor`` syncs the watermark too; without it a power cut may leave it a few seconds behind.
        """
        assert not self._syncing, "one sync at a time: give back the one under way first"
        self._syncing = True
        self._retiring, self._ended = self._ended, []
        files = list(self._retiring)
        if self._live is not None:
            files.append(self._live)
        folder = self._folder if self._folder_changed else None
        self._folder_changed = False
        chain = self._chain_synced
        for record in self._window[: self._next]:
            chain = chain_checksums(chain, record.checksum)
        return Sync(files, folder, self._watermark, end=self.written, chain=chain, anchor=anchor)

    def finish_sync(self, sync: Sync) -> bool:
        """Account for a sync that ran; False if it failed and its records were queued again.

        After a failure call ``flush``: it writes a new segment with everything since the last good sync.
        """
        self._syncing = False
        if sync.error is not None:
            self.abandon()
            return False
        for file in self._retiring:
            file.close()
        self._retiring = []
        self._chain_synced = sync.chain
        self._forget_until(sync.end)
        if self._condemned:
            self.abandon()
        return True

    def abandon(self) -> None:
        """Trust the open files no more: the next ``flush`` writes everything unsynced to a new segment."""
        if self._syncing:
            # Not before the sync under way is back: its files are in use, and what it reaches counts.
            self._condemned = True
            return
        # The kernel may have dropped the pages it failed to write and will report success next time,
        # so neither these descriptors nor what they hold since the last good sync count any more.
        self._condemned = False
        self._end_live_segment()
        for file in self._retiring + self._ended:
            file.close()
        self._retiring, self._ended = [], []
        self._next = self._partial = 0
        self.written = self.synced

    def sync(self) -> None:
        """Write and sync everything now, in this thread; OSError if the disk will not."""
        self.flush()
        while self.written > self.synced:
            sync = self.begin_sync(anchor=True).run()
            if not self.finish_sync(sync) and sync.error is not None:
                self.flush()
                raise sync.error

    def close(self) -> None:
        """Give all files back. Sync first: closing promises nothing."""
        self._end_live_segment()
        for file in self._retiring + self._ended:
            file.close()
        self._retiring, self._ended = [], []
        if self._watermark is not None:
            self._watermark.close()

    def _begin_segment(self, first: int) -> WritableFile:
        number = self._number + 1
        try:
            file = self._folder.create(segment_stem(number, first) + ".raw")
        except OSError as error:
            raise _full_or_same(error, self._number_path(number)) from error
        self._end_live_segment()
        self._number, self._live, self._live_first = number, file, first
        self._prelude, self._partial = encode_segment_header(self.tape, number, first), 0
        self._folder_changed = True
        # A segment begun after a failed sync replaces what older ones hold from its first offset on.
        self.segments = [(start, path) for start, path in self.segments if start < first]
        self.segments.append((first, file.path))
        return file

    def _number_path(self, number: int) -> str:
        return f"segment {number} of tape {self.tape}"

    def _end_live_segment(self) -> None:
        if self._live is not None:
            self._ended.append(self._live)
            self._live = None

    def _write_some(self, live: WritableFile) -> None:
        try:
            taken = live.write(self._unwritten_of_segment())
        except OSError as error:
            raise _full_or_same(error, live.path) from error
        if self._prelude:
            prelude = min(taken, len(self._prelude))
            self._prelude = self._prelude[prelude:]
            taken -= prelude
        taken += self._partial
        while self._next < len(self._window) and taken >= (size := self._window[self._next].size):
            taken -= size
            self.written += size
            self._next += 1
        self._partial = taken

    def _unwritten_of_segment(self) -> list[bytes]:
        room = self._live_first + self._segment_bytes - self.written
        parts = [self._prelude] if self._prelude else []
        parts += self._window[self._next].after(self._partial)
        room -= self._window[self._next].size
        for record in self._window[self._next + 1 : self._next + 256]:
            if room <= 0:
                break
            parts += record.parts
            room -= record.size
        return parts

    def _forget_until(self, end: int) -> None:
        count = 0
        while self.synced < end:
            self.synced += self._window[count].size
            count += 1
        del self._window[:count]
        self._next -= count


def _full_or_same(error: OSError, path: str) -> Exception:
    return DiskFull(path) if error.errno in FULL else error
