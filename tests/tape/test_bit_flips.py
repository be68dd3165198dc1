"""R10: a flipped bit anywhere is noticed, named and bounded, and nothing is rewritten because of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

import pytest

from scrubjay.tape import seal
from scrubjay.tape.anchor import WATERMARK, Anchor
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, chain_checksums
from scrubjay.tape.record import Record
from scrubjay.tape.segment import SealedSegment, list_segments
from scrubjay.tape.verify import verify
from scrubjay.tape.watermark import Watermark
from tests.support.tapes import Flipper, TapeOnDisk, any_contents, make_tape
from tests.support.tiers import sized

# Of a file's bits, drawn with seed 10: all of 4 KiB are 35,000; of the 524,288 of 64 KiB, all would take an hour.
FLIPS_MAX = sized(1_500, 40_000, 60_000)


def make_raw(root: Path, *, records: int = sized(40, 40, 700)) -> TapeOnDisk:
    """A closed tape of a few segments: 4 KiB, at night 64 KiB."""
    contents = any_contents(Random(10), records, largest=sized(500, 500, 900))
    return make_tape(root, contents, segment_bytes=sized(1500, 1500, 24_000), sync_every=7)


def bits_of(flipper: Flipper, whole: int) -> Sequence[int]:
    """Every bit or, where all files together have too many, a share of them that is fair to each file."""
    bits = range(flipper.bits)
    return bits if whole <= FLIPS_MAX else sorted(Random(10).sample(bits, FLIPS_MAX * len(bits) // whole))


def all_flippers(tape: TapeOnDisk) -> tuple[list[Flipper], int]:
    """One for each segment file, and the number of bits they have together."""
    flippers = [Flipper(path) for path in tape.segments()]
    return flippers, sum(flipper.bits for flipper in flippers)


def test_every_flipped_bit_below_the_watermark_is_damage_that_costs_one_record(ram_path: Path) -> None:
    tape = make_raw(ram_path)
    records, checksums = tape.records(), tape.checksums()
    flippers, bits = all_flippers(tape)
    assert sized(3500, 3500, 60_000) < bits // 8 < sized(6000, 6000, 90_000)
    assert len(flippers) > 2
    reader, anchor, times_around = tape.open(), tape.anchor(), cache(partial(_times_around, records))

    for flipper, file in zip(flippers, list_segments(tape.folder), strict=True):
        for bit in bits_of(flipper, bits):
            offset = file.first + bit // 8 - SEGMENT_HEADER_BYTES
            hit = _record_at(records, offset) if offset >= file.first else range(0)
            with flipper.flipped(bit):
                report = verify(reader, anchor)
                left = tape.checksums() if _read_too(bit) else None

            assert report.verdict == "damaged", (file.path.name, bit)
            expected = [check for check in checksums if check[0] not in hit]
            assert report.records == len(expected), (file.path.name, bit)
            assert left is None or left == expected, (file.path.name, bit)
            (hurt,) = report.damage
            start, end = (hit.start, hit.stop) if hit else (file.first, file.first)
            assert (hurt.offset, hurt.end) == (start, end), (file.path.name, bit)
            assert (hurt.from_at, hurt.to_at) == times_around(start, end), (file.path.name, bit)
            assert f"at offset {start}" in report.explain()

    assert tape.verify().verdict == "clean"


def _read_too(bit: int) -> bool:
    """One bit of each byte, another one each time: the verdict has counted the records, this reads them back."""
    return bit % 8 == bit // 8 % 8


def _record_at(records: list[Record], offset: int) -> range:
    """The offsets of the record that one of them is in."""
    record = records[bisect_right(records, offset, key=lambda record: record.offset) - 1]
    return range(record.offset, record.end)


def _times_around(records: list[Record], start: int, end: int) -> tuple[int, int | None]:
    before = [record.at for record in records if record.end <= start]
    after = [record.at for record in records if record.offset >= end]
    return before[-1] if before else 0, after[0] if after else None


def test_a_flipped_bit_above_the_watermark_ends_the_tape_there(ram_path: Path) -> None:
    tape = make_raw(ram_path)
    records = tape.records()
    anchor = _anchor_after(tape, records, len(records) // 2)
    assert anchor.watermark is not None
    mark = anchor.watermark.offset
    flippers, bits = all_flippers(tape)

    for flipper, file in zip(flippers, list_segments(tape.folder), strict=True):
        for bit in bits_of(flipper, bits)[::7]:
            offset = file.first + max(0, bit // 8 - SEGMENT_HEADER_BYTES)
            with flipper.flipped(bit):
                report = verify(tape.open(), anchor)

            assert report.verdict == ("damaged" if offset < mark else "torn"), (file.path.name, bit)
            if offset >= mark:
                end = _record_at(records, offset).start
                assert (report.end, report.torn_bytes) == (end, records[-1].end - end), (file.path.name, bit)


def _anchor_after(tape: TapeOnDisk, records: list[Record], count: int) -> Anchor:
    chain = chain_checksums(0, b"".join(record.checksum.to_bytes(4, "little") for record in records[:count]))
    return Anchor(Watermark(tape.id, 1, records[count - 1].end, chain), {})


def test_a_flipped_bit_of_a_tape_without_an_anchor_is_noticed(ram_path: Path) -> None:
    tape = make_raw(ram_path)
    flippers, bits = all_flippers(tape)

    for flipper in flippers:
        for bit in bits_of(flipper, bits)[::7]:
            with flipper.flipped(bit):
                report = tape.verify_unanchored()

            assert report.verdict in ("damaged", "torn"), (flipper.path.name, bit)


def test_every_flipped_bit_of_a_sealed_tape_is_damage_that_costs_one_frame(
    ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "FRAME_BYTES", sized(700, 700, 9000))
    tape = make_raw(ram_path, records=sized(20, 20, 700))
    records, checksums = tape.records(), tape.checksums()
    assert tape.seal().left is None
    flippers, bits = all_flippers(tape)
    reader, anchor, times_around = tape.open(), tape.anchor(), cache(partial(_times_around, records))

    for flipper, file in zip(flippers, list_segments(tape.folder), strict=True):
        segment = SealedSegment(file)
        segment.close()
        assert len(segment.index.frames) > 1 or file.end is None
        for bit in bits_of(flipper, bits):
            lost = _frame_of(segment, bit // 8)
            with flipper.flipped(bit):
                report = verify(reader, anchor)
                left = tape.checksums() if _read_too(bit) else None

            assert report.verdict == "damaged", (file.path.name, bit)
            expected = [check for check in checksums if check[0] not in lost]
            assert report.records == len(expected), (file.path.name, bit)
            assert left is None or left == expected, (file.path.name, bit)
            hurt = report.damage[0]
            start, end = (lost.start, lost.stop) if lost else (file.first, file.first)
            assert (hurt.offset, hurt.end) == (start, end), (file.path.name, bit)
            assert (hurt.from_at, hurt.to_at) == times_around(start, end), (file.path.name, bit)

    assert tape.verify().verdict == "clean"


def _frame_of(segment: SealedSegment, position: int) -> range:
    """The offsets that are in the frame at a place in the file; none for a place outside all frames."""
    for number, frame in reversed(list(enumerate(segment.index.frames))):
        if frame.position <= position < segment.index.frames_end:
            return range(frame.offset, segment.frame_end(number))
    return range(0)


def test_a_flipped_bit_of_the_watermark_makes_no_difference_while_the_older_one_is_there(ram_path: Path) -> None:
    tape = make_raw(ram_path)
    flipper = Flipper(tape.root / WATERMARK)
    newest = tape.anchor().watermark
    assert newest is not None
    turns = set[int]()

    for bit in bits_of(flipper, flipper.bits):
        with flipper.flipped(bit):
            watermark = tape.anchor().watermark
            assert watermark is not None
            turns.add(watermark.turn)
            assert watermark.offset <= newest.offset
            assert tape.verify().verdict == "clean", bit

    assert turns == {newest.turn, newest.turn - 1}


def test_a_flipped_bit_of_the_only_watermark_leaves_the_tape_unanchored(ram_path: Path) -> None:
    tape = make_tape(ram_path, any_contents(Random(10), 40))
    flipper = Flipper(tape.root / WATERMARK)
    verdicts = set[str]()

    for bit in bits_of(flipper, flipper.bits):
        with flipper.flipped(bit):
            report = tape.verify()
        verdicts.add(report.verdict)
        assert (report.verdict == "clean") == _is_padding(flipper, bit), bit

    assert verdicts == {"clean", "unanchored"}


def _is_padding(flipper: Flipper, bit: int) -> bool:
    return bit < 512 * 8  # the first slot, which nothing has been written to yet


def test_a_flipped_bit_of_the_seals_leaves_the_tape_unanchored(ram_path: Path) -> None:
    tape = make_raw(ram_path)
    tape.seal()
    flipper = Flipper(tape.root / "seals")
    verdicts: list[str] = []

    for bit in bits_of(flipper, flipper.bits):
        with flipper.flipped(bit):
            verdicts.append(tape.verify().verdict)

    assert set(verdicts) <= {"unanchored", "clean"}
    assert verdicts.count("clean") < 8 * 2 * len(tape.segments())  # those of line ends between two lines
