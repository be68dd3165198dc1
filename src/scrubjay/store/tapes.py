"""The server's tapes: those of the runner it lives with, or copies of what runners send.

A store takes whole records by their offset. What it has is skipped and what does not follow is not taken, so giving
it the same twice changes nothing. ``have`` survives the death of the process, ``kept`` a power cut, and only ``kept``
is acknowledged. Everything here may wait for a disk and is safe for threads; the event loop calls it in one.

A copy lies like a pod's folder: ``<folder>/<pod>/tape`` with the segments, the watermark and the seals beside it.
One process at a time has a folder of copies.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Protocol

from scrubjay.errors import DiskFull, NotATape, TapeDamaged
from scrubjay.ids import PodId, parse_pod_id
from scrubjay.store.descriptors import Descriptors, SparedFolder
from scrubjay.tape.anchor import WATERMARK, read_anchor, read_synced
from scrubjay.tape.disk import FULL
from scrubjay.tape.raw_bytes import TapeBytes
from scrubjay.tape.reader import Tape
from scrubjay.tape.replica import Replica, Surviving, prepare, survey
from scrubjay.tape.seal import Sealed, seal_ended_segments
from scrubjay.tape.writer import Sync

DESCRIPTORS = 256  # files open for writing; a soft limit of 1024 is usual, and viewers need some
UNSYNCED_BYTES = 64 << 20  # in memory; above this whoever appends waits for a sync
SYNC_THREADS = 8  # a journal commits many files at once for little more than one
ANCHOR_EVERY_S = 5.0  # how far behind a power cut may leave a watermark
SYNC_HOLD_S = 0.2  # after a failed sync, twice as long after each that follows
SYNC_HOLD_MAX_S = 10.0

_REMOVED = ".removed"


@dataclass(frozen=True, slots=True)
class Held:
    """How much of a tape a store has. Both offsets are ends of records."""

    have: int
    kept: int
    fingerprint: int | None  #: of the last bytes before ``have``; None if they are the runner's own


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync has done."""

    kept: dict[PodId, int] = field(default_factory=dict[PodId, int])  #: of tapes that were synced
    failed: dict[PodId, str] = field(default_factory=dict[PodId, str])  #: why not; they are tried again


class Tapes(Protocol):
    """What a server needs of its tapes."""

    def have(self, pod: PodId) -> Held:
        """How much of a tape there is, read from the disk if nobody knows; OSError if that fails."""
        ...

    def append(self, pod: PodId, offset: int, records: bytes) -> int:
        """Add whole records of a tape; return how much there is now.

        DiskFull or OSError if not all of it was taken: nothing is lost, and it is right to give it again later.
        TapeDiverged if these are not the records that follow.
        """
        ...

    def sync(self) -> Synced:
        """Make everything appended so far survive a power cut."""
        ...

    def open(self, pod: PodId) -> Tape:
        """The tape, for reading; its anchor and whatever is derived from it lie in the folder above its own."""
        ...

    def remove(self, pod: PodId) -> None:
        """Delete a tape and everything derived from it."""
        ...


class SharedTapes:
    """The tapes of pods on this machine, as their keepers write them. Nothing is written here.

    Nor is anything looked at: records are given to a store when the runner's disk has them, and here that is the same.
    """

    def __init__(self, pods: Path) -> None:
        """``pods`` is the folder with one folder for each pod."""
        self._pods = pods
        self._lock = Lock()
        self._appended: dict[PodId, int] = {}

    def have(self, pod: PodId) -> Held:
        """What the keeper has synced: the rest may still be lost, and then be other bytes."""
        root = self._root(pod)
        # Without a watermark there is no keeper, so what is there stays.
        synced = read_synced(root, pod) if (root / WATERMARK).exists() else self._end(pod)
        return Held(synced, synced, None)

    def append(self, pod: PodId, offset: int, records: bytes) -> int:
        """Note that the keeper has synced this."""
        with self._lock:
            self._appended[pod] = end = max(offset + len(records), self._appended.get(pod, 0))
        return end

    def sync(self) -> Synced:
        """What keepers have synced since this was last asked."""
        with self._lock:
            appended, self._appended = self._appended, {}
        return Synced(appended)

    def open(self, pod: PodId) -> Tape:
        """The pod's own tape."""
        return Tape(self._root(pod) / "tape", pod)

    def remove(self, pod: PodId) -> None:
        """Forget it; deleting is up to the runner, whose it is."""
        with self._lock:
            self._appended.pop(pod, None)

    def _end(self, pod: PodId) -> int:
        try:
            return self.open(pod).end
        except NotATape:
            return 0

    def _root(self, pod: PodId) -> Path:
        return self._pods / parse_pod_id(pod)


@dataclass(slots=True)
class _Copy:
    """A copy that is being written."""

    replica: Replica
    lock: Lock = field(default_factory=Lock)
    anchored_s: float = 0.0
    failures: int = 0  #: syncs that failed, one after the other
    hold_until_s: float = 0.0
    sealed_segments: int = 0  #: of those begun, how many were offered for sealing


@dataclass(frozen=True, slots=True)
class Sealable:
    """A copy with segments that have ended, for ``seal_copy``."""

    pod: PodId
    root: Path
    complete: bool


class ReplicatedTapes:
    """Copies of tapes that are written elsewhere."""

    def __init__(
        self,
        folder: Path,
        *,
        descriptors: int = DESCRIPTORS,
        unsynced_bytes: int = UNSYNCED_BYTES,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep copies in ``folder``, with so many files open at a time and so much in memory until it is synced."""
        self.folder = folder
        self._monotonic_s = monotonic_s
        self._descriptors = Descriptors(descriptors)
        self._unsynced_files = max(1, descriptors // 2)
        self._unsynced_bytes = unsynced_bytes
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="tapes")
        self._opening = Lock()
        self._syncing = Lock()
        self._lock = Lock()  # of what follows; no other is ever taken within it
        self._copies: dict[PodId, _Copy] = {}
        self._left: dict[PodId, Surviving] = {}  # of those that nobody writes
        self._dirty: set[PodId] = set()
        self._appended = 0  # bytes since the last sync began, and those that it did not sync
        self._sealable: dict[PodId, bool] = {}  # whether they are complete
        self._news = Synced()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for removed in folder.glob("*" + _REMOVED):  # left by a crash in between
            shutil.rmtree(removed)

    def have(self, pod: PodId) -> Held:
        """How much of a copy there is."""
        root = self._root(pod)
        with self._lock:
            copy = self._copies.get(pod)
        if copy is not None:
            with copy.lock:
                have, kept = copy.replica.written, copy.replica.synced
        else:
            left = self._survey(pod)
            have, kept = left.end, left.synced
            if kept < have:
                with self._lock:
                    self._dirty.add(pod)  # written by a process that died before it could sync
        return Held(have, kept, _fingerprint(root / "tape", pod, have))

    def append(self, pod: PodId, offset: int, records: bytes) -> int:
        """Write records to a copy."""
        if self._wants_sync():
            self._sync_dirty()
            if self._appended > self._unsynced_bytes:
                raise OSError(errno.EBUSY, "the disk does not sync what it was given")
        copy = self._open_copy(pod)
        try:
            with copy.lock:
                return copy.replica.append(offset, records)
        finally:
            with self._lock:
                self._dirty.add(pod)
                self._appended += len(records)

    def sync(self) -> Synced:
        """Sync every copy that was added to, several at a time."""
        self._sync_dirty()
        with self._lock:
            news, self._news = self._news, Synced()
        return news

    def open(self, pod: PodId) -> Tape:
        """The copy, for reading."""
        return Tape(self._root(pod) / "tape", pod)

    def remove(self, pod: PodId) -> None:
        """Delete a copy."""
        root = self._root(pod)
        with self._syncing:
            with self._lock:
                copy = self._copies.pop(pod, None)
                self._left.pop(pod, None)
                self._sealable.pop(pod, None)
                self._dirty.discard(pod)
            if copy is not None:
                with copy.lock:
                    copy.replica.close()
            # Elsewhere first: what is half deleted must not look like a copy.
            doomed = self.folder / (pod + _REMOVED)
            try:
                root.rename(doomed)
            except FileNotFoundError:
                return
        shutil.rmtree(doomed)

    def sealable(self) -> list[Sealable]:
        """Copies with segments to seal, each said once. Give each to ``seal_copy``, in any process."""
        with self._lock:
            found, self._sealable = self._sealable, {}
            ended = [self._copies.pop(pod) for pod, complete in found.items() if complete and pod in self._copies]
        for copy in ended:
            with copy.lock:
                copy.replica.close()
        return [Sealable(pod, self._root(pod), complete) for pod, complete in found.items()]

    def close(self) -> None:
        """Sync and give all files back."""
        self._sync_dirty(anchor=True)
        with self._lock:
            copies, self._copies = self._copies, {}
        for copy in copies.values():
            with copy.lock:
                copy.replica.close()
        self._threads.shutdown()

    def _root(self, pod: PodId) -> Path:
        return self.folder / parse_pod_id(pod)

    def _survey(self, pod: PodId) -> Surviving:
        with self._lock:
            known = self._left.get(pod)
        if known is not None:
            return known
        root = self._root(pod)
        left = survey(root / "tape", pod, read_anchor(root, pod))
        with self._lock:
            self._left[pod] = left
            if left.raw_segments > 1 or (left.complete and left.raw_segments):
                self._sealable[pod] = left.complete and left.synced == left.end
        return left

    def _open_copy(self, pod: PodId) -> _Copy:
        with self._lock:
            copy = self._copies.get(pod)
        if copy is not None:
            return copy
        with self._opening:
            return self._copies.get(pod) or self._begin_copy(pod)

    def _begin_copy(self, pod: PodId) -> _Copy:
        left = self._survey(pod)
        root = self._root(pod)
        folder = root / "tape"
        try:
            root.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            prepare(folder, left)
            files = SparedFolder(self._descriptors, str(folder), above=(str(root), str(self.folder)))
            replica = Replica(pod, files, files.open_watermark(str(root / WATERMARK)), left)
        except OSError as error:
            raise _full_or_same(error, str(root)) from error
        with self._lock:
            self._left.pop(pod, None)
            copy = self._copies[pod] = _Copy(replica)
        return copy

    def _wants_sync(self) -> bool:
        with self._lock:
            return self._appended > self._unsynced_bytes or len(self._dirty) > self._unsynced_files

    def _sync_dirty(self, *, anchor: bool = False) -> None:
        with self._syncing:
            with self._lock:
                dirty, self._dirty, self._appended = self._dirty, set[PodId](), 0
            jobs: list[tuple[PodId, _Copy, Sync]] = []
            for pod in dirty:
                self._begin_sync(pod, jobs, anchor=anchor)
            syncs = [sync for _, _, sync in jobs]
            for (pod, copy, _), sync in zip(jobs, self._threads.map(Sync.run, syncs), strict=True):
                self._finish_sync(pod, copy, sync)

    def _begin_sync(self, pod: PodId, jobs: list[tuple[PodId, _Copy, Sync]], *, anchor: bool) -> None:
        try:
            copy = self._open_copy(pod)
            now_s = self._monotonic_s()
            if now_s < copy.hold_until_s:
                self._try_again(pod)
                return
            with copy.lock:
                copy.replica.flush()  # what a full disk has left in memory
                due = anchor or now_s - copy.anchored_s >= ANCHOR_EVERY_S
                if copy.replica.sync_due:
                    jobs.append((pod, copy, copy.replica.begin_sync(anchor=due)))
                    if due:
                        copy.anchored_s = now_s
                else:
                    self._note_kept(pod, copy)
        except (DiskFull, OSError) as error:
            self._note_failure(pod, error)

    def _finish_sync(self, pod: PodId, copy: _Copy, sync: Sync) -> None:
        with copy.lock:
            if copy.replica.finish_sync(sync):
                copy.failures, copy.hold_until_s = 0, 0.0
                self._note_kept(pod, copy)
                return
            # Each failure costs a new segment, so a disk that fails again and again gets more time each time.
            copy.failures += 1
            hold_s = min(SYNC_HOLD_MAX_S, SYNC_HOLD_S * 2 ** min(copy.failures, 10))
            copy.hold_until_s = self._monotonic_s() + hold_s
            try:
                copy.replica.flush()
            except (DiskFull, OSError) as error:
                self._note_failure(pod, error)
                return
        self._note_failure(pod, sync.error)

    def _note_kept(self, pod: PodId, copy: _Copy) -> None:
        replica = copy.replica
        with self._lock:
            self._news.kept[pod] = replica.synced
            if replica.unsynced_bytes:
                self._dirty.add(pod)
            if replica.complete:
                self._sealable[pod] = True
            elif replica.segments_begun - 1 > copy.sealed_segments:
                copy.sealed_segments = replica.segments_begun - 1
                self._sealable[pod] = False

    def _note_failure(self, pod: PodId, error: Exception | None) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        with self._lock:
            self._news.failed[pod] = why
        self._try_again(pod)

    def _try_again(self, pod: PodId) -> None:
        with self._lock:
            copy = self._copies.get(pod)
            self._dirty.add(pod)
            self._appended += copy.replica.unsynced_bytes if copy is not None else 0


def seal_copy(job: Sealable) -> Sealed:
    """Compress the segments of a copy that have ended. It may go on being written and read meanwhile."""
    return seal_ended_segments(job.root / "tape", job.root, job.pod, complete=job.complete)


def _fingerprint(folder: Path, pod: PodId, offset: int) -> int:
    """Of the last bytes of a copy; no tape's if they cannot be read, so that the copy is left alone."""
    if not offset:
        return 0
    try:
        with closing(TapeBytes(folder, pod)) as raw:
            return raw.fingerprint(offset)
    except TapeDamaged:
        return -1


def _full_or_same(error: OSError, path: str) -> Exception:
    return DiskFull(path) if error.errno in FULL else error
