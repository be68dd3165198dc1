"""Reading a tape from any place, whatever shape it is in; docs/tape-format.md, section 7."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrubjay.errors import DiskFull, NotATape
from scrubjay.tape import seal
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, Kind
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record
from scrubjay.tape.segment import RawSegment, list_segments, open_segment
from tests.support.conditions import DEADLINE_S
from tests.support.tapes import (
    OTHER_ID,
    TAPE_ID,
    Content,
    Flipper,
    TapeOnDisk,
    any_contents,
    begin_tape,
    content_of,
    make_tape,
    outputs,
)
from tests.support.tiers import sized

CONTENTS = outputs(40)

STEPS = st.sampled_from([0, 0, 0, 1, 5, 1000])
PAYLOADS = st.one_of(st.binary(max_size=60), st.just(b"y" * 300))


@st.composite
def monotonic(draw: st.DrawFn) -> list[Content]:
    """Records whose times never go back and often stand still."""
    at, contents = 0, list[Content]()
    for step, payload in draw(st.lists(st.tuples(STEPS, PAYLOADS), min_size=1, max_size=30)):
        at += step
        contents.append((int(Kind.OUTPUT), at, payload))
    return contents


@contextmanager
def tape_of(contents: list[Content], *, segment_bytes: int, shape: str) -> Generator[TapeOnDisk]:
    """A tape in memory: raw, sealed, or sealed up to its last segment."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with TemporaryDirectory(dir=memory) as root, patch.object(seal, "FRAME_BYTES", 350):
        tape = make_tape(Path(root) / "t", contents, segment_bytes=segment_bytes)
        if shape != "raw":
            assert tape.seal(complete=shape == "sealed").left is None
        yield tape


SHAPES = st.sampled_from(["raw", "sealed", "mixed"])


@settings(max_examples=sized(30, 150, 2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(monotonic(), st.sampled_from([100, 500, 100_000]), SHAPES)
def test_reading_from_any_record_or_instant_is_the_rest_of_a_full_read(
    contents: list[Content], segment_bytes: int, shape: str
) -> None:
    with tape_of(contents, segment_bytes=segment_bytes, shape=shape) as on_disk:
        tape = on_disk.open()
        records = list(tape.records())
        assert [content_of(record) for record in records[:-1]] == contents

        for record in records:
            assert list(tape.records(record.offset)) == records[records.index(record) :]
        assert list(tape.records(records[-1].end)) == []
        for at in {at + step for _, at, _ in contents for step in (-1, 0, 1)}:
            wanted = [record for record in records if record.at >= at]
            assert list(tape.records_from(at)) == wanted
            assert tape.offset_at(at) == (wanted[0].offset if wanted else records[-1].end)


@settings(max_examples=sized(30, 150, 2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(monotonic(), st.sampled_from([100, 500, 100_000]), SHAPES, st.data())
def test_reading_a_damaged_tape_from_an_instant_is_the_rest_of_a_full_read(
    contents: list[Content], segment_bytes: int, shape: str, draw: st.DataObject
) -> None:
    with tape_of(contents, segment_bytes=segment_bytes, shape=shape) as on_disk:
        flipper = Flipper(draw.draw(st.sampled_from(on_disk.segments())))
        with flipper.flipped(draw.draw(st.integers(0, flipper.bits - 1))):
            tape = on_disk.open()
            records = list(tape.records())

            for at in {at + step for _, at, _ in contents for step in (0, 1)}:
                assert list(tape.records_from(at)) == [record for record in records if record.at >= at]


def test_many_records_at_one_instant_are_all_found_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "FRAME_BYTES", 300)
    contents = [(2, at, b"%d" % number) for at in (5, 7, 9) for number in range(50)]
    tape = make_tape(tmp_path, contents, segment_bytes=700)

    for _ in ("raw", "sealed"):
        found = list(tape.open().records_from(7))
        assert [record.payload for record in found[:100]] == [b"%d" % number for number in range(50)] * 2
        assert found[0].at == 7
        tape.seal()


class Counter:
    """Counts what is read from files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        pread = os.pread

        def counted(fd: int, size: int, position: int) -> bytes:
            data = pread(fd, size, position)
            self.bytes += len(data)
            return data

        monkeypatch.setattr(os, "pread", counted)


def test_reading_the_end_of_a_sealed_tape_does_not_read_what_is_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(1)
    contents = [(2, n * 1000, rng.randbytes(20_000)) for n in range(400)]
    tape = make_tape(tmp_path, contents, segment_bytes=2 << 20)
    tape.seal()
    assert tape.open().stored_bytes > 7_900_000
    last = tape.records()[-2]
    reader = tape.open()
    counter = Counter(monkeypatch)

    assert next(reader.records(last.offset)).offset == last.offset
    assert counter.bytes < 300_000
    counter.bytes = 0
    assert next(reader.records_from(last.at)).offset == last.offset
    assert counter.bytes < 300_000
    counter.bytes = 0
    assert next(reader.records_from(200_000)).at == 200_000
    assert counter.bytes < 1_100_000  # the frame before it and its own


def test_the_instant_is_found_without_opening_every_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = make_tape(tmp_path, outputs(2000), segment_bytes=1000)
    tape.seal()
    assert len(tape.segments()) > 100
    reader = tape.open()
    opened: list[str] = []
    real_open = os.open

    def counted(path: str | Path, flags: int, mode: int = 0o777) -> int:
        opened.append(str(path))
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", counted)
    assert next(reader.records_from(1_000_000)).at == 1_000_000

    assert len(opened) < 12


def own_bytes(tape: TapeOnDisk) -> bytes:
    """All segment files of a tape in a row."""
    return b"".join(path.read_bytes() for path in tape.segments())


@pytest.mark.parametrize("whose", [TAPE_ID, OTHER_ID])
def test_a_tape_that_shows_a_tapes_bytes_and_is_then_damaged_resyncs_only_at_its_own_records(
    ram_path: Path, whose: str
) -> None:
    # As if the agent had printed its own tape, or another one's, and then once more.
    early = make_tape(ram_path / "early", CONTENTS, whose, closed=False)
    shown = own_bytes(early)
    contents = [*CONTENTS, (2, 50_000, shown), (2, 51_000, b"between"), (2, 52_000, shown[64:]), (2, 53_000, b"after")]
    tape = make_tape(ram_path / "tape", contents)
    records = tape.records()
    (path,) = tape.segments()
    flipper = Flipper(path)

    for index in (41, 43):
        hurt = records[index]
        # The length, so that nothing says where the record ends, and then some of what is shown.
        for byte in (0, 1, 2, 13, 100, hurt.end - hurt.offset - 1):
            with flipper.flipped((SEGMENT_HEADER_BYTES + hurt.offset + byte) * 8):
                assert tape.records() == [record for record in records if record is not hurt], (index, byte)
                assert [(damage.offset, damage.end) for damage in tape.damage()] == [(hurt.offset, hurt.end)]


def test_every_damaged_record_is_named_with_where_reading_goes_on(ram_path: Path) -> None:
    tape = make_tape(ram_path, CONTENTS, segment_bytes=600)
    records = tape.records()
    for number in (3, 4, 20):
        place = records[number].offset + 15
        file = next(file for file in reversed(list_segments(tape.folder)) if file.first <= place)
        with file.path.open("r+b") as raw:
            raw.seek(SEGMENT_HEADER_BYTES + place - file.first)
            raw.write(b"spoilt")

    items = list(tape.open().scan())

    kept = [record for number, record in enumerate(records) if number not in (3, 4, 20)]
    assert [item for item in items if isinstance(item, Record)] == kept
    assert [(damage.offset, damage.end) for damage in tape.damage()] == [
        (records[3].offset, records[4].end),
        (records[20].offset, records[20].end),
    ]
    assert [item.offset for item in items] == sorted(item.offset for item in items)


def test_a_large_damaged_stretch_is_passed_to_the_record_after_it(ram_path: Path) -> None:
    rng = Random(2)
    contents = [(2, n, rng.randbytes(200_000)) for n in range(30)]
    tape = make_tape(ram_path, contents)
    records = tape.records()
    (path,) = tape.segments()
    start, end = records[3].offset + 5, records[25].offset + 1
    with path.open("r+b") as raw:
        raw.seek(SEGMENT_HEADER_BYTES + start)
        raw.write(bytes(end - start))

    (damage,) = tape.damage()

    assert (damage.offset, damage.end) == (records[3].offset, records[26].offset)
    assert tape.records() == records[:3] + records[26:]


@pytest.mark.parametrize("shape", ["raw", "sealed"])
def test_missing_segments_are_named_and_the_others_are_read(ram_path: Path, shape: str) -> None:
    whole = make_tape(ram_path / "whole", CONTENTS, segment_bytes=300)
    records = whole.records()
    if shape == "sealed":
        whole.seal()
    files = list_segments(whole.folder)
    assert len(files) > 6

    for gone in (slice(0, 1), slice(2, 3), slice(1, 4)):
        tape = whole.copy(ram_path / f"{shape}-{gone.start}-{gone.stop}")
        for file in files[gone]:
            (tape.folder / file.path.name).unlink()
        first, end = files[gone][0].first, files[gone][-1].end
        assert end is not None

        (damage,) = tape.damage()

        assert (damage.offset, damage.end) == (first, end)
        assert "missing" in damage.why
        assert tape.records() == [record for record in records if not first <= record.offset < end]
        report = tape.verify()
        assert (report.verdict, report.damage[0].offset, report.damage[0].end) == ("damaged", first, end)


def test_a_scan_goes_on_with_a_tape_that_grows_and_rotates_and_reading_ends_where_it_was(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path, segment_bytes=300)
    writer.append(*CONTENTS[0])
    writer.flush()
    tape = Tape(tmp_path / "tape")
    scanning, reading = tape.scan(), tape.records()
    scanned, read = [next(scanning)], [next(reading)]

    for content in CONTENTS[1:]:
        writer.append(*content)
        writer.flush()
    scanned.extend(scanning)
    read.extend(reading)

    assert [content_of(item) for item in scanned if isinstance(item, Record)] == CONTENTS
    assert [content_of(record) for record in read] == CONTENTS[:1]
    writer.close()


def test_a_reader_waits_at_the_end_and_goes_on_from_there(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path, segment_bytes=300)
    offset, found = 0, list[Content]()

    for content in CONTENTS:
        writer.append(*content)
        writer.flush()
        for record in Tape(tmp_path / "tape").records(offset):
            found.append(content_of(record))
            offset = record.end

    assert found == CONTENTS
    assert list(Tape(tmp_path / "tape").scan(offset)) == []
    writer.close()


def test_a_segment_that_was_replaced_while_it_was_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begin_tape(tmp_path)
    for content in CONTENTS[:10]:
        writer.append(*content)
    writer.sync()
    reading = Tape(tmp_path / "tape").scan()
    found = [next(reading) for _ in range(10)]
    real_writev, calls = os.writev, [0]

    def half(fd: int, parts: list[bytes]) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(errno.ENOSPC, "full")
        return real_writev(fd, [b"".join(parts)[:70]])

    monkeypatch.setattr(os, "writev", half)
    for content in CONTENTS[10:]:
        writer.append(*content)
    with pytest.raises(DiskFull):
        writer.flush()
    monkeypatch.undo()
    assert isinstance(list(Tape(tmp_path / "tape").scan())[-1], Damage)

    writer.abandon()
    writer.flush()
    found.extend(reading)

    assert [content_of(item) for item in found if isinstance(item, Record)] == CONTENTS
    assert not any(isinstance(item, Damage) for item in found)
    writer.close()


def test_a_tape_that_is_sealed_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=300)
    reading = tape.open().records()
    found = [next(reading) for _ in range(3)]

    tape.seal()
    found.extend(reading)

    assert [content_of(record) for record in found[:-1]] == CONTENTS
    assert tape.damage() == []


def test_a_segment_sealed_between_listing_and_opening_is_found(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    (file,) = list_segments(tape.folder)
    tape.seal()
    assert not file.path.exists()

    segment = open_segment(file)

    assert segment.end == tape.open().end
    segment.close()


def test_what_is_no_segment_is_not_part_of_the_tape(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    for name in ("000002-00000000000000000000.sealing", "notes.txt", "2-0.raw", "000001-00000000000000000000.raw~"):
        (tape.folder / name).write_bytes(b"something else")

    assert tape.contents()[:-1] == CONTENTS
    assert tape.verify().verdict == "clean"


def test_a_tape_may_have_more_than_a_million_segments(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    for file in list_segments(tape.folder)[::-1]:
        file.path.rename(tape.folder / f"{file.number + 999_997}-{file.first:020d}.raw")

    assert [file.number for file in list_segments(tape.folder)] == [999_998, 999_999, 1_000_000, 1_000_001]
    assert tape.contents()[:-1] == CONTENTS


def test_a_tape_knows_its_id_from_any_header_that_can_be_read(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    first, *_ = tape.segments()
    first.write_bytes(b"\0" * 8 + first.read_bytes()[8:])

    assert Tape(tape.folder).id == TAPE_ID
    assert len(list(Tape(tape.folder).records())) == 42
    tape.seal()
    assert Tape(tape.folder).id == TAPE_ID


def test_what_is_no_tape_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "000001-00000000000000000000.raw").write_bytes(b"x" * 100)

    for name, why in [
        ("missing", "no such folder"),
        ("file", "no such folder"),
        ("empty", "no segment file"),
        ("broken", "no segment has a readable header"),
    ]:
        with pytest.raises(NotATape, match=why):
            Tape(tmp_path / name)


def test_any_bytes_under_a_segments_name_can_be_scanned(ram_path: Path) -> None:
    rng = Random(6)
    folder = ram_path / "tape"
    folder.mkdir()
    raw = folder / "000001-00000000000000000000.raw"
    sealed = folder / "000002-00000000000000000300.sealed"
    whole = make_tape(ram_path / "whole", any_contents(rng, 30))
    whole.seal()
    good = own_bytes(whole)

    for size in (0, 1, 63, 64, 65, 200, 2000):
        for data in (bytes(size), rng.randbytes(size), b"\xff" * size, good[:size], good[:64] + rng.randbytes(size)):
            raw.write_bytes(data)
            sealed.write_bytes(data)
            tape = TapeOnDisk(ram_path, TAPE_ID)

            items = list(tape.open().scan())

            assert not any(isinstance(item, Record) for item in items)
            assert all(item.offset <= item.end for item in items)
            assert tape.verify().verdict in ("torn", "damaged")
            assert tape.open().offset_at(5) >= 0


def test_a_record_that_is_completed_while_it_is_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = make_tape(tmp_path, CONTENTS, closed=False)
    (path,) = tape.segments()
    whole = path.read_bytes()
    real_read, reads = RawSegment.read, [0]

    def read_and_grow(segment: RawSegment, offset: int, limit: int) -> bytes:
        data = real_read(segment, offset, limit)
        reads[0] += 1
        if reads[0] == 2:  # the one that begins with the incomplete record
            path.write_bytes(whole)
        return data

    monkeypatch.setattr(RawSegment, "read", read_and_grow)
    for missing in (1, 30, 56, 100):
        path.write_bytes(whole[:-missing])
        reads[0] = 0

        items = list(tape.open().scan())

        assert [content_of(item) for item in items if isinstance(item, Record)] == CONTENTS
        assert len(items) == len(CONTENTS)


def test_a_reader_gets_every_record_once_while_the_tape_is_written_replaced_and_sealed(tmp_path: Path) -> None:
    contents = outputs(3000)
    writer = begin_tape(tmp_path, segment_bytes=5000)
    on_disk = TapeOnDisk(tmp_path, TAPE_ID)
    ended = Event()

    def write() -> None:
        rng = Random(9)
        for content in contents:
            writer.append(*content)
            if rng.random() < 0.3:
                writer.flush()
            if rng.random() < 0.05:
                writer.sync()
            if rng.random() < 0.02:
                writer.abandon()
        writer.append(Kind.SEAL, 10**9, b"{}")
        writer.sync()
        writer.close()

    def seal_all_the_time() -> None:
        while not ended.is_set():
            on_disk.seal(complete=False)

    with ThreadPoolExecutor(2) as pool:
        writer.append(Kind.HEAD, 0, b"{}")
        writer.flush()
        jobs = [pool.submit(write), pool.submit(seal_all_the_time)]
        offset, found, deadline = 0, list[Content](), time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and (not found or found[-1][0] != Kind.SEAL):
            for item in on_disk.open().scan(offset):
                if isinstance(item, Damage):
                    break  # what a reader of a live tape does: it comes back
                found.append(content_of(item))
                offset = item.end
        ended.set()
        for job in jobs:
            job.result(DEADLINE_S)

    assert found[1:-1] == contents
    assert on_disk.contents() == found
    assert on_disk.seal().left is None
    assert on_disk.verify().verdict == "clean"


@pytest.mark.parametrize("sealed", [False, True])
def test_skimming_finds_what_scanning_finds_on_a_whole_and_on_a_damaged_tape(tmp_path: Path, *, sealed: bool) -> None:
    rng = Random(9)
    tape = make_tape(tmp_path / "tape", any_contents(rng, 300), segment_bytes=20_000)
    if sealed:
        tape.seal()
    files = tape.files()
    for _ in range(20):
        offset = rng.choice([0, *(record.offset for record in tape.records())])
        assert _skimmed(tape, offset) == _scanned(tape, offset)
        segment = rng.choice(tape.segments())
        data = bytearray(segment.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        segment.write_bytes(data)
        assert _skimmed(tape, 0) == _scanned(tape, 0)
        tape.put_back(files)


def _scanned(tape: TapeOnDisk, offset: int) -> list[object]:
    return [
        (item.kind, item.at, item.payload, item.end) if isinstance(item, Record) else item.end
        for item in tape.open().scan(offset)
        if isinstance(item, Record) or item.end > item.offset
    ]


def _skimmed(tape: TapeOnDisk, offset: int) -> list[object]:
    return [item.end if isinstance(item, Damage) else item for item in tape.open().skim(offset)]
