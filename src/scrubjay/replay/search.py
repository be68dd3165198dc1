"""Everything that was ever shown or typed, to be found again: one SQLite file per data directory.

It is a cache. Deleting it loses nothing, and one that is damaged or of another version is deleted and made again
from the tapes. Several processes may use it at once. The words of rows are in FTS5 tables without content, their
texts in compressed blocks that are read only for what is shown.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import compress, count
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple, Self

from scrubjay.errors import IndexDiscarded, SearchUnavailable
from scrubjay.query import TOKENIZER, Query, expression, parse_query, spread
from scrubjay.replay.finder import KINDS, TAPE_BITS, Finder, Hit, Stretch, read_block, read_edge, row_id, row_ids
from scrubjay.replay.rows import BLOCK_BITS, BLOCK_ROWS, BadBlock, Block, encode_rows, pack, unpack

__all__ = ["INDEX_NAME", "Hit", "Progress", "SearchIndex", "find_in"]

INDEX_NAME = "search.sqlite"  #: in the data directory

_VERSION = 2
_APPLICATION = 0x534A5331
_BUSY_S = 30.0  # a batch of another process takes a second or two
_FORGET_BLOCKS = 64  # in one transaction

_SCHEMA = f"""
CREATE TABLE tape (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    wall_us INTEGER,
    rows INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER NOT NULL DEFAULT 0,
    offset INTEGER NOT NULL DEFAULT 0,
    state BLOB NOT NULL DEFAULT x''
);
CREATE TABLE block (key INTEGER PRIMARY KEY, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, data BLOB NOT NULL);
CREATE VIRTUAL TABLE shown USING fts5(text, content='', columnsize=0, tokenize="{TOKENIZER}");
CREATE VIRTUAL TABLE typed USING fts5(text, content='', columnsize=0, tokenize="{TOKENIZER}");
"""
# Words of 10,000 rows are gathered before they are written, which the caches of a processor still hold, and merged 64
# to 1: of all ways to fill it quickly, searching suffers least from this one.
_TUNING = (("hashsize", 2 << 20), ("automerge", 64), ("crisismerge", 256))

_TROUBLE = (sqlite3.Error, BadBlock, UnicodeDecodeError)  # the last when SQLite quotes what is damaged
# What is wrong with the machine or somebody else's doing; anything else is wrong with the file.
_CIRCUMSTANCES = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
    | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL}
)

_Row = tuple[int, int, int, str, str]


class Progress(NamedTuple):
    """How far a tape has been taken in."""

    offset: int = 0
    state: bytes = b""  #: what whoever takes it in needs to go on


class _Tape(NamedTuple):
    number: int
    id: str
    wall_us: int | None
    rows: int
    last_at: int

    @property
    def first(self) -> int:
        """The number of its first row."""
        return self.number << TAPE_BITS


class SearchIndex:
    """The rows of all tapes of a data directory. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the index; SearchUnavailable says why that cannot be done."""
        self._path = path
        self._added: dict[str, list[_Row]] = {}
        self._began: dict[str, int] = {}
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SearchUnavailable(str(path), error.strerror or str(error)) from error
        # Held as long as the file is open: who deletes it under somebody's feet would mix up their journals.
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        try:
            self._connection = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Give the file back; what was added and not finished is dropped."""
        self._connection.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, tape: str, wall_us: int | None) -> None:
        """Say when a tape began, so that its rows have a time."""
        known = self._find(tape)
        if known is None or known.wall_us != wall_us:
            with self._transaction("IMMEDIATE"):
                self._connection.execute(
                    "INSERT INTO tape (id, wall_us) VALUES (?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET wall_us = excluded.wall_us",
                    (tape, wall_us),
                )

    def progress(self, tape: str) -> Progress:
        """How far a tape has been taken in; what was added since and not finished is dropped."""
        self._added.pop(tape, None)
        with self._guard():
            found = self._connection.execute("SELECT offset, state FROM tape WHERE id = ?", (tape,)).fetchone()
            offset, state = found or (0, b"")
            progress = Progress(offset, unpack(state) if state else b"")
        self._began[tape] = progress.offset
        return progress

    def add(self, tape: str, rows: Iterable[_Row]) -> None:
        """Add rows (at, offset, y, kind, text); nobody finds them before the batch is finished."""
        self._added.setdefault(tape, []).extend(rows)

    def finish_batch(self, tape: str, offset: int, state: bytes) -> None:
        """Keep what was added, and that the tape has been taken in up to ``offset``: both, or neither.

        If another process has taken in the same part meanwhile, or the batch before was lost, this one is dropped.
        """
        rows = sorted(self._added.pop(tape, []), key=itemgetter(0))
        began = self._began.get(tape, 0)
        self._began[tape] = -1
        with self._transaction("IMMEDIATE"):
            self._connection.execute("INSERT OR IGNORE INTO tape (id) VALUES (?)", (tape,))
            number, have, reached = self._connection.execute(
                "SELECT number, rows, offset FROM tape WHERE id = ?", (tape,)
            ).fetchone()
            if reached != began:
                return
            if rows:
                self._append(number, have, rows)
            self._connection.execute(
                "UPDATE tape SET rows = rows + ?, last_at = max(last_at, ?), offset = ?, state = ? WHERE number = ?",
                (len(rows), rows[-1][0] if rows else 0, offset, pack(state), number),
            )
        self._began[tape] = offset

    def forget(self, tape: str) -> None:
        """Remove a tape's rows; it can be taken in again from its start."""
        self._added.pop(tape, None)
        self._began.pop(tape, None)
        with self._transaction("IMMEDIATE"):
            # First nobody can find it, then it goes bit by bit: what a crash leaves is removed the next time.
            self._connection.execute("UPDATE tape SET id = NULL WHERE id = ?", (tape,))
        while self._forget_some():
            pass

    def clear(self) -> None:
        """Remove everything, which is quicker than tape by tape."""
        self._discard()

    def tapes(self) -> list[str]:
        """The tapes that are known, in the order they came."""
        with self._guard():
            return [tape.id for tape in self._tapes()]

    def search(
        self,
        query: Query,
        *,
        tapes: Collection[str] | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> list[Hit]:
        """The newest rows that match, or the oldest, of some tapes or all, by the wall clock of some time or all."""
        with self._transaction("DEFERRED"):
            stretches = list(self._stretches(tapes, since_us, until_us))
            return Finder(self._connection, query, stretches, limit=limit, newest_first=newest_first).find()

    def count(self, query: Query, *, tapes: Collection[str] | None = None) -> int:
        """How many rows match."""
        wanted = expression(query.terms, query.without)
        kinds = KINDS if query.kind is None else (query.kind,)
        with self._transaction("DEFERRED"):
            return sum(
                self._connection.execute(
                    f"SELECT count(*) FROM {kind} WHERE {kind} MATCH ? AND rowid BETWEEN ? AND ?",
                    (wanted, *row_ids([stretch])),
                ).fetchone()[0]
                for stretch in self._stretches(tapes, None, None)
                for kind in kinds
            )

    def _append(self, number: int, have: int, rows: list[_Row]) -> None:
        rows, texts = _prepare(rows)
        first = (number << TAPE_BITS) + have
        lowest = row_id(first + len(rows) - 1)  # FTS5 wants ids to go up
        kinds = [row[3] for row in reversed(rows)]
        for kind in KINDS:
            numbered = compress(zip(count(lowest), reversed(texts)), map(kind.__eq__, kinds))
            self._connection.executemany(f"INSERT INTO {kind} (rowid, text) VALUES (?, ?)", numbered)
        if left := have % BLOCK_ROWS:
            block = read_block(self._connection, first >> BLOCK_BITS)
            rows = [*(block[index] for index in range(left)), *rows]
            first -= left
        for start in range(0, len(rows), BLOCK_ROWS):
            some = rows[start : start + BLOCK_ROWS]
            self._connection.execute(
                "INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?)",
                ((first + start) >> BLOCK_BITS, some[0][0], some[-1][0], encode_rows(some)),
            )

    def _forget_some(self) -> bool:
        """Remove some blocks of a tape that is forgotten; whether there may be more."""
        with self._transaction("IMMEDIATE"):
            found = self._connection.execute("SELECT number FROM tape WHERE id IS NULL").fetchone()
            if found is None:
                return False
            key = found[0] << (TAPE_BITS - BLOCK_BITS)
            until = (found[0] + 1) << (TAPE_BITS - BLOCK_BITS)
            blocks = self._connection.execute(
                "SELECT key, data FROM block WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?",
                (key, until, _FORGET_BLOCKS),
            ).fetchall()
            for key, data in blocks:
                self._forget_block(key, Block(data))
            if not blocks:
                self._connection.execute("DELETE FROM tape WHERE number = ?", found)
        return True

    def _forget_block(self, key: int, block: Block) -> None:
        rows = [(row_id((key << BLOCK_BITS) + index), block[index]) for index in reversed(range(len(block)))]
        for kind in KINDS:
            # FTS5 without content must be told what it is to remove.
            self._connection.executemany(
                f"INSERT INTO {kind} ({kind}, rowid, text) VALUES ('delete', ?, ?)",
                [(number, spread(row.text)) for number, row in rows if row.kind == kind],
            )
        self._connection.execute("DELETE FROM block WHERE key = ?", (key,))

    def _find(self, tape: str) -> _Tape | None:
        with self._guard():
            return next(self._tapes("id = ?", (tape,)), None)

    def _tapes(self, where: str = "id IS NOT NULL", values: tuple[str, ...] = ()) -> Iterator[_Tape]:
        select = f"SELECT number, id, wall_us, rows, last_at FROM tape WHERE {where} ORDER BY number"
        return map(_Tape._make, self._connection.execute(select, values))

    def _stretches(
        self, tapes: Collection[str] | None, since_us: int | None, until_us: int | None
    ) -> Iterator[Stretch]:
        wanted = None if tapes is None else frozenset(tapes)
        for tape in list(self._tapes()):
            if not tape.rows or (wanted is not None and tape.id not in wanted):
                continue
            first, last = tape.first, tape.first + tape.rows - 1
            if since_us is None and until_us is None:
                yield Stretch(tape.id, tape.wall_us, first, last)
                continue
            if tape.wall_us is None:
                continue
            since = None if since_us is None or since_us <= tape.wall_us else since_us - tape.wall_us
            until = None if until_us is None or until_us >= tape.wall_us + tape.last_at else until_us - tape.wall_us
            blocks = range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1)
            if since is not None:
                edge = partial(read_edge, self._connection, "last_at")
                first += bisect_left(blocks, since, key=edge) << BLOCK_BITS
            if until is not None:
                edge = partial(read_edge, self._connection, "first_at")
                last = min(last, tape.first + (bisect_right(blocks, until, key=edge) << BLOCK_BITS) - 1)
            if first <= last:
                yield Stretch(tape.id, tape.wall_us, first, last, since, until)

    @contextmanager
    def _transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Generator[None]:
        with self._guard():
            self._connection.execute(f"BEGIN {kind}")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _guard(self) -> Generator[None]:
        """Turn SQLite's errors into ours; a damaged file is thrown away on the spot."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except _TROUBLE as error:
            if _is_circumstance(error):
                raise SearchUnavailable(str(self._path), str(error)) from error
            self._discard()
            raise IndexDiscarded(str(self._path)) from error

    def _open(self) -> sqlite3.Connection:
        connection = None
        try:
            connection = self._connect()
            if _is_ours(connection):
                return connection
        except _TROUBLE as error:
            if _is_circumstance(error):
                raise SearchUnavailable(str(self._path), str(error)) from error
        if connection is not None:
            connection.close()
        self._delete()
        try:
            connection = self._connect()
            _is_ours(connection)
        except sqlite3.Error as error:
            raise SearchUnavailable(str(self._path), str(error)) from error
        return connection

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            # Killing a process must not tear the file, so there is a journal; after a power cut it may be made again.
            for setting in ("journal_mode = TRUNCATE", "synchronous = OFF", "cache_size = -32768"):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        self._connection.close()
        self._added.clear()
        self._began.clear()
        self._delete()
        self._connection = self._open()

    def _delete(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            why = "it is damaged or of another version, and another process has it open"
            raise SearchUnavailable(str(self._path), why) from error
        try:
            for path in (self._path, Path(f"{self._path}-journal")):
                path.unlink(missing_ok=True)
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_SH)


def find_in(index: SearchIndex, tapes: Collection[str], text: str, limit: int) -> list[Hit]:
    """The first rows of some tapes that match what a person typed; BadQuery if that holds no word."""
    return index.search(parse_query(text), tapes=tapes, limit=limit, newest_first=False)


def _prepare(rows: list[_Row]) -> tuple[list[_Row], list[str]]:
    """Rows whose texts are each one line of Unicode, and these texts as FTS5 is to have them."""
    texts = [row[4] for row in rows]
    joined = "\n".join(texts)
    if joined.count("\n") >= len(rows) or not _is_unicode(joined):
        texts = [text.replace("\n", " ").encode("utf-8", "replace").decode() for text in texts]
        rows = [(*row[:4], text) for row, text in zip(rows, texts, strict=True)]
        joined = "\n".join(texts)
    return rows, texts if joined.isascii() else list(map(spread, texts))


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the file is an index of this version; an empty one becomes one."""
    if _read_version(connection) == (0, 0):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                _create(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
    return _read_version(connection) == (_APPLICATION, _VERSION)


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    for kind in KINDS:
        for option, value in _TUNING:
            connection.execute(f"INSERT INTO {kind} ({kind}, rank) VALUES (?, ?)", (option, value))
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _read_version(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _is_circumstance(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return isinstance(error, sqlite3.Error) and code & 0xFF in _CIRCUMSTANCES
