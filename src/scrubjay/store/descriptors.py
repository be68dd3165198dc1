"""Files that stay usable although only so many of them are open at a time.

A file is closed when others need its descriptor, but never while something written to it is not synced: should the
disk fail to write that, only a descriptor that was open all the time is sure to be told.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from scrubjay.tape.disk import Folder

_IOV_MAX = 512


class Descriptors:
    """The open ones, the one used last at the end."""

    def __init__(self, limit: int) -> None:
        """``limit`` may be exceeded by files that are not synced."""
        self._limit = limit
        self._lock = Lock()
        self._open: OrderedDict[SparedFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def touch(self, file: SparedFile) -> None:
        """A file was opened or used; close others if they are too many."""
        with self._lock:
            self._open[file] = None
            self._open.move_to_end(file)
            if len(self._open) <= self._limit:
                return
            for other in list(self._open)[:-1]:
                if other.spare():
                    del self._open[other]
                    if len(self._open) <= self._limit:
                        return

    def drop(self, file: SparedFile) -> None:
        """A file was closed for good."""
        with self._lock:
            self._open.pop(file, None)


class SparedFile:
    """A file that gives its descriptor up when others need it, and opens itself again.

    Like ``scrubjay.tape.disk.File``: one thread writes, another may sync meanwhile.
    """

    def __init__(self, descriptors: Descriptors, path: str, flags: int, *, keep_unsynced: bool) -> None:
        """``flags`` are those to make it with. ``keep_unsynced`` keeps it open while something is not synced."""
        self.path = path
        self._descriptors, self._keep_unsynced = descriptors, keep_unsynced
        self._flags = flags & ~(os.O_CREAT | os.O_EXCL)
        self._lock = Lock()
        self._users = 0
        self._unsynced = False
        self._fd: int | None = os.open(path, flags, 0o600)
        descriptors.touch(self)

    def write(self, parts: Sequence[bytes]) -> int:
        """Write as many of ``parts`` as fit one call at the end of the file; return the number of bytes taken."""
        fd = self._take()
        try:
            self._unsynced = True
            return os.writev(fd, parts[:_IOV_MAX])
        finally:
            self._give_back()

    def overwrite(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``."""
        fd = self._take()
        try:
            self._unsynced = True
            os.pwrite(fd, data, position)
        finally:
            self._give_back()

    def sync(self) -> None:
        """Return when everything written is on the medium."""
        fd = self._take()
        try:
            self._unsynced = False  # before the call: what is written during it may not be part of it
            os.fdatasync(fd)
        except OSError:
            self._unsynced = True
            raise
        finally:
            self._give_back()

    def spare(self) -> bool:
        """Close the descriptor if nothing depends on it."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._users or (self._unsynced and self._keep_unsynced):
                return False
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give the descriptor back for good."""
        self._descriptors.drop(self)
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _take(self) -> int:
        with self._lock:
            self._users += 1
            if self._fd is None:
                try:
                    self._fd = os.open(self.path, self._flags)
                except OSError:
                    self._users -= 1
                    raise
            return self._fd

    def _give_back(self) -> None:
        with self._lock:
            self._users -= 1
        self._descriptors.touch(self)


class SparedFolder:
    """The directory of one tape's files, for ``scrubjay.tape.writer``."""

    def __init__(self, descriptors: Descriptors, path: str, *, above: tuple[str, ...]) -> None:
        """``above`` are folders as new as this one, whose entries a sync must reach too."""
        self.path = path
        self._descriptors, self._folder = descriptors, Folder(path, above=above)

    def create(self, name: str) -> SparedFile:
        """Make a new segment; it is an error if it exists."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return SparedFile(self._descriptors, os.path.join(self.path, name), flags, keep_unsynced=True)

    def open_watermark(self, path: str) -> SparedFile:
        """The watermark; a lost one lags or is missing, and promises less than is true, never more."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC  # not O_APPEND: its slots are overwritten
        return SparedFile(self._descriptors, path, flags, keep_unsynced=False)

    def sync(self) -> None:
        """Return when the names of the files created are on the medium."""
        self._folder.sync()
