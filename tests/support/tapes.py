"""Tapes for tests: made on a real disk in one call, then looked at, cut, spoilt and put back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from scrubjay.tape.anchor import WATERMARK, Anchor, read_anchor
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import SEGMENT_BYTES, Kind
from scrubjay.tape.payload import encode_json, encode_size, encode_typed
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record
from scrubjay.tape.seal import Sealed, seal_ended_segments
from scrubjay.tape.verify import Report, verify
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter

TAPE_ID = "jaytapejaytapejaytapejay23"
OTHER_ID = "owltapeowltapeowltapeowl45"

Content = tuple[int, int, bytes]
"""Kind, at and payload of a record."""


@dataclass(frozen=True, slots=True)
class TapeOnDisk:
    """A tape's two folders and its id."""

    root: Path
    id: str

    @property
    def folder(self) -> Path:
        """Where its segments are."""
        return self.root / "tape"

    def open(self) -> Tape:
        """The tape, for reading."""
        return Tape(self.folder, self.id)

    def anchor(self) -> Anchor:
        """What is kept outside the tape."""
        return read_anchor(self.root, self.id)

    def verify(self, *, live: bool = False) -> Report:
        """Verify it against its anchor."""
        return verify(self.open(), self.anchor(), live=live)

    def verify_unanchored(self) -> Report:
        """Verify it with nothing but itself."""
        return verify(self.open(), Anchor(None, {}))

    def records(self, offset: int = 0) -> list[Record]:
        """Every readable record."""
        return list(self.open().records(offset))

    def contents(self) -> list[Content]:
        """Every readable record without its place."""
        return [content_of(record) for record in self.open().records()]

    def checksums(self) -> list[tuple[int, int]]:
        """Offset and checksum of every readable record, which is quicker to compare than all of it."""
        return [(record.offset, record.checksum) for record in self.open().records()]

    def damage(self) -> list[Damage]:
        """Everything that cannot be read."""
        return [item for item in self.open().scan() if isinstance(item, Damage)]

    def seal(self, *, complete: bool = True) -> Sealed:
        """Seal what has ended."""
        return seal_ended_segments(self.folder, self.root, self.id, complete=complete)

    def segments(self, pattern: str = "*") -> list[Path]:
        """Its segment files by number."""
        return sorted(path for path in self.folder.glob(pattern) if path.suffix in {".raw", ".sealed"})

    def files(self) -> dict[str, bytes]:
        """Everything it consists of, the anchor included."""
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def put_back(self, files: dict[str, bytes]) -> None:
        """Make it what ``files`` was."""
        for path in self.root.rglob("*"):
            if path.is_file() and str(path.relative_to(self.root)) not in files:
                path.unlink()
        for name, data in files.items():
            (self.root / name).write_bytes(data)

    def copy(self, root: Path) -> TapeOnDisk:
        """The same tape elsewhere."""
        shutil.copytree(self.root, root)
        return TapeOnDisk(root, self.id)

    def forget_anchor(self) -> None:
        """Lose what is kept outside the tape."""
        for name in (WATERMARK, "seals"):
            (self.root / name).unlink(missing_ok=True)


def content_of(record: Record) -> Content:
    """A record without its place."""
    return record.kind, record.at, record.payload


def begin_tape(
    root: Path, tape: str = TAPE_ID, *, watermark: bool = True, segment_bytes: int = SEGMENT_BYTES
) -> TapeWriter:
    """A writer of a new tape on the real disk."""
    (root / "tape").mkdir(parents=True)
    marks = WatermarkFile(Folder(str(root)).create(WATERMARK), tape) if watermark else None
    return TapeWriter(Folder(str(root / "tape")), tape, watermark=marks, segment_bytes=segment_bytes)


def make_tape(
    root: Path,
    contents: Iterable[Content],
    tape: str = TAPE_ID,
    *,
    watermark: bool = True,
    closed: bool = True,
    segment_bytes: int = SEGMENT_BYTES,
    sync_every: int = 0,
) -> TapeOnDisk:
    """Write a tape, sync it at its end (and after every so many records) and, if ``closed``, end it with a seal."""
    writer = begin_tape(root, tape, watermark=watermark, segment_bytes=segment_bytes)
    at = 0
    for number, (kind, at, payload) in enumerate(contents, 1):
        writer.append(kind, at, payload)
        if sync_every and number % sync_every == 0:
            writer.sync()
    if closed:
        writer.append(Kind.SEAL, at, encode_json(reason="exit"))
    writer.sync()
    writer.close()
    return TapeOnDisk(root, tape)


def outputs(count: int, size: int = 40, *, step_us: int = 1000) -> list[Content]:
    """A head and ``count`` outputs of ``size`` bytes that all differ."""
    head = (int(Kind.HEAD), 0, encode_json(format=1, argv=["agent"]))
    return [
        head,
        *((int(Kind.OUTPUT), n * step_us, f"{n:08d}".encode().ljust(size, b".")) for n in range(1, count + 1)),
    ]


def any_contents(rng: Random, count: int, *, largest: int = 900) -> list[Content]:
    """Records of every kind, known and not, of all sizes, some at the same instant."""
    contents: list[Content] = []
    at = 0
    for _ in range(count):
        at += rng.choice((0, 0, 1, 1000, 10**6))
        kind = rng.choice((Kind.OUTPUT, Kind.OUTPUT, Kind.OUTPUT, Kind.INPUT, Kind.RESIZE, Kind.MARK, 42, 63))
        size = rng.choice((0, 1, rng.randrange(60), rng.randrange(largest)))
        if kind == Kind.INPUT:
            payload = encode_typed(rng.randbytes(size), "ann", hidden=rng.random() < 0.5)
        elif kind == Kind.RESIZE:
            payload = encode_size(rng.randint(1, 300), rng.randint(1, 100))
        elif kind == Kind.MARK:
            payload = encode_json(label="x" * size)
        else:
            # Half of it zeros: what record headers are made of.
            payload = bytes(b if b & 1 else 0 for b in rng.randbytes(size))
        contents.append((int(kind), at, payload))
    return contents


class Flipper:
    """Turns single bits of a file and turns them back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole = path.read_bytes()
        self.bits = len(self.whole) * 8

    @contextmanager
    def flipped(self, bit: int) -> Generator[None]:
        """Turn a bit for a while, in which nobody may change the file."""
        position, byte = bit // 8, self.whole[bit // 8]
        fd = os.open(self.path, os.O_RDWR)
        try:
            os.pwrite(fd, bytes([byte ^ 1 << bit % 8]), position)
            yield
            found = bytearray(os.pread(fd, len(self.whole) + 1, 0))
            os.pwrite(fd, bytes([byte]), position)
        finally:
            os.close(fd)
        found[position] ^= 1 << bit % 8
        assert found == self.whole, "reading has changed the file"
