"""The bytes of a tape come out the same, however its segments are stored and whatever is done to them meanwhile."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from scrubjay.errors import NotATape, TapeDamaged
from scrubjay.tape.format import SEGMENT_HEADER_BYTES, Kind
from scrubjay.tape.raw_bytes import TapeBytes, fingerprint, read_bytes
from scrubjay.tape.stream import RecordStream
from tests.support.tapes import TAPE_ID, Flipper, TapeOnDisk, any_contents, begin_tape, make_tape, outputs


@pytest.fixture
def tape(tmp_path: Path) -> TapeOnDisk:
    """A tape of a dozen segments."""
    return make_tape(tmp_path / "t", any_contents(Random(1), 400), segment_bytes=4000)


def raw_stream(tape: TapeOnDisk) -> bytes:
    """What its raw segments hold, one after the other."""
    return b"".join(path.read_bytes()[SEGMENT_HEADER_BYTES:] for path in tape.segments("*.raw"))


def test_bytes_are_those_of_the_segments_without_their_headers(tape: TapeOnDisk) -> None:
    whole = raw_stream(tape)

    assert len(tape.segments()) > 10
    assert read_bytes(tape.open(), 0, 1 << 30) == whole
    assert read_bytes(tape.open(), 12_345, 20_000) == whole[12_345:32_345]
    assert read_bytes(tape.open(), len(whole), 10) == b""
    assert read_bytes(tape.open(), len(whole) + 5, 10) == b""


def test_sealing_changes_no_byte(tape: TapeOnDisk) -> None:
    whole = raw_stream(tape)

    tape.seal()

    assert tape.segments("*.raw") == []
    with closing(TapeBytes(tape.folder, TAPE_ID)) as raw:
        assert b"".join(iter_portions(raw, 777)) == whole


def test_a_tape_that_is_sealed_while_it_is_read_comes_out_whole(tape: TapeOnDisk) -> None:
    whole = raw_stream(tape)

    with closing(TapeBytes(tape.folder, TAPE_ID)) as raw:
        first = raw.read(0, 20_000)
        tape.seal()
        rest = b"".join(iter_portions(raw, 5000, offset=20_000))

    assert first + rest == whole


def test_a_tape_that_grows_is_read_from_where_it_ended(tmp_path: Path) -> None:
    writer = begin_tape(tmp_path / "t", segment_bytes=3000)
    tape = TapeOnDisk(tmp_path / "t", TAPE_ID)
    writer.append(Kind.HEAD, 0, b"{}")
    writer.flush()
    stream = RecordStream(TAPE_ID, 0)
    found = 0

    with closing(TapeBytes(tape.folder, TAPE_ID)) as raw:
        for number in range(300):
            writer.append(Kind.OUTPUT, number, bytes(number))
            writer.flush()
            if number % 50 == 20:
                writer.abandon()  # what was not synced is written again, to another segment
                writer.flush()
            if number % 50 == 40:
                writer.sync()
            data = raw.read(stream.wanted, 1 << 20)
            assert stream.wanted + len(data) == writer.written
            found += len(stream.feed(data))
    writer.close()

    assert found == 301


def test_a_damaged_frame_is_said_where_it_begins(tape: TapeOnDisk) -> None:
    tape.seal()
    _, second, *_ = tape.segments()
    first_offset = int(second.stem.split("-")[1])
    spoilt = Flipper(second)

    with spoilt.flipped(8 * (SEGMENT_HEADER_BYTES + 30)), closing(TapeBytes(tape.folder, TAPE_ID)) as raw:
        before = raw.read(0, 1 << 30)
        with pytest.raises(TapeDamaged) as caught:
            raw.read(first_offset, 10)

    assert len(before) == first_offset
    assert caught.value.offset == first_offset


def test_a_part_that_no_segment_holds_is_damage(tape: TapeOnDisk) -> None:
    _, second, third, *_ = tape.segments()
    second.unlink()
    offset = int(second.stem.split("-")[1])

    with closing(TapeBytes(tape.folder, TAPE_ID)) as raw:
        assert len(raw.read(0, 1 << 30)) == offset
        with pytest.raises(TapeDamaged):
            raw.read(offset, 1)
        assert raw.read(int(third.stem.split("-")[1]), 100)


def test_where_there_is_no_tape_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NotATape):
        TapeBytes(tmp_path / "nothing", TAPE_ID).read(0, 1)


def test_a_fingerprint_tells_tapes_apart_that_differ_in_one_byte(tmp_path: Path) -> None:
    contents = outputs(10)
    kind, at, payload = contents[-1]
    one = make_tape(tmp_path / "one", contents, closed=False)
    other = make_tape(tmp_path / "other", [*contents[:-1], (kind, at, b"X" + payload[1:])], closed=False)
    end = one.open().end

    marks = [TapeBytes(tape.folder, TAPE_ID).fingerprint(end) for tape in (one, other)]

    assert marks[0] != marks[1]
    assert marks[0] == fingerprint(raw_stream(one))


def iter_portions(raw: TapeBytes, size: int, *, offset: int = 0) -> list[bytes]:
    """Everything from an offset, so much at a time."""
    portions: list[bytes] = []
    while data := raw.read(offset, size):
        portions.append(data)
        offset += len(data)
    return portions
