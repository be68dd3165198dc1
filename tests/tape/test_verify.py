"""Verdicts: what is called clean is whole, and what is not is named; docs/tape-format.md, section 8."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from scrubjay.tape import seal
from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, Kind
from scrubjay.tape.recover import close_lost_tape
from scrubjay.tape.segment import list_segments
from scrubjay.tape.verify import verify
from scrubjay.tape.watermark import WatermarkFile
from tests.support.tables import every_row
from tests.support.tapes import OTHER_ID, TAPE_ID, Content, TapeOnDisk, any_contents, begin_tape, make_tape, outputs

CONTENTS = outputs(40)
SEGMENT_BYTES = 600

Tamper = Callable[[TapeOnDisk, Path], None]


def rewrite(tape: TapeOnDisk, aside: Path, contents: list[Content], *, segment_bytes: int = SEGMENT_BYTES) -> None:
    """Put other records into a tape as somebody would who can make every checksum right, but for the anchor."""
    forged = make_tape(aside, contents, tape.id, segment_bytes=segment_bytes)
    was_sealed = any(path.suffix == ".sealed" for path in tape.segments())
    if was_sealed:
        forged.seal()
    shutil.rmtree(tape.folder)
    shutil.copytree(forged.folder, tape.folder)


def splice(tape: TapeOnDisk, start: int, end: int, new: bytes) -> None:
    """Put ``new`` in place of some bytes of the first segment file."""
    path = tape.segments()[0]
    data = path.read_bytes()
    path.write_bytes(data[:start] + new + data[end:])


def change_a_byte(tape: TapeOnDisk, aside: Path) -> None:
    data = tape.segments()[0].read_bytes()
    splice(tape, 100, 101, bytes([data[100] ^ 0x20]))


def change_a_byte_and_its_checksum(tape: TapeOnDisk, aside: Path) -> None:
    kind, at, payload = CONTENTS[7]
    rewrite(tape, aside, [*CONTENTS[:7], (kind, at, payload[:-1] + b"!"), *CONTENTS[8:]])


def change_a_time(tape: TapeOnDisk, aside: Path) -> None:
    kind, at, payload = CONTENTS[7]
    rewrite(tape, aside, [*CONTENTS[:7], (kind, at + 1, payload), *CONTENTS[8:]])


def delete_a_record(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, [*CONTENTS[:7], *CONTENTS[8:]])


def delete_the_bytes_of_a_record(tape: TapeOnDisk, aside: Path) -> None:
    splice(tape, SEGMENT_HEADER_BYTES + 100, SEGMENT_HEADER_BYTES + 157, b"")


def insert_a_record(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, [*CONTENTS[:7], (2, CONTENTS[6][1], b"never said"), *CONTENTS[7:]])


def swap_two_records(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, [*CONTENTS[:7], CONTENTS[8], CONTENTS[7], *CONTENTS[9:]])


def swap_two_tapes_segments(tape: TapeOnDisk, aside: Path) -> None:
    other = make_tape(aside, CONTENTS, OTHER_ID, segment_bytes=SEGMENT_BYTES)
    if tape.segments()[0].suffix == ".sealed":
        other.seal()
    ours = tape.segments()[1]
    shutil.copy(other.segments()[1], ours)


def swap_two_segments_of_the_tape(tape: TapeOnDisk, aside: Path) -> None:
    second, third = tape.segments()[1:3]
    second.rename(aside)
    third.rename(second)
    aside.rename(third)


def cut_at_a_record_and_at_a_segment(tape: TapeOnDisk, aside: Path) -> None:
    tape.segments()[-1].unlink()


def cut_at_a_record_and_end_it_there(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, CONTENTS[:20])


def rebuild_everything(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, any_contents(Random(7), 300))


def rebuild_everything_to_the_same_length(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, [(kind, at, payload.swapcase()[::-1]) for kind, at, payload in CONTENTS])


def rebuild_everything_in_one_segment(tape: TapeOnDisk, aside: Path) -> None:
    rewrite(tape, aside, any_contents(Random(8), 300), segment_bytes=1 << 20)


TAMPERINGS = [
    change_a_byte,
    change_a_byte_and_its_checksum,
    change_a_time,
    delete_a_record,
    delete_the_bytes_of_a_record,
    insert_a_record,
    swap_two_records,
    swap_two_tapes_segments,
    swap_two_segments_of_the_tape,
    cut_at_a_record_and_at_a_segment,
    cut_at_a_record_and_end_it_there,
    rebuild_everything,
    rebuild_everything_to_the_same_length,
    rebuild_everything_in_one_segment,
]


@every_row("shape", ["raw", "sealed", "mixed"])
@every_row("tamper", TAMPERINGS)
def test_tampering_is_damage_by_the_anchor_and_never_clean_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tamper: Tamper, shape: str
) -> None:
    monkeypatch.setattr(seal, "FRAME_BYTES", 200)
    tape = make_tape(tmp_path / "tape", CONTENTS, segment_bytes=SEGMENT_BYTES)
    if shape != "raw":
        tape.seal(complete=shape == "sealed")
    assert tape.verify().verdict == "clean"

    tamper(tape, tmp_path / "aside")

    report = tape.verify()
    assert report.verdict == "damaged"
    assert report.explain().startswith("damaged at offset")
    tape.forget_anchor()
    assert tape.verify().verdict in ("unanchored", "torn", "damaged")


@every_row("tamper", TAMPERINGS)
def test_tampering_with_sealed_segments_is_noticed_by_the_seals_alone(tmp_path: Path, tamper: Tamper) -> None:
    tape = make_tape(tmp_path / "tape", CONTENTS, segment_bytes=SEGMENT_BYTES)
    tape.seal()
    (tape.root / WATERMARK).unlink()
    assert tape.verify().verdict == "unanchored"

    tamper(tape, tmp_path / "aside")

    assert tape.verify().verdict == "damaged"


@pytest.mark.parametrize("shape", ["raw", "sealed"])
def test_a_segment_under_another_ones_name_is_called_that(tmp_path: Path, shape: str) -> None:
    tape = make_tape(tmp_path / "tape", CONTENTS, segment_bytes=SEGMENT_BYTES)
    if shape == "sealed":
        tape.seal()
    swap_two_segments_of_the_tape(tape, tmp_path / "aside")

    assert [damage.why for damage in tape.damage()].count("a segment under another one's name") == 2


def test_a_sealed_segment_put_back_as_a_raw_one_is_noticed(tmp_path: Path) -> None:
    tape = make_tape(tmp_path / "tape", CONTENTS, segment_bytes=SEGMENT_BYTES)
    raw = tape.copy(tmp_path / "raw")
    tape.seal()
    second = tape.segments()[1]
    shutil.copy(raw.folder / second.with_suffix(".raw").name, tape.folder)
    second.unlink()

    report = tape.verify()

    assert report.verdict == "damaged"
    assert report.damage[0].why == "the segment was sealed and is not any more"


def test_a_segment_sealed_after_another_one_than_before_it_is_noticed_without_an_anchor(tmp_path: Path) -> None:
    tape = make_tape(tmp_path / "tape", CONTENTS, segment_bytes=SEGMENT_BYTES)
    other = make_tape(tmp_path / "other", [*CONTENTS[:5], *reversed(CONTENTS[5:])], segment_bytes=SEGMENT_BYTES)
    for each in (tape, other):
        each.seal()
        each.forget_anchor()
    shutil.copy(other.segments()[0], tape.segments()[0])

    report = tape.verify()

    assert report.verdict == "damaged"
    assert report.damage[-1].why == "the segment was not sealed after the one before it"


def test_a_whole_tape_is_clean_and_counted(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=SEGMENT_BYTES)
    told: list[int] = []

    report = verify(tape.open(), tape.anchor(), progress=told.append)

    assert (report.verdict, report.records, report.damage, report.torn_bytes) == ("clean", 42, (), 0)
    assert (report.complete, report.last_at, report.end) == (True, CONTENTS[-1][1], tape.open().end)
    assert report.explain() == "clean"
    assert sum(told) == report.end


def test_a_tape_without_an_anchor_is_unanchored_and_says_what_that_means(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    tape.forget_anchor()

    report = tape.verify()

    assert (report.verdict, report.complete) == ("unanchored", True)
    assert "nothing outside the tape says how many there were" in report.explain()


def test_a_sealed_tape_without_its_seals_is_unanchored(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=SEGMENT_BYTES)
    tape.seal()
    (tape.root / "seals").unlink()

    assert tape.verify().verdict == "unanchored"


def test_a_live_tape_may_end_anywhere_above_its_watermark(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path, segment_bytes=SEGMENT_BYTES)
    tape = TapeOnDisk(tmp_path, TAPE_ID)
    for number, content in enumerate(CONTENTS):
        writer.append(*content)
        writer.flush()
        if number == 0:
            continue
        if number % 5 == 1:
            writer.sync()
        assert tape.verify(live=True).verdict == "clean"
        assert tape.verify().verdict == "torn"
    with tape.segments()[-1].open("ab") as half:
        half.write(b"half a rec")

    assert tape.verify(live=True).verdict == "clean"
    assert tape.verify(live=True).torn_bytes == 10
    writer.close()


def test_a_segment_that_has_just_been_begun_is_no_damage(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, closed=False, segment_bytes=SEGMENT_BYTES)
    end = tape.open().end
    fresh = tape.folder / f"000009-{end:020d}.raw"

    for size in (0, 10, SEGMENT_HEADER_BYTES - 1):
        fresh.write_bytes(b"SJTAPE01".ljust(size, b"\0")[:size])
        assert tape.damage() == []
        assert tape.verify(live=True).verdict == "clean"
        assert tape.verify().verdict == "torn"


def test_records_after_the_end_of_a_tape_are_not_clean(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, [*CONTENTS, (int(Kind.SEAL), 50_000, b"{}"), (2, 60_000, b"still here")], closed=False)

    assert tape.verify().verdict == "torn"


def test_bytes_after_the_end_of_a_tape_are_not_clean(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    with tape.segments()[-1].open("ab") as file:
        file.write(b"\0\0\0")

    report = tape.verify()

    assert (report.verdict, report.torn_bytes, report.complete) == ("torn", 3, False)


def test_damage_in_a_sealed_segment_is_no_torn_tail_though_the_watermark_lags(
    ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "FRAME_BYTES", 300)
    tape = make_tape(ram_path, CONTENTS, closed=False, segment_bytes=SEGMENT_BYTES)
    records = tape.records()
    tape.seal(complete=False)
    files = list_segments(tape.folder)
    # What a power cut may leave of the watermark, though not of what was sealed by it.
    (tape.root / WATERMARK).unlink()
    marks = WatermarkFile(Folder(str(tape.root)).create(WATERMARK), TAPE_ID)
    marks.put(0, 0)
    marks.close()
    assert tape.verify().verdict == "torn"
    first = files[0].path
    first.write_bytes(first.read_bytes()[:100] + b"\xff\xfe\xfd" + first.read_bytes()[103:])

    report = tape.verify()
    recovery = close_lost_tape(tape.open(), tape.anchor(), tape.root)

    assert report.verdict == "damaged"
    assert (recovery.end, recovery.lost_bytes) == (records[-1].end, 0)
    assert [record for record in records if record.offset >= 600] == [
        record for record in tape.records() if 600 <= record.offset < records[-1].end
    ]


def test_all_that_is_missing_is_named_with_its_times(ram_path: Path) -> None:
    tape = make_tape(ram_path, CONTENTS, segment_bytes=SEGMENT_BYTES)
    records = tape.records()
    files = list_segments(tape.folder)
    files[1].path.unlink()
    os.truncate(files[3].path, SEGMENT_HEADER_BYTES + records[-2].offset - files[3].first)

    report = tape.verify()

    last = files[1].end
    assert last is not None
    before = [record.at for record in records if record.end <= files[1].first][-1]
    after = next(record.at for record in records if record.offset >= last)
    assert [(hurt.offset, hurt.end) for hurt in report.damage] == [
        (files[1].first, last),
        (records[-2].offset, records[-1].end),
    ]
    assert (report.damage[0].from_at, report.damage[0].to_at) == (before, after)
    assert (report.damage[1].from_at, report.damage[1].to_at) == (records[-3].at, None)
    assert "missing" in report.explain()
    assert "that were synced are missing" in report.damage[1].why


def test_verifying_and_reading_change_nothing(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=SEGMENT_BYTES)
    tape.seal(complete=False)
    change_a_byte(tape, tmp_path / "aside")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}

    tape.verify()
    tape.records()
    tape.open().offset_at(5000)

    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
