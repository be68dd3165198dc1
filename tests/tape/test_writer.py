"""Appending to a tape on disks that are full, slow to take, or failing; docs/tape-format.md, section 4."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from scrubjay.errors import DiskFull, RecordTooLarge
from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.disk import Folder, Reserve
from scrubjay.tape.format import PAYLOAD_MAX_BYTES, SEGMENT_HEADER_BYTES
from scrubjay.tape.segment import list_segments
from scrubjay.tape.watermark import WatermarkFile, decode_watermark
from scrubjay.tape.writer import TapeWriter
from tests.support.faulty_disk import FaultyDisk, FaultyFile
from tests.support.paths import ROOT
from tests.support.tables import every_row
from tests.support.tapes import TAPE_ID, Content, TapeOnDisk, any_contents, begin_tape, make_tape, outputs

CONTENTS = outputs(40)


class Bench:
    """A writer on a faulty disk."""

    def __init__(self, disk: FaultyDisk, *, segment_bytes: int = 1 << 20, window_bytes: int = 1 << 20) -> None:
        self.disk = disk
        self.folder, self.marks = disk.folder("tape"), disk.folder(".").create(WATERMARK)
        self.writer = TapeWriter(
            self.folder,
            TAPE_ID,
            watermark=WatermarkFile(self.marks, TAPE_ID),
            segment_bytes=segment_bytes,
            window_bytes=window_bytes,
        )

    def append(self, contents: list[Content]) -> None:
        """Append all of them."""
        for content in contents:
            self.writer.append(*content)

    def sync(self, *, anchor: bool = False) -> bool:
        """Sync what is written; False if that failed."""
        return self.writer.finish_sync(self.writer.begin_sync(anchor=anchor).run())

    def tape(self, root: Path) -> TapeOnDisk:
        """What a reader sees at this moment."""
        self.disk.leave(root)
        return TapeOnDisk(root, TAPE_ID)

    @property
    def segments(self) -> list[FaultyFile]:
        """The segment files in order."""
        return [file for _, file in sorted(self.folder.files.items())]

    @property
    def marked(self) -> int:
        """The offset of the watermark."""
        watermark = decode_watermark(self.marks.contents)
        return watermark.offset if watermark is not None else -1


def test_records_are_read_back_in_order_whatever_their_kind(tmp_path: Path) -> None:
    contents = any_contents(Random(1), 200)

    tape = make_tape(tmp_path, contents, closed=False)

    assert tape.contents() == contents
    assert {kind for kind, _, _ in contents} >= {42, 63}


def test_kinds_nobody_knows_are_kept_and_named_by_number(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, [(kind, 0, b"future") for kind in range(256)], closed=False)

    assert [record.kind for record in tape.records()] == list(range(256))
    assert tape.records()[200].kind_name == "kind-200"
    assert tape.records()[2].kind_name == "output"


def test_a_record_comes_further_with_append_flush_and_sync() -> None:
    bench = Bench(FaultyDisk())
    writer = bench.writer

    end = writer.append(2, 0, b"hello")
    assert (writer.offset, writer.written, writer.synced) == (end, 0, 0)
    assert not writer.sync_due
    writer.flush()
    assert (writer.offset, writer.written, writer.synced) == (end, end, 0)
    assert writer.sync_due
    assert bench.sync()
    assert (writer.offset, writer.written, writer.synced) == (end, end, end)
    assert not writer.sync_due


def test_a_record_above_the_limit_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path)

    with pytest.raises(RecordTooLarge) as caught:
        writer.append(2, 0, bytes(PAYLOAD_MAX_BYTES + 1))
    writer.append(2, 0, bytes(PAYLOAD_MAX_BYTES))
    writer.sync()
    writer.close()

    assert (caught.value.size, caught.value.limit) == (PAYLOAD_MAX_BYTES + 1, PAYLOAD_MAX_BYTES)
    assert TapeOnDisk(tmp_path, TAPE_ID).contents() == [(2, 0, bytes(PAYLOAD_MAX_BYTES))]


def test_the_window_is_full_until_a_sync_empties_it() -> None:
    bench = Bench(FaultyDisk(), window_bytes=1000)
    while not bench.writer.full:
        bench.append([(2, 0, b"x" * 83)])
    assert bench.writer.offset == 1000
    bench.writer.flush()
    assert bench.writer.full

    sync = bench.writer.begin_sync()
    bench.append([(2, 0, b"x" * 83)])
    bench.writer.finish_sync(sync.run())

    assert not bench.writer.full
    assert bench.writer.synced == 1000
    assert not bench.writer.half_full


def test_what_is_appended_during_a_sync_belongs_to_the_next_one() -> None:
    bench = Bench(FaultyDisk(), segment_bytes=200)
    bench.append(CONTENTS[:5])
    bench.writer.flush()
    before = bench.writer.written

    sync = bench.writer.begin_sync()
    bench.append(CONTENTS[5:20])
    bench.writer.flush()
    assert not bench.writer.sync_due
    assert bench.writer.finish_sync(sync.run())

    assert bench.writer.synced == bench.marked == before
    assert bench.sync()
    assert bench.writer.synced == bench.marked == bench.writer.offset


def test_only_one_sync_is_under_way_at_a_time() -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS)
    bench.writer.flush()
    bench.writer.begin_sync()

    with pytest.raises(AssertionError):
        bench.writer.sync()


def test_segments_rotate_at_their_size_and_no_record_spans_two(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=500)
    files = list_segments(tape.folder)

    assert len(files) > 4
    assert [file.number for file in files] == list(range(1, len(files) + 1))
    for file in files[:-1]:
        size = file.path.stat().st_size - SEGMENT_HEADER_BYTES
        assert 500 <= size < 500 + 57
        assert file.first + size == file.end
    assert {file.first for file in files} <= {record.offset for record in tape.records()}
    assert tape.verify().verdict == "clean"


def test_short_writes_change_nothing_of_what_is_written() -> None:
    whole, short = Bench(FaultyDisk(), segment_bytes=700), Bench(FaultyDisk(3, short=0.9), segment_bytes=700)

    for content in CONTENTS:
        for bench in (whole, short):
            bench.append([content])
            bench.writer.flush()

    assert [file.contents for file in short.segments] == [file.contents for file in whole.segments]
    assert short.writer.written == whole.writer.written == whole.writer.offset


@every_row("seed", range(20))
def test_putting_a_record_is_appending_and_flushing_it(seed: int) -> None:
    rng = Random(seed)
    usual, put = Bench(FaultyDisk(), segment_bytes=700), Bench(FaultyDisk(seed, short=0.5), segment_bytes=700)
    for kind, at, payload in CONTENTS:
        usual.append([(kind, at, payload)])
        usual.writer.flush()
        cut = rng.randrange(len(payload) + 1)
        if rng.random() < 0.2:
            put.append([(kind, at, payload)])
        else:
            put.writer.put(kind, at, payload[:cut], payload[cut:])
        if rng.random() < 0.2:
            assert put.sync()
    put.writer.flush()

    assert [file.contents for file in put.segments] == [file.contents for file in usual.segments]
    assert put.writer.written == put.writer.offset == usual.writer.offset


def test_many_records_in_one_flush_stay_in_their_segments() -> None:
    one_by_one, at_once = Bench(FaultyDisk(), segment_bytes=700), Bench(FaultyDisk(5, short=0.5), segment_bytes=700)
    contents = outputs(1000)
    for content in contents:
        one_by_one.append([content])
        one_by_one.writer.flush()

    at_once.append(contents)
    at_once.writer.flush()

    assert [file.contents for file in at_once.segments] == [file.contents for file in one_by_one.segments]


@every_row("room", [0, 1, 63, 64, 65, 100, 500, 501, 1000])
def test_a_full_disk_loses_nothing_and_goes_on_at_the_exact_byte(tmp_path: Path, room: int) -> None:
    plenty, bench = Bench(FaultyDisk(), segment_bytes=400), Bench(FaultyDisk(), segment_bytes=400)
    for each in (plenty, bench):
        each.append(CONTENTS)
    plenty.writer.flush()
    bench.disk.room = room

    with pytest.raises(DiskFull) as caught:
        bench.writer.flush()
    assert caught.value.path
    with pytest.raises(DiskFull):
        bench.writer.flush()
    assert sum(len(file.contents) for file in bench.segments) == room
    torn = bench.tape(tmp_path / "torn") if bench.segments else None
    assert torn is None or torn.contents() == CONTENTS[: len(torn.contents())]
    while bench.writer.written < bench.writer.offset:
        bench.disk.room = 7
        try:
            bench.writer.flush()
        except DiskFull:
            continue

    assert [file.contents for file in bench.segments] == [file.contents for file in plenty.segments]


def test_what_fits_a_full_disk_can_be_synced(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk(room=1000))
    bench.append(CONTENTS)
    with pytest.raises(DiskFull):
        bench.writer.flush()

    assert bench.sync()

    tape = bench.tape(tmp_path)
    assert bench.writer.synced == bench.marked == bench.writer.written > 800
    assert tape.verify().verdict == "torn"
    assert tape.verify().end == bench.marked


def test_a_quota_is_a_full_disk_and_anything_else_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begin_tape(tmp_path)
    writer.append(2, 0, b"x")
    numbers = [errno.EDQUOT, errno.EIO]

    def fail(fd: int, parts: list[bytes]) -> int:
        raise OSError(numbers[0], os.strerror(numbers[0]))

    monkeypatch.setattr(os, "writev", fail)

    with pytest.raises(DiskFull):
        writer.flush()
    del numbers[0]
    with pytest.raises(OSError, match="Input/output error"):
        writer.flush()


def test_a_failed_sync_begins_a_segment_with_everything_since_the_last_good_one(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS[:10])
    bench.writer.flush()
    assert bench.sync()
    good = bench.writer.synced
    bench.append(CONTENTS[10:30])
    bench.writer.flush()

    bench.disk.fail_sync(1)
    assert not bench.sync()

    assert bench.writer.synced == bench.writer.written == bench.marked == good
    bench.append(CONTENTS[30:])
    bench.writer.flush()
    assert bench.sync()
    old, new = bench.segments
    again = old.contents[SEGMENT_HEADER_BYTES + good :]
    assert new.contents[SEGMENT_HEADER_BYTES:].startswith(again)
    tape = bench.tape(tmp_path)
    assert [(file.first, file.end) for file in list_segments(tape.folder)] == [(0, good), (good, None)]
    assert tape.contents() == CONTENTS
    assert tape.damage() == []
    assert bench.writer.synced == bench.marked == bench.writer.offset


def test_a_descriptor_whose_sync_failed_is_closed_and_never_synced_again() -> None:
    bench = Bench(FaultyDisk(), segment_bytes=600)
    for start in range(0, 40, 5):
        bench.append(CONTENTS[start : start + 5])
        bench.writer.flush()
        bench.disk.fail_sync(1)
        assert not bench.sync()
        bench.writer.flush()
    assert bench.sync()
    bench.writer.close()

    failed = [file for file in bench.segments if file.sync_failed]
    assert len(failed) == 8
    assert all(file.syncs == 1 and file.closed for file in failed)
    assert sum(file.syncs_after_failure for file in bench.segments) == 0
    assert all(file.closed for file in bench.segments)


def test_readers_see_one_stream_through_any_number_of_failed_syncs(tmp_path: Path) -> None:
    rng = Random(13)
    bench = Bench(FaultyDisk(short=0.2), segment_bytes=300)
    for number, start in enumerate(range(0, 40, 2)):
        bench.append(CONTENTS[start : start + 2])
        bench.writer.flush()
        if rng.random() < 0.5:
            bench.disk.fail_sync(rng.randint(1, 3))
        bench.sync()

        bench.writer.flush()
        tape = bench.tape(tmp_path / str(number))
        assert tape.contents() == CONTENTS[: start + 2]
        assert tape.damage() == []
        assert tape.verify(live=True).verdict == "clean"


def test_a_folder_whose_sync_failed_is_as_bad_as_a_file(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS[:10])
    bench.writer.flush()
    bench.disk.fail_sync(2)

    assert not bench.sync()
    assert bench.writer.synced == 0
    assert bench.marked == -1
    bench.writer.flush()
    assert bench.sync()

    assert len(bench.segments) == 2
    assert bench.tape(tmp_path).contents() == CONTENTS[:10]


def test_a_watermark_that_cannot_be_written_does_not_fail_the_sync() -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS)
    bench.writer.flush()
    bench.disk.fail_overwrites()

    sync = bench.writer.begin_sync(anchor=True).run()

    assert sync.error is None
    assert sync.watermark_error is not None
    assert bench.writer.finish_sync(sync)
    assert bench.writer.synced == bench.writer.offset
    assert bench.marked == -1


def test_the_watermark_is_synced_only_when_asked() -> None:
    bench = Bench(FaultyDisk())
    for anchor, syncs in ((False, 0), (True, 1), (False, 1)):
        bench.append(CONTENTS[:1])
        bench.writer.flush()
        assert bench.sync(anchor=anchor)
        assert bench.marks.syncs == syncs


def test_syncing_in_this_thread_raises_and_can_be_tried_again(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS)
    bench.disk.fail_sync(1)

    with pytest.raises(OSError, match="Input/output error"):
        bench.writer.sync()
    bench.writer.sync()

    assert bench.writer.synced == bench.writer.offset
    assert bench.tape(tmp_path).contents() == CONTENTS


def test_abandoned_files_are_replaced_by_a_new_segment(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS[:10])
    bench.writer.sync()
    bench.append(CONTENTS[10:20])
    bench.writer.flush()

    bench.writer.abandon()
    bench.append(CONTENTS[20:])
    bench.writer.sync()

    assert [first for first, _ in bench.writer.segments] == [0, bench.tape(tmp_path).records()[10].offset]
    assert bench.tape(tmp_path).contents() == CONTENTS
    assert bench.segments[0].closed


def test_files_abandoned_during_a_sync_are_left_alone_until_it_is_back(tmp_path: Path) -> None:
    bench = Bench(FaultyDisk())
    bench.append(CONTENTS[:10])
    bench.writer.flush()
    sync = bench.writer.begin_sync()
    bench.writer.abandon()
    bench.append(CONTENTS[10:])
    with pytest.raises(OSError, match="busy"):
        bench.writer.flush()
    assert not bench.segments[0].closed

    assert bench.writer.finish_sync(sync.run())
    bench.writer.sync()

    assert [len(file.contents) > 64 for file in bench.segments] == [True, True]
    assert bench.tape(tmp_path).contents() == CONTENTS
    assert bench.tape(tmp_path).damage() == []


def test_a_writer_that_is_closed_has_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    tape = make_tape(tmp_path, CONTENTS, segment_bytes=300)
    tape.seal()
    tape.verify()
    tape.open().offset_at(3000)
    tape.records()

    assert len(os.listdir("/proc/self/fd")) == before


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    raw = tape.segments()
    assert [path.stat().st_mode & 0o777 for path in raw] == [0o600]

    tape.seal()

    for path in (*tape.segments(), tape.root / "seals", tape.root / WATERMARK):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_tape_is_not_written_over(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    before = tape.files()

    writer = TapeWriter(Folder(str(tape.folder)), TAPE_ID)
    writer.append(2, 0, b"another beginning")
    with pytest.raises(FileExistsError):
        writer.flush()

    assert tape.files() == before


def test_the_reserve_gives_its_space_back_once(tmp_path: Path) -> None:
    reserve = Reserve(str(tmp_path / "reserve"))
    reserve.take()
    assert reserve.held
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 512 << 10

    assert reserve.release()
    assert not reserve.release()
    assert not (tmp_path / "reserve").exists()
    reserve.take()
    assert reserve.held


def test_a_reserve_that_cannot_be_had_is_not_held(tmp_path: Path) -> None:
    reserve = Reserve(str(tmp_path / "missing" / "reserve"))

    reserve.take()

    assert not reserve.held
    assert not reserve.release()


@pytest.mark.parametrize(
    ("modules", "costs"),
    [
        ("disk format watermark writer", ""),
        ("payload", "re"),  # json loads it
    ],
)
def test_what_a_keeper_loads_of_a_tape_is_light(modules: str, costs: str) -> None:
    heavy = ["asyncio", "dataclasses", "hashlib", "logging", "pathlib", "re", "typing"]
    source = ROOT / "src"
    code = f"""
import sys
sys.path.insert(0, {str(source)!r})
for name in {modules.split()!r}:
    __import__("scrubjay.tape." + name)
print(*sorted(set({heavy!r}) & set(sys.modules)))
"""

    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split() == costs.split()


def test_what_is_written_and_still_in_memory_is_at_hand_for_followers() -> None:
    bench = Bench(FaultyDisk())
    ends = [bench.writer.append(*content) for content in CONTENTS[:10]]
    bench.writer.flush()
    bench.writer.append(*CONTENTS[10])
    stream = bench.segments[0].contents[SEGMENT_HEADER_BYTES:]

    for end in ends:
        assert bench.writer.recent(end) == stream[end:]
    assert bench.writer.recent(ends[0] + 1) is None
    assert bench.sync()
    assert bench.writer.recent(ends[0]) is None
    assert bench.writer.recent(ends[-1]) == b""
