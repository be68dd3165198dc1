"""The lock that makes a catalog one process's own."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from scrubjay.errors import CatalogInUse, CatalogUnavailable


class CatalogLock:
    """Held from the beginning on; the kernel takes it back from whoever dies.

    It is beside the database, not on it: closing a descriptor of that file would drop SQLite's own locks.
    """

    def __init__(self, catalog: Path) -> None:
        """CatalogInUse names the process that has it, be it this one."""
        path = catalog.with_name(catalog.name + ".lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CatalogUnavailable(str(catalog), error.strerror or str(error)) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise CatalogInUse(str(catalog), holder or "?") from error
        with suppress(OSError):  # on a full disk the lock holds as well, and only its holder goes unnamed
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one have it."""
        os.close(self._fd)
