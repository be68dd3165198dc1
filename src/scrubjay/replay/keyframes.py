"""The keyframes of one tape on disk, and what else was learned on the way.

A cache beside the tape: one SQLite file that may be deleted at any time. One of another engine, version or tape, or a
damaged one, is begun anew by whoever writes and looks empty to whoever reads.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Self

from scrubjay.screen import keyframe
from scrubjay.tape.reader import Tape

VERSION = 4
FILE = "keyframes.sqlite"
_BUSY_MS = 5000
_PAGE_BYTES = 512  # of keyframes that take some 2000 each; in the usual 4096 each would have a page of its own
_SCHEMA = """
CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE keyframe(
    offset INTEGER, at INTEGER, whole INTEGER, spare INTEGER, base INTEGER, digest BLOB, data BLOB);
CREATE UNIQUE INDEX keyframe_offset ON keyframe(whole, offset);
CREATE INDEX keyframe_at ON keyframe(whole, at, offset);
"""
_PLACE = struct.Struct("<QQ?")
_DIGEST_BYTES = sha256().digest_size
SMALL_BYTES = 2 << 20  # a tape of this size is walked in the blink of an eye; a file would be larger than the tape
WORTH_A_BASE = 0.8  # of what its base takes that a keyframe may take beside it, or it becomes a base itself


class _Rotten(Exception):
    """Bytes that are not what was kept."""


class CannotKeep(Exception):
    """The disk takes no more keyframes: it is full, or not ours to write to."""


# The second when SQLite quotes what is damaged.
_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError, _Rotten)


@dataclass(frozen=True, slots=True)
class Keyframe:
    """A screen to go on from."""

    offset: int  #: of the tape, after the last record it holds
    at: int  #: of that record
    snapshot: bytes
    whole: bool  #: with what had scrolled off


@dataclass(frozen=True, slots=True)
class Hole:
    """A part of the tape that is not on the screens after it."""

    start: int
    stop: int
    why: str


@dataclass(slots=True)
class Activity:
    """How much was shown when, in at most 2048 equal parts."""

    width_us: int = 100_000
    counts: list[int] = field(default_factory=list[int])

    _PARTS_MAX = 2048

    def add(self, at: int, count: int) -> None:
        """So much was shown then."""
        part = at // self.width_us
        while part >= self._PARTS_MAX:
            self.width_us *= 2
            even = self.counts + [0] * (len(self.counts) % 2)
            self.counts = [even[i] + even[i + 1] for i in range(0, len(even), 2)]
            part = at // self.width_us
        self.counts += [0] * (part + 1 - len(self.counts))
        self.counts[part] += count


@dataclass(slots=True)
class Covered:
    """How far the keyframes go, what they cost, and what else was learned on the way."""

    offset: int = 0
    at: int = 0
    output_bytes: int = 0  #: shown so far
    stored_bytes: int = 0  #: that takes about so much of the sealed tape
    kept_bytes: int = 0  #: of keyframes
    whole_bytes: int = 0  #: of those with history
    last_output_at: int = 0
    activity: Activity = field(default_factory=Activity)
    idle: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    marks: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])  #: at, label and author
    clocks: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  #: at and wall clock, where it was set
    holes: list[Hole] = field(default_factory=list[Hole])  #: what is missing on the screens

    def sign(self) -> bytes:
        """As it is kept."""
        body = json.dumps(asdict(self)).encode()
        return sha256(body).digest() + body

    @classmethod
    def read(cls, kept: object) -> Self:
        """As it was kept; _Rotten if it is not."""
        if not isinstance(kept, bytes) or sha256(kept[_DIGEST_BYTES:]).digest() != kept[:_DIGEST_BYTES]:
            raise _Rotten
        fields = json.loads(kept[_DIGEST_BYTES:])
        pairs = {name: [tuple(pair) for pair in fields[name]] for name in ("idle", "marks", "clocks")}
        holes = [Hole(**hole) for hole in fields["holes"]]
        return cls(**fields | pairs | {"holes": holes, "activity": Activity(**fields["activity"])})


class Keyframes:
    """The keyframes of one tape; those of a small one are kept in memory alone."""

    def __init__(self, folder: Path, tape: str, engine: str, *, small: bool = False) -> None:
        self.small = small
        self._path = folder / FILE
        self._lock_path = folder / "keyframes.lock"
        self._about = {"version": str(VERSION), "tape": tape, "engine": engine}
        self._connection: sqlite3.Connection | None = None
        self._base: Keyframe | None = None  # the last one that others were packed against
        self._base_bytes = 0  # which takes so much by itself
        self._rotten = False  # whether the file is damaged, and nothing in it to be believed
        self._open()

    def _open(self) -> None:
        """Open the file if there is one that is ours."""
        if self.small:
            return
        self.close()
        if self._rotten or not self._path.exists():
            return
        try:
            connection = _connect(self._path)
            found = dict(connection.execute("SELECT name, value FROM about").fetchall())
        except _DAMAGED:
            return
        if all(found.get(name) == value for name, value in self._about.items()):
            self._connection = connection
        else:
            connection.close()

    @contextmanager
    def writing(self) -> Generator[bool]:
        """Be the only one who adds; False if another process does already. CannotKeep if the disk takes nothing."""
        if self.small:
            if self._connection is None:
                self.reset()
            yield True
            return
        try:
            self._lock_path.parent.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotKeep(str(error)) from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            self._open()
            if self._connection is None:
                self.reset()
            yield True
        finally:
            if self._rotten:
                with suppress(CannotKeep):
                    self.clear()
            os.close(lock)

    def reset(self) -> None:
        """Begin anew, with nothing."""
        self.clear()
        with self._keeping():
            if self.small:
                self._connection = sqlite3.connect(":memory:", check_same_thread=False)
            else:
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self._connection = _connect(self._path)
            self._connection.executescript(_SCHEMA)
            with self._connection:
                self._connection.executemany("INSERT INTO about VALUES (?, ?)", self._about.items())

    def keep_in_memory(self) -> None:
        """Go on without a file: nobody but us has any use of them."""
        self.close()
        self.small = True

    def clear(self) -> None:
        """Delete everything."""
        self.close()
        self._base = None
        if self.small:
            return
        for ending in ("", "-journal"):
            with self._keeping(), suppress(FileNotFoundError):
                os.unlink(f"{self._path}{ending}")
        self._rotten = False

    def close(self) -> None:
        """Give the file back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def exists(self) -> bool:
        """Whether there are any that can be used."""
        if self._connection is None:
            self._open()
        return self._connection is not None

    @property
    def stored_bytes(self) -> int:
        """What they take on disk."""
        return self._path.stat().st_size if self._path.exists() else 0

    def covered(self) -> Covered:
        """How far they go."""
        rows = self._query("SELECT value FROM about WHERE name = 'covered'")
        with self._distrusting():
            return Covered.read(rows[0][0]) if rows else Covered()
        return Covered()

    def nearest(self, at: int, *, whole: bool = False) -> Keyframe | None:
        """The last one not after an instant."""
        return self._find("at", at, whole=whole)

    def nearest_offset(self, offset: int, *, whole: bool = False) -> Keyframe | None:
        """The last one not after an offset."""
        return self._find("offset", offset, whole=whole)

    def offsets(self) -> list[int]:
        """Where they are."""
        return [offset for (offset,) in self._query("SELECT offset FROM keyframe WHERE NOT whole ORDER BY offset")]

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if not self.exists or self._connection is None:
            return []
        with self._distrusting():
            return self._connection.execute(sql, values).fetchall()
        return []

    @contextmanager
    def _distrusting(self) -> Generator[None]:
        """What fails within makes the file look empty, and be begun anew by whoever writes."""
        try:
            yield
        except sqlite3.OperationalError:  # something about the disk, not about the file
            self.close()
        except _DAMAGED:
            self.close()
            self._rotten = True

    def _find(self, by: str, value: int, *, whole: bool) -> Keyframe | None:
        # In the order of an index, or SQLite would walk through all of them.
        order = "offset DESC" if by == "offset" else "at DESC, offset DESC"
        query = f"SELECT * FROM keyframe WHERE whole = ? AND {by} <= ? ORDER BY {order} LIMIT 1 OFFSET ?"
        for rotten in count():
            rows = self._query(query, whole, value, rotten)
            if not rows:
                break
            with suppress(keyframe.BadKeyframe):
                found = self._unpack(*rows[0])
                # A damaged index leads anywhere.
                if found.whole == whole and (found.offset if by == "offset" else found.at) <= value:
                    return found
        return None

    def _unpack(
        self, offset: int, at: int, whole: int, _spare: int, base: int | None, digest: bytes, data: object
    ) -> Keyframe:
        try:
            place = _PLACE.pack(offset, at, whole)
        except struct.error as error:
            raise keyframe.BadKeyframe("a keyframe without a place") from error
        if not isinstance(data, bytes):
            raise keyframe.BadKeyframe("a keyframe without a snapshot")
        if base is None:
            return Keyframe(offset, at, keyframe.unpack(data, digest, place), bool(whole))
        beside = self._base
        if beside is None or beside.offset != base:
            rows = self._query("SELECT * FROM keyframe WHERE NOT whole AND offset = ? AND base IS NULL", base)
            if not rows:
                raise keyframe.BadKeyframe("a keyframe whose base is gone")
            beside = self._base = self._unpack(*rows[0])
            self._base_bytes = len(rows[0][-1])
        return Keyframe(offset, at, keyframe.unpack(data, digest, place, beside.snapshot), bool(whole))

    def add(self, frame: Keyframe, *, spare: bool = False) -> int:
        """Keep a keyframe; how many bytes it takes. A ``spare`` one is dropped when the next spare one comes."""
        assert self._connection is not None
        base = None if frame.whole or self._base is None else self._base
        data = keyframe.pack(frame.snapshot, base.snapshot if base is not None else None)
        if base is not None and len(data) > WORTH_A_BASE * self._base_bytes:
            data, base = keyframe.pack(frame.snapshot), None
        if base is None and not frame.whole:
            self._base, self._base_bytes = frame, len(data)
        values = (frame.offset, frame.at, frame.whole, spare, base.offset if base is not None else None)
        place = _PLACE.pack(frame.offset, frame.at, frame.whole)
        self._change(
            "INSERT OR REPLACE INTO keyframe VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*values, keyframe.digest(frame.snapshot, place), data),
        )
        return len(data)

    def drop_spare(self, offset: int) -> None:
        """Forget spare keyframes before an offset."""
        self._change("DELETE FROM keyframe WHERE spare AND offset < ?", (offset,))

    def commit(self, covered: Covered) -> None:
        """Make everything that was added since part of the file, all at once."""
        self._change("INSERT OR REPLACE INTO about VALUES ('covered', ?)", (covered.sign(),))
        assert self._connection is not None
        with self._keeping():
            self._connection.commit()

    def _change(self, sql: str, values: tuple[object, ...]) -> None:
        assert self._connection is not None
        with self._keeping():
            self._connection.execute(sql, values)

    def roll_back(self) -> None:
        """Take back what was added since."""
        if self._connection is not None:
            with suppress(*_DAMAGED):  # or of a full disk, where there is nothing to take back
                self._connection.rollback()

    @contextmanager
    def _keeping(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise CannotKeep(str(error)) from error
        except _DAMAGED as error:
            self._rotten = True
            raise CannotKeep(str(error)) from error


def open_keyframes(folder: Path, tape: Tape, engine: str) -> Keyframes:
    """The keyframes of a tape."""
    # A file that is there is of a tape that was larger, or is still growing.
    return Keyframes(folder, tape.id, engine, small=tape.end < SMALL_BYTES and not (folder / FILE).exists())


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, check_same_thread=False)
    # It is a cache: what a power cut spoils is found out by hash or by SQLite, and built anew.
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = OFF")
    return connection
