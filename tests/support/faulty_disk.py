"""A disk that fails on request and loses at a power cut whatever it never promised, after SQLite's test6.c.

It stands in for ``scrubjay.tape.disk``. What is not synced may be lost, kept, or kept in part at a power
cut, each write for itself and in any order; sectors that were under way may hold garbage. One thing is
taken for granted, as SQLite does: a write spoils no byte outside itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

SECTOR_BYTES = 512


class PowerCut(Exception):
    """The power is gone; nothing after this happens."""


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    data: bytes
    doomed: bool = False  #: a sync has failed on it, so the kernel believes that it is done and forgets it

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def overlaps(self, other: _Write) -> bool:
        return self.position < other.end and other.position < self.end


class FaultyFile:
    """One open file."""

    def __init__(self, disk: FaultyDisk, path: str, stable: bytes = b"") -> None:
        self.path = path
        self.syncs = 0
        self.syncs_after_failure = 0
        self.sync_failed = False
        self.closed = False
        self._disk = disk
        self._stable = bytearray(stable)
        self._size = len(stable)
        self._unsynced: list[_Write] = []

    def write(self, parts: Sequence[bytes]) -> int:
        """Take as much as there is room and mood for."""
        assert not self.closed
        data = b"".join(parts)
        assert data
        taken = self._disk.take(len(data))
        self._unsynced.append(_Write(self._size, data[:taken]))
        self._size += taken
        self._disk.draw_power()
        return taken

    def overwrite(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``."""
        assert not self.closed
        self._disk.check_overwrite()
        self._unsynced.append(_Write(position, data))
        self._size = max(self._size, position + len(data))
        self._disk.draw_power()

    def sync(self) -> None:
        """Promise what was written, or fail and forget it."""
        assert not self.closed
        self._disk.draw_power()
        self.syncs += 1
        self.syncs_after_failure += self.sync_failed
        if self._disk.sync_fails():
            self.sync_failed = True
            self._unsynced = [_Write(write.position, write.data, doomed=True) for write in self._unsynced]
            raise OSError(errno.EIO, "Input/output error")
        done = [write for write in self._unsynced if not write.doomed]
        for write in done:
            _apply(self._stable, write.position, write.data)
        self._unsynced = [
            write for write in self._unsynced if write.doomed and not any(write.overlaps(later) for later in done)
        ]

    def close(self) -> None:
        """Give the file back; this promises nothing."""
        assert not self.closed
        self.closed = True

    @property
    def contents(self) -> bytes:
        """What a reader sees as long as the power is on."""
        data = bytearray(self._stable)
        for write in self._unsynced:
            _apply(data, write.position, write.data)
        return bytes(data)

    def after_power_cut(self, rng: Random) -> bytes:
        """What a power cut may leave."""
        data = bytearray(self._stable)
        for write in rng.sample(self._unsynced, len(self._unsynced)):
            fate = rng.choice(("kept", "lost", "torn"))
            if fate == "kept":
                _apply(data, write.position, write.data)
            elif fate == "torn":
                for position, part in _sectors(write):
                    fate = rng.choice(("kept", "lost", "garbage"))
                    if fate != "lost":
                        _apply(data, position, part if fate == "kept" else rng.randbytes(len(part)))
        if rng.random() < 0.5:  # the size may be written before what is within it
            data.extend(bytes(rng.randint(0, self._size - len(data))))
        return bytes(data)


class FaultyFolder:
    """A directory whose names are lost at a power cut unless it was synced."""

    def __init__(self, disk: FaultyDisk, path: str) -> None:
        self.path = path
        self.files: dict[str, FaultyFile] = {}
        self._disk = disk
        self._stable: set[str] = set()

    def load(self, real: Path) -> None:
        """Begin with what ``real`` holds, all of it on the medium."""
        for path in filter(Path.is_file, real.iterdir()):
            self.files[path.name] = FaultyFile(self._disk, f"{self.path}/{path.name}", path.read_bytes())
            self._stable.add(path.name)

    def create(self, name: str) -> FaultyFile:
        """Make a new file; it is an error if it exists."""
        if name in self.files:
            raise FileExistsError(errno.EEXIST, "File exists", name)
        self._disk.check_room()
        self.files[name] = FaultyFile(self._disk, f"{self.path}/{name}")
        self._disk.draw_power()
        return self.files[name]

    def reopen(self, name: str) -> FaultyFile:
        """The file with that name, or a new one."""
        return self.files.get(name) or self.create(name)

    def sync(self) -> None:
        """Promise the names, or fail."""
        self._disk.draw_power()
        if self._disk.sync_fails():
            raise OSError(errno.EIO, "Input/output error")
        self._stable = set(self.files)

    def leave(self, real: Path) -> None:
        """Put what readers see into ``real``."""
        for name, file in self.files.items():
            (real / name).write_bytes(file.contents)

    def leave_after_power_cut(self, real: Path, rng: Random) -> None:
        """Put what a power cut may leave into ``real``."""
        for name, file in self.files.items():
            if name in self._stable or rng.random() < 0.5:
                (real / name).write_bytes(file.after_power_cut(rng))


class FaultyDisk:
    """The disk that all of it is on, and its faults."""

    def __init__(self, seed: int = 0, *, room: int | None = None, short: float = 0.0) -> None:
        """``room`` is the free space in bytes, None for plenty; ``short`` the chance that a write takes only a part."""
        self.room = room
        self.power_left: int | None = None  #: calls until the power is cut in the middle of one
        self._rng = Random(seed)
        self._short = short
        self._syncs = 0
        self._failing_syncs: set[int] = set()
        self._overwrites_fail = False
        self._folders: dict[str, FaultyFolder] = {}

    def folder(self, path: str) -> FaultyFolder:
        """A directory on this disk."""
        return self._folders.setdefault(path, FaultyFolder(self, path))

    def leave(self, root: Path) -> None:
        """Put what readers see as long as the power is on into ``root``."""
        for path, folder in self._folders.items():
            (root / path).mkdir(parents=True, exist_ok=True)
            folder.leave(root / path)

    def crash(self, rng: Random, root: Path) -> None:
        """Cut the power, and put what that may leave into ``root``."""
        for path, folder in self._folders.items():
            (root / path).mkdir(parents=True, exist_ok=True)
            folder.leave_after_power_cut(root / path, rng)

    def fail_sync(self, *nth: int) -> None:
        """Let the nth sync from now on fail, 1 being the next; of files and of folders alike."""
        self._failing_syncs.update(self._syncs + number for number in nth)

    def fail_overwrites(self) -> None:
        """Let every overwrite fail from now on."""
        self._overwrites_fail = True

    def draw_power(self) -> None:
        """Count a call; PowerCut if it is the one that does not come back."""
        if self.power_left is not None:
            self.power_left -= 1
            if self.power_left < 0:
                raise PowerCut

    def take(self, size: int) -> int:
        """How much of a write of ``size`` is taken; OSError if nothing can be."""
        self.check_room()
        if self._rng.random() < self._short:
            size = self._rng.randint(1, size)
        if self.room is not None:
            size = min(size, self.room)
            self.room -= size
        return size

    def check_room(self) -> None:
        """OSError if the disk is full."""
        if self.room is not None and self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def check_overwrite(self) -> None:
        """OSError if overwrites fail."""
        if self._overwrites_fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync_fails(self) -> bool:
        """Count a sync, and say whether it is one that fails."""
        self._syncs += 1
        return self._syncs in self._failing_syncs


def _apply(data: bytearray, position: int, part: bytes) -> None:
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(part)] = part


def _sectors(write: _Write) -> Iterable[tuple[int, bytes]]:
    position = write.position
    while position < write.end:
        end = min(write.end, (position // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield position, write.data[position - write.position : end - write.position]
        position = end
