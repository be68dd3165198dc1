"""R9: a tape cut at any byte holds exactly its complete records, says that it is torn, and goes on."""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, Kind
from scrubjay.tape.reader import Damage
from scrubjay.tape.record import Record
from scrubjay.tape.recover import close_lost_tape, reopen
from scrubjay.tape.watermark import WatermarkFile
from tests.support.tapes import TAPE_ID, Content, TapeOnDisk, any_contents, begin_tape, content_of, make_tape, outputs
from tests.support.tiers import sized

Mark = Literal["none", "zero", "end"]
MORE: Content = (int(Kind.OUTPUT), 1 << 50, b"what came after")


def make_four_kib(root: Path, mark: Mark) -> tuple[TapeOnDisk, Path, bytes, list[Record]]:
    """A closed tape of one segment of about 4 KiB, its file and what is in it."""
    tape = make_tape(root, any_contents(Random(4), 50, largest=600))
    if mark != "end":
        tape.forget_anchor()
    if mark == "zero":
        marks = WatermarkFile(Folder(str(root)).create(WATERMARK), TAPE_ID)
        marks.put(0, 0)
        marks.close()
    (path,) = tape.segments()
    return tape, path, path.read_bytes(), tape.records()


def cuts_of(whole: bytes, ends: list[int]) -> list[int]:
    """Where to cut: at any byte, or around the end of every record and at some bytes between."""
    around = {end + near for end in ends for near in (-1, 0, 1)}
    return sorted(cut for cut in {*range(0, len(whole), sized(11, 1, 1)), *around} if cut < len(whole))


@pytest.mark.parametrize("mark", ["none", "zero"])
def test_a_tape_cut_at_any_byte_holds_exactly_its_complete_records_and_is_torn(ram_path: Path, mark: Mark) -> None:
    tape, path, whole, records = make_four_kib(ram_path, mark)
    ends = [SEGMENT_HEADER_BYTES + record.end for record in records]
    assert 3500 < len(whole) < 6000

    for cut in cuts_of(whole, ends):
        path.write_bytes(whole[:cut])
        report = tape.verify()

        count = bisect_right(ends, cut)
        good = max(ends[count - 1] if count else 0, min(cut, SEGMENT_HEADER_BYTES))
        assert tape.records() == records[:count], cut
        assert (report.verdict, report.records, report.damage) == ("torn", count, ()), cut
        assert report.torn_bytes == cut - good, cut
        assert path.read_bytes() == whole[:cut]

    path.write_bytes(whole)
    assert tape.verify().verdict == ("clean" if mark == "zero" else "unanchored")


@pytest.mark.parametrize("mark", ["none", "zero"])
def test_the_writer_cuts_a_torn_tape_at_the_last_good_byte_and_appends(ram_path: Path, mark: Mark) -> None:
    tape, path, whole, records = make_four_kib(ram_path, mark)
    files = tape.files()
    ends = [SEGMENT_HEADER_BYTES + record.end for record in records]

    for cut in cuts_of(whole, ends):
        tape.put_back(files)
        path.write_bytes(whole[:cut])
        writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
        writer.append(*MORE)
        writer.sync()
        writer.close()

        count = bisect_right(ends, cut)
        end = records[count - 1].end if count else 0
        assert (recovery.end, recovery.lost_bytes) == (end, max(0, cut - SEGMENT_HEADER_BYTES - end)), cut
        assert path.read_bytes() == whole[: min(cut, SEGMENT_HEADER_BYTES + end)]
        assert tape.contents() == [*map(content_of, records[:count]), MORE]
        report = tape.verify()
        assert (report.verdict, report.torn_bytes) == ("torn", 0), cut


def test_a_lost_tape_is_closed_with_what_is_missing_and_is_clean_then(ram_path: Path) -> None:
    tape, path, whole, records = make_four_kib(ram_path, "zero")
    cut = SEGMENT_HEADER_BYTES + records[-1].offset - 3
    path.write_bytes(whole[:cut])

    recovery = close_lost_tape(tape.open(), tape.anchor(), tape.root)

    gap, seal = tape.records()[-2:]
    assert tape.records()[:-2] == records[:-2]
    assert recovery.end == records[-2].offset
    assert recovery.lost_bytes == cut - SEGMENT_HEADER_BYTES - records[-2].offset
    assert (gap.kind, seal.kind) == (Kind.GAP, Kind.SEAL)
    assert gap.json() == {"reason": "the recorder died", "bytes": recovery.lost_bytes, "from": records[-3].at}
    assert tape.verify().verdict == "clean"


def test_closing_a_lost_tape_twice_changes_nothing(ram_path: Path) -> None:
    tape, path, whole, _ = make_four_kib(ram_path, "zero")
    path.write_bytes(whole[:-5])
    close_lost_tape(tape.open(), tape.anchor(), tape.root)
    once = tape.files()

    close_lost_tape(tape.open(), tape.anchor(), tape.root)

    assert tape.files() == once


def test_a_tape_cut_below_its_watermark_is_damaged_at_any_byte(ram_path: Path) -> None:
    tape, path, whole, records = make_four_kib(ram_path, "end")
    assert tape.verify().verdict == "clean"
    end = records[-1].end
    ends = [SEGMENT_HEADER_BYTES + record.end for record in records]

    for cut in cuts_of(whole, ends):
        path.write_bytes(whole[:cut])
        report = tape.verify()

        count = bisect_right(ends, cut)
        good = records[count - 1].end if count else 0
        assert report.verdict == "damaged", cut
        assert report.damage[0].offset == good, cut
        assert report.damage[0].from_at == (records[count - 1].at if count else 0)
        assert (report.damage[-1].end, report.damage[-1].to_at) == (end, None), cut


def test_a_writer_never_gives_an_acknowledged_offset_to_another_record(ram_path: Path) -> None:
    tape, path, whole, records = make_four_kib(ram_path, "end")
    files = tape.files()
    end = records[-1].end

    for cut in [SEGMENT_HEADER_BYTES + record.end - tail for record in records[:-1] for tail in (0, 3)]:
        tape.put_back(files)
        path.write_bytes(whole[:cut])
        recovery = close_lost_tape(tape.open(), tape.anchor(), tape.root)

        kept = [record for record in records if SEGMENT_HEADER_BYTES + record.end <= cut]
        assert (recovery.end, recovery.lost_bytes) == (end, end - (kept[-1].end if kept else 0))
        assert tape.records()[: len(kept)] == kept
        gap, seal = tape.records()[len(kept) :]
        assert (gap.offset, gap.json()["bytes"], seal.kind) == (end, recovery.lost_bytes, Kind.SEAL)
        assert tape.verify().verdict == "damaged"


def test_a_tail_of_zeros_is_torn_and_not_a_record(ram_path: Path) -> None:
    tape, path, whole, records = make_four_kib(ram_path, "zero")
    cut = SEGMENT_HEADER_BYTES + records[5].end
    path.write_bytes(whole[:cut] + bytes(2000))

    report = tape.verify()

    assert (report.verdict, report.records, report.torn_bytes) == ("torn", 6, 2000)
    assert tape.records() == records[:6]


def test_what_follows_the_first_bad_record_above_the_watermark_is_not_part_of_the_tape(ram_path: Path) -> None:
    tape, path, whole, records = make_four_kib(ram_path, "zero")
    hole = SEGMENT_HEADER_BYTES + records[5].offset
    path.write_bytes(whole[:hole] + bytes(20) + whole[hole + 20 :])
    assert isinstance(list(tape.open().scan())[5], Damage)

    report = tape.verify()
    writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
    writer.close()

    assert (report.verdict, report.records) == ("torn", 5)
    assert recovery.end == records[5].offset
    assert tape.records() == records[:5]


def test_the_newest_watermark_is_on_the_medium_before_a_writer_goes_on(
    ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, *_ = make_four_kib(ram_path, "end")
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    monkeypatch.setattr(os, "fdatasync", note)

    writer, _ = reopen(tape.open(), tape.anchor(), tape.root)

    assert synced == [str(tape.root / WATERMARK)]
    writer.close()


def test_segments_that_begin_after_the_last_good_byte_are_removed(ram_path: Path) -> None:
    tape = make_tape(ram_path, any_contents(Random(4), 50), segment_bytes=800)
    tape.forget_anchor()
    records, paths = tape.records(), tape.segments()
    assert len(paths) > 3
    data = paths[1].read_bytes()
    paths[1].write_bytes(data[:-20] + b"spoilt" + data[-14:])

    writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
    writer.close()

    kept = [record for record in records if record.end <= recovery.end]
    assert tape.segments() == paths[:2]
    assert tape.records() == kept
    assert sum(path.stat().st_size - SEGMENT_HEADER_BYTES for path in paths[:2]) == recovery.end


def test_what_a_newer_segment_had_replaced_does_not_come_back_when_that_is_removed(ram_path: Path) -> None:
    contents = outputs(30)
    writer = begin_tape(ram_path, segment_bytes=700)
    for content in contents[:5]:
        writer.append(*content)
    writer.sync()
    for content in contents[5:]:
        writer.append(*content)
    writer.flush()
    tape = TapeOnDisk(ram_path, TAPE_ID)
    assert len(tape.segments()) > 2
    synced = writer.synced
    writer.abandon()
    writer.close()
    # A failed sync, a new segment, and the power was cut before anything was in it.
    (tape.folder / f"000009-{synced:020d}.raw").write_bytes(b"")
    assert tape.contents() == contents[:5]

    writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
    writer.close()

    assert recovery.end == synced
    assert tape.contents() == contents[:5]
    assert [path.name[:6] for path in tape.segments()] == ["000001"]


def test_a_tape_of_nothing_but_an_empty_file_goes_on_from_the_start(ram_path: Path) -> None:
    tape, path, _, _ = make_four_kib(ram_path, "none")
    path.write_bytes(b"")
    assert tape.verify().verdict == "torn"

    writer, recovery = reopen(tape.open(), tape.anchor(), tape.root)
    writer.append(*MORE)
    writer.sync()
    writer.close()

    assert recovery.end == 0
    assert tape.contents() == [MORE]
