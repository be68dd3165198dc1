"""Room that a catalog keeps for itself, so that a full disk does not stop it at once.

Logging in and deleting are writes too, and it is on a full disk that they are needed. Pages of the file that were used
once and are free now take no space to be used again, nor does the log when it starts over.
"""

from __future__ import annotations

import os
from pathlib import Path

from scrubjay.store.sqlite_library import RawConnection

ROOM_BYTES = 4 << 20  # a few thousand small writes; also how far SQLite lets the log grow between checkpoints
_SPARE_BYTES = 2 * ROOM_BYTES + (2 << 20)  # what keeping room takes at most, and something for everybody else
_PAGE_BYTES = 4096  # SQLite's default since 2016


def can_spare(path: Path) -> bool:
    """Whether the disk has so much space that keeping room does not itself fill it, and stop every agent."""
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize >= _SPARE_BYTES


def keep_room(raw: RawConnection) -> None:
    """Have that much room in the file and in the log. Raises the library's error if the disk has none."""
    raw.execute("DROP TABLE IF EXISTS room")
    raw.execute("CREATE TABLE room (filler BLOB)")
    raw.execute("INSERT INTO room VALUES (zeroblob(?))", (ROOM_BYTES,))
    # A transaction of its own: pages that are used and freed in one are never written.
    raw.execute("DROP TABLE room")
    raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def has_room(raw: RawConnection) -> bool:
    """Whether at least half of the room in the file is left."""
    (free_pages,) = raw.execute("PRAGMA freelist_count").fetchone()
    return free_pages * _PAGE_BYTES >= ROOM_BYTES // 2
