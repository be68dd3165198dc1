"""A recorder with a disk, a clock and a spare room that do as they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scrubjay.keeper.recorder import Recorder
from scrubjay.tape.anchor import read_anchor
from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Json, Record
from scrubjay.tape.verify import Report, verify
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import Sync, TapeWriter
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk

TAPE_ID = "jaytapejaytapejaytapejay23"
SYNC_US = 200_000
WINDOW_BYTES = 64 << 10
RESERVE_BYTES = 4096


@dataclass(slots=True)
class FakeReserve:
    """Spare room on a faulty disk."""

    disk: FaultyDisk
    held: bool = False

    def take(self) -> None:
        """Set the space aside if the disk has it."""
        if self.held or (self.disk.room is not None and self.disk.room < RESERVE_BYTES):
            return
        if self.disk.room is not None:
            self.disk.room -= RESERVE_BYTES
        self.held = True

    def release(self) -> bool:
        """Give the space back; True if there was any."""
        was_held, self.held = self.held, False
        if was_held and self.disk.room is not None:
            self.disk.room += RESERVE_BYTES
        return was_held


@dataclass(slots=True)
class Rig:
    """One recorder and everything around it."""

    root: Path
    best_effort: bool = False
    disk: FaultyDisk = field(default_factory=FaultyDisk)
    clock: FakeClock = field(default_factory=FakeClock)
    reserve: FakeReserve = field(init=False)
    recorder: Recorder = field(init=False)
    acknowledged: list[str] = field(default_factory=list[str])
    _looks: int = 0

    def __post_init__(self) -> None:
        self.reserve = FakeReserve(self.disk)
        watermark = WatermarkFile(self.disk.folder(".").create("watermark"), TAPE_ID)
        writer = TapeWriter(self.disk.folder("tape"), TAPE_ID, watermark=watermark, window_bytes=WINDOW_BYTES)
        self.recorder = Recorder(writer, self.clock, self.reserve, sync_us=SYNC_US, best_effort=self.best_effort)
        self.recorder.begin(argv=["agent"])

    def settle(self) -> Sync | None:
        """What a keeper does after every turn, up to the sync it would start."""
        self.recorder.flush()
        self.recorder.tick()
        return self.recorder.begin_sync()

    def sync(self) -> bool:
        """Settle, and let a sync that is due happen; whether one was."""
        sync = self.settle()
        if sync is None:
            return False
        self.recorder.finish_sync(sync.run())
        return True

    def sync_all(self) -> None:
        """Let enough time pass for everything to be synced."""
        while self.recorder.writer.synced < self.recorder.writer.offset:
            self.clock.advance(0.2)
            self.sync()

    def mark(self, label: str) -> None:
        """Record a mark that somebody waits for."""
        self.recorder.note(Kind.MARK, label=label)
        self.recorder.when_synced(lambda: self.acknowledged.append(label))

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Let the disk be full but for some bytes and the spare room."""
        self.disk.room = leave_bytes

    def free(self) -> None:
        """Let the disk have plenty of room."""
        self.disk.room = None

    def _tape(self) -> Tape:
        self._looks += 1
        root = self.root / str(self._looks)
        self.disk.leave(root)
        return Tape(root / "tape", TAPE_ID)

    def records(self, *kinds: Kind) -> list[Record]:
        """What a reader finds on the tape now, of these kinds if any are given."""
        return [record for record in self._tape().records() if not kinds or record.kind in kinds]

    def clocks(self, reason: str) -> list[Json]:
        """The clock records of that reason."""
        return [clock for record in self.records(Kind.CLOCK) if (clock := record.json())["reason"] == reason]

    def events(self) -> list[str]:
        """The names of the events in order."""
        return [str(record.json()["event"]) for record in self.records(Kind.EVENT)]

    def output(self) -> bytes:
        """Everything the agent has shown."""
        return b"".join(record.payload for record in self.records(Kind.OUTPUT))

    def segments(self) -> int:
        """How many segment files there are."""
        return len(self.disk.folder("tape").files)

    def report(self) -> Report:
        """What verifying the tape says."""
        tape = self._tape()
        return verify(tape, read_anchor(tape.folder.parent, TAPE_ID))
