"""Sealing: the same records, smaller, once, whatever interrupts it; docs/tape-format.md, section 6."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from random import Random

import pytest

from scrubjay.tape import seal
from scrubjay.tape.format import RECORD_MAX_BYTES, SEGMENT_HEADER_BYTES, Kind
from scrubjay.tape.sealed import FRAME_BYTES
from scrubjay.tape.segment import SealedSegment, list_segments
from tests.support.conditions import DEADLINE_S
from tests.support.tables import every_row
from tests.support.tapes import TAPE_ID, TapeOnDisk, any_contents, begin_tape, content_of, make_tape, outputs

CONTENTS = outputs(40)


class Crash(Exception):
    """The sealer is gone."""


def test_a_sealed_tape_has_the_same_records_at_the_same_offsets(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, any_contents(Random(3), 300), segment_bytes=3000)
    records = tape.records()
    raw_bytes = sum(path.stat().st_size for path in tape.segments())

    sealed = tape.seal()

    assert tape.records() == records
    assert tape.verify().verdict == "clean"
    assert all(path.suffix == ".sealed" for path in tape.segments())
    assert (sealed.segments, sealed.raw_bytes, sealed.left) == (len(tape.segments()), raw_bytes, None)
    assert sealed.sealed_bytes == tape.open().stored_bytes < raw_bytes


def test_frames_hold_whole_records_and_no_more_than_their_size(tmp_path: Path) -> None:
    rng = Random(5)
    contents = [(2, n, bytes(rng.choice((10, 5000, 90_000, RECORD_MAX_BYTES - 17)))) for n in range(60)]
    tape = make_tape(tmp_path, contents)
    starts = {record.offset: record.at for record in tape.records()}
    tape.seal()

    (file,) = list_segments(tape.folder)
    segment = SealedSegment(file)
    frames = segment.index.frames
    sizes = [segment.frame_end(number) - frame.offset for number, frame in enumerate(frames)]
    segment.close()

    assert max(sizes) <= FRAME_BYTES
    assert all(sizes[n] + sizes[n + 1] > FRAME_BYTES for n in range(len(sizes) - 1))
    assert all(starts[frame.offset] == frame.at for frame in frames)
    assert tape.contents()[:-1] == contents


def test_sealing_again_changes_nothing(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    tape.seal()
    once = tape.files()

    again = tape.seal()

    assert (again.segments, again.left) == (0, None)
    assert tape.files() == once


def test_the_live_segment_and_what_is_not_synced_are_left_raw(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path, segment_bytes=400)
    for content in CONTENTS[:20]:
        writer.append(*content)
    writer.sync()
    for content in CONTENTS[20:]:
        writer.append(*content)
    writer.flush()
    tape = TapeOnDisk(tmp_path, TAPE_ID)

    sealed = tape.seal(complete=False)

    files = list_segments(tape.folder)
    assert sealed.left is None
    assert [file.sealed for file in files] == [file.end is not None and file.end <= writer.synced for file in files]
    assert 0 < sealed.segments < len(files) - 1
    assert tape.contents() == CONTENTS
    writer.append(Kind.SEAL, 10**9, b"{}")
    writer.sync()
    writer.close()
    assert tape.verify().verdict == "clean"
    tape.seal()
    assert all(file.sealed for file in list_segments(tape.folder))
    assert tape.verify().verdict == "clean"


def test_sealing_as_the_tape_grows_gives_what_sealing_at_the_end_gives(tmp_path: Path) -> None:
    growing, ended = (
        begin_tape(tmp_path / "growing", segment_bytes=400),
        begin_tape(tmp_path / "ended", segment_bytes=400),
    )
    tape, other = TapeOnDisk(tmp_path / "growing", TAPE_ID), TapeOnDisk(tmp_path / "ended", TAPE_ID)
    for content in [*CONTENTS, (int(Kind.SEAL), 10**9, b"{}")]:
        for writer in (growing, ended):
            writer.append(*content)
            writer.sync()
        tape.seal(complete=False)
    for writer in (growing, ended):
        writer.close()

    tape.seal()
    other.seal()

    assert tape.files() == other.files()
    assert tape.verify().verdict == "clean"


def test_segments_that_were_replaced_after_a_failed_sync_are_sealed_as_one_stream(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path, segment_bytes=500)
    for number, content in enumerate(CONTENTS):
        writer.append(*content)
        writer.flush()
        if number % 7 == 0:
            writer.sync()
        if number % 5 == 0:
            writer.abandon()
    writer.append(Kind.SEAL, 10**9, b"{}")
    writer.sync()
    writer.close()
    tape = TapeOnDisk(tmp_path, TAPE_ID)
    records = tape.records()
    assert [content_of(record) for record in records[:-1]] == CONTENTS

    tape.seal()

    assert tape.records() == records
    assert all(file.sealed for file in list_segments(tape.folder))
    assert tape.verify().verdict == "clean"


def seal_and_die(tape: TapeOnDisk, monkeypatch: pytest.MonkeyPatch, calls: int) -> bool:
    """Seal a tape with a sealer that dies before its nth step; False if it has no more than that."""
    left = [calls]

    def fragile(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patches:
        for owner, name in ((os, "fsync"), (os, "replace"), (seal, "add_seal"), (Path, "unlink")):
            patches.setattr(owner, name, fragile(getattr(owner, name)))
        try:
            tape.seal()
        except Crash:
            return True
    return False


def test_a_sealer_that_dies_at_any_step_leaves_a_whole_tape_and_the_next_one_finishes(
    ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = make_tape(ram_path / "raw", CONTENTS, segment_bytes=600)
    records = raw.records()
    expected = raw.copy(ram_path / "sealed")
    assert expected.seal().segments == 4
    sealed = {path.name: path.read_bytes() for path in expected.folder.iterdir()}
    tape = raw.copy(ram_path / "tape")

    calls = 0
    while seal_and_die(tape, monkeypatch, calls):
        assert tape.records() == records, calls
        assert tape.verify().verdict in ("clean", "unanchored"), calls

        tape.seal()

        assert {path.name: path.read_bytes() for path in tape.folder.iterdir()} == sealed, calls
        assert tape.anchor().seals == expected.anchor().seals, calls
        assert tape.verify().verdict == "clean", calls
        tape.put_back(raw.files())
        calls += 1

    assert calls == 4 * 7  # a sync, a rename, a sync, a line and its two syncs, a removal


def test_a_half_written_sealed_file_is_not_read_and_is_written_again(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    (raw,) = tape.segments()
    raw.with_suffix(".sealing").write_bytes(b"SJSEAL01 and then the power went")
    assert tape.contents()[:-1] == CONTENTS

    tape.seal()

    assert [path.suffix for path in tape.folder.iterdir()] == [".sealed"]
    assert tape.verify().verdict == "clean"


def test_only_one_process_seals_a_tape_at_a_time_and_the_last_one_waits(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    before = tape.files()
    fd = os.open(tape.folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        passing = tape.seal(complete=False)
        with ThreadPoolExecutor() as others:
            last = others.submit(tape.seal)
            assert not wait([last], timeout=0.1).done
            assert tape.files() == before
            fcntl.flock(fd, fcntl.LOCK_UN)
            sealed = last.result(timeout=DEADLINE_S)
    finally:
        os.close(fd)

    assert (passing.segments, passing.left) == (0, "another process is sealing this tape")
    assert sealed.segments == 1


@every_row("place", [10, SEGMENT_HEADER_BYTES + 3, SEGMENT_HEADER_BYTES + 200])
def test_a_damaged_segment_is_left_raw_with_all_that_follow(tmp_path: Path, place: int) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    files = list_segments(tape.folder)
    data = bytearray(files[1].path.read_bytes())
    data[place] ^= 1
    files[1].path.write_bytes(data)
    before = tape.records()

    sealed = tape.seal()

    assert sealed.segments == 1
    assert sealed.left is not None
    assert f"damaged at offset {files[1].first}" in sealed.left or place > SEGMENT_HEADER_BYTES + 100
    assert [file.sealed for file in list_segments(tape.folder)] == [True, False, False, False]
    assert files[1].path.read_bytes() == data
    assert tape.records() == before


def test_a_segment_that_ends_too_early_is_left_raw(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    files = list_segments(tape.folder)
    last = [record for record in tape.records() if record.end == files[1].end]
    os.truncate(files[1].path, SEGMENT_HEADER_BYTES + last[0].offset - files[1].first)

    sealed = tape.seal()

    assert (sealed.segments, sealed.left) == (1, f"missing from offset {last[0].offset}")


def test_a_damaged_sealed_segment_stops_the_sealer_without_being_touched(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    tape.seal()
    first = tape.segments()[0]
    data = bytearray(first.read_bytes())
    data[-20] ^= 1
    first.write_bytes(data)
    before = tape.files()

    sealed = tape.seal()

    assert sealed.left is not None
    assert "damaged" in sealed.left
    assert tape.files() == before


def test_a_torn_tail_is_not_sealed(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, closed=False)
    (raw,) = tape.segments()
    raw.write_bytes(raw.read_bytes()[:-1])

    assert tape.seal().left is not None
    assert tape.segments() == [raw]


def test_a_tape_without_a_record_is_not_sealed(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS)
    (raw,) = tape.segments()
    raw.write_bytes(raw.read_bytes()[:SEGMENT_HEADER_BYTES])

    assert tape.seal() == seal.Sealed(0, 0, 0)
    assert tape.segments() == [raw]


def test_a_complete_tape_is_sealed_even_if_nothing_says_that_it_was_synced(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, watermark=False, segment_bytes=600)
    assert tape.seal(complete=False).segments == 0

    assert tape.seal().segments == 4

    assert tape.verify().verdict == "unanchored"


def test_progress_is_told_in_bytes_of_raw_segments(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, CONTENTS, segment_bytes=600)
    sizes = [path.stat().st_size for path in tape.segments()]
    told: list[int] = []

    seal.seal_ended_segments(tape.folder, tape.root, TAPE_ID, complete=True, progress=told.append)

    assert told == sizes
