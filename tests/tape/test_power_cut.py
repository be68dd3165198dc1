"""R8: after a power cut everything acknowledged is there, and the tape says truly what is not."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from scrubjay.errors import DiskFull
from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.format import RECORD_OVERHEAD_BYTES, Kind
from scrubjay.tape.recover import Recovery, close_lost_tape, find_end, reopen
from scrubjay.tape.segment import list_segments
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import Sync, TapeWriter
from tests.support.faulty_disk import FaultyDisk, PowerCut
from tests.support.tapes import TAPE_ID, Content, TapeOnDisk, any_contents, content_of
from tests.support.tiers import sized

LIVES = 3
NOTHING = Recovery(0, 0, 0, 0, 0)


@dataclass
class Ledger:
    """What was appended, how much of it was acknowledged, and where the watermark is known to be on the medium."""

    contents: list[Content] = field(default_factory=list[Content])
    acknowledged: int = 0
    anchored: int | None = None

    def forget_after(self, count: int) -> None:
        """Keep the first ``count`` records."""
        del self.contents[count:]

    def end_of(self, count: int) -> int:
        """The offset after the first ``count`` records."""
        return sum(RECORD_OVERHEAD_BYTES + len(payload) for _, _, payload in self.contents[:count])


class Life:
    """One writer on a disk that will lose its power, which does what a keeper does in any order."""

    def __init__(self, rng: Random, disk: FaultyDisk, ledger: Ledger, recovery: Recovery, *, number: int, turn: int):
        marks = WatermarkFile(disk.folder(".").reopen(WATERMARK), TAPE_ID, turn=turn)
        if rng.random() < 0.5:
            marks.put(recovery.end, recovery.chain)
            marks.sync()
            disk.folder(".").sync()
            ledger.anchored = recovery.end
        self._writer = TapeWriter(
            disk.folder("tape"),
            TAPE_ID,
            watermark=marks,
            start=recovery.end,
            chain=recovery.chain,
            number=number,
            segment_bytes=rng.choice((300, 2000, 100_000)),
            window_bytes=rng.choice((1000, 10_000)),
        )
        self._rng, self._disk, self._ledger = rng, disk, ledger
        self._anchors = False
        self._begun: Sync | None = None
        self._ran: Sync | None = None

    def live(self, steps: int) -> None:
        """Do ``steps`` things."""
        ways = (
            self._append,
            self._append,
            self._append_and_flush,
            self._flush,
            self._begin_sync,
            self._run_sync,
            self._finish_sync,
        )
        for _ in range(steps):
            self._rng.choice(ways)()

    def end(self) -> None:
        """Close the tape, as far as the disk lets it."""
        while self._begun is not None or self._ran is not None:
            self._run_sync()
            self._finish_sync()
        at = self._ledger.contents[-1][1] if self._ledger.contents else 0
        self._put((int(Kind.SEAL), at, b"{}"))
        with suppress(OSError, DiskFull):
            self._writer.sync()
            self._ledger.acknowledged = self._writer.synced

    def _put(self, content: Content) -> None:
        self._writer.append(*content)
        self._ledger.contents.append(content)

    def _append(self) -> None:
        at = self._ledger.contents[-1][1] if self._ledger.contents else 0
        for kind, later, payload in any_contents(self._rng, self._rng.randint(1, 4)):
            if not self._writer.full:
                self._put((kind, at + later, payload))

    def _append_and_flush(self) -> None:
        at = self._ledger.contents[-1][1] if self._ledger.contents else 0
        (kind, later, payload), *_ = any_contents(self._rng, 1)
        if not self._writer.full:
            self._ledger.contents.append((kind, at + later, payload))
            self._write(lambda: self._writer.put(kind, at + later, payload[:1], payload[1:]))

    def _flush(self) -> None:
        self._write(self._writer.flush)

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except DiskFull:
            self._disk.room = self._rng.randrange(1, 5000)
        except OSError as error:
            if error.errno != errno.EBUSY:  # condemned below, while a sync was under way
                raise
        if self._rng.random() < 0.03:
            self._writer.abandon()

    def _begin_sync(self) -> None:
        if self._writer.sync_due:
            self._anchors = self._rng.random() < 0.3
            self._begun = self._writer.begin_sync(anchor=self._anchors)

    def _run_sync(self) -> None:
        if self._begun is not None:
            if self._rng.random() < 0.1:
                self._disk.fail_sync(self._rng.randint(1, 4))
            self._ran, self._begun = self._begun.run(), None

    def _finish_sync(self) -> None:
        if self._ran is not None:
            if self._writer.finish_sync(self._ran):
                assert self._writer.synced >= self._ledger.acknowledged
                self._ledger.acknowledged = self._writer.synced
                if self._anchors and self._ledger.anchored is not None and self._ran.watermark_error is None:
                    self._ledger.anchored = self._ran.end
            self._ran = None


def test_after_a_power_cut_everything_acknowledged_is_recovered(ram_path: Path) -> None:
    for seed in range(sized(60, 500, 10_000)):
        try:
            _check_seed(seed, ram_path / str(seed))
            shutil.rmtree(ram_path / str(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def _check_seed(seed: int, root: Path) -> None:
    rng = Random(seed)
    ledger = Ledger()
    disk, recovery, number, turn = _new_disk(rng), NOTHING, 0, 0
    for life in range(LIVES):
        _live_until_the_power_is_cut(rng, disk, ledger, recovery, number=number, turn=turn)
        tape = TapeOnDisk(root / str(life), TAPE_ID)
        disk.crash(rng, tape.root)
        if not tape.segments():
            assert ledger.acknowledged == 0
            return

        recovery = _check_what_is_left(tape, ledger)
        if recovery.last_kind == Kind.SEAL:
            return
        number = list_segments(tape.folder)[-1].number
        watermark = tape.anchor().watermark
        turn = watermark.turn if watermark is not None else 0
        _check_that_it_goes_on(tape.copy(root / f"{life}-again"), ledger)
        writer, _ = reopen(tape.open(), tape.anchor(), tape.root)
        writer.close()
        disk = _new_disk(rng)
        disk.folder("tape").load(tape.folder)
        disk.folder(".").load(tape.root)


def _new_disk(rng: Random) -> FaultyDisk:
    return FaultyDisk(rng.randrange(1 << 30), room=rng.choice((None, None, 3000)), short=rng.choice((0.0, 0.3)))


def _live_until_the_power_is_cut(
    rng: Random, disk: FaultyDisk, ledger: Ledger, recovery: Recovery, *, number: int, turn: int
) -> None:
    if rng.random() < 0.9:
        disk.power_left = rng.randrange(60)
    with suppress(PowerCut):
        life = Life(rng, disk, ledger, recovery, number=number, turn=turn)
        life.live(rng.randrange(100))
        if rng.random() < 0.2:
            life.end()


def _check_what_is_left(tape: TapeOnDisk, ledger: Ledger) -> Recovery:
    before = tape.files()
    report, recovery = tape.verify(), find_end(tape.open(), tape.anchor())
    assert tape.files() == before

    recovered = [content_of(record) for record in tape.records() if record.end <= recovery.end]
    assert recovered == ledger.contents[: len(recovered)], "not the records that were written"
    assert recovery.end >= ledger.acknowledged, "an acknowledged record is lost"
    assert recovery.end == ledger.end_of(len(recovered)), "the watermark is ahead of what is there"
    watermark = tape.anchor().watermark
    if ledger.anchored is not None:
        assert watermark is not None, "the watermark is lost"
        assert watermark.offset >= ledger.anchored, "the watermark has gone back"
    if watermark is not None:
        assert report.verdict != "damaged", report.explain()
        assert (report.end, report.records) == (recovery.end, len(recovered))
    if report.verdict in ("clean", "unanchored"):
        assert recovered == ledger.contents
        assert recovered[-1][0] == Kind.SEAL
    ledger.forget_after(len(recovered))
    ledger.acknowledged = recovery.end
    return recovery


def _check_that_it_goes_on(tape: TapeOnDisk, ledger: Ledger) -> None:
    more = (int(Kind.OUTPUT), 1 << 50, b"after the power cut")
    writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
    end = writer.append(*more)
    writer.sync()
    writer.close()
    assert tape.contents() == [*ledger.contents, more]
    assert tape.verify().verdict == "torn"
    assert tape.verify().end == end
    watermark = tape.anchor().watermark
    assert watermark is not None
    assert watermark.offset == end

    assert close_lost_tape(tape.open(), tape.anchor(), tape.root).lost_bytes == 0

    assert tape.contents()[:-2] == [*ledger.contents, more]
    assert [record.kind for record in tape.records(end)] == [Kind.GAP, Kind.SEAL]
    assert tape.verify().verdict == "clean"
    assert recovery.end == ledger.acknowledged
