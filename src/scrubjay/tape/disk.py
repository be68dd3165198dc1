"""The calls a tape makes to the disk, and nothing else; tests put a failing disk in their place."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_IOV_MAX = 512
_RESERVE_BYTES = 512 << 10  # one window of pending records and the event that says why it stopped


class File:
    """One file open for writing from its start to its end."""

    def __init__(self, path: str, fd: int) -> None:
        self.path, self._fd = path, fd

    def write(self, parts: Sequence[bytes]) -> int:
        """Write as many of ``parts`` as fit one call; return the number of bytes taken."""
        return os.writev(self._fd, parts[:_IOV_MAX])

    def overwrite(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``."""
        os.pwrite(self._fd, data, position)

    def sync(self) -> None:
        """Return when everything written is on the medium."""
        # Not fsync: the file's times need not survive a power cut, its bytes and size do.
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


class Folder:
    """The directory of one tape's files."""

    def __init__(self, path: str, *, above: tuple[str, ...] = ()) -> None:
        """``above`` are folders as new as this one, whose entries a sync must reach too."""
        self.path, self._above = path, above

    def create(self, name: str) -> File:
        """Make a new file; it is an error if it exists."""
        path = os.path.join(self.path, name)
        return File(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def sync(self) -> None:
        """Return when the names of the files created are on the medium."""
        for path in (self.path, *self._above):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


class Reserve:
    """Space set aside so that a tape on a full disk can still say that it is full."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.held = False

    def take(self) -> None:
        """Set the space aside if the disk has it."""
        if self.held:
            return
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return  # a convenience: recording does not depend on it
        try:
            os.posix_fallocate(fd, 0, _RESERVE_BYTES)
            self.held = True
        except OSError:
            os.unlink(self.path)
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give the space back to the disk; True if there was any."""
        if not self.held:
            return False
        self.held = False
        try:
            os.unlink(self.path)
        except OSError:
            return False
        return True
