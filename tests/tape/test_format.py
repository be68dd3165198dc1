"""The bytes of records, segment headers, watermarks and indexes; docs/tape-format.md, sections 1, 2, 5 and 6."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.tape.anchor import add_seal, read_anchor
from scrubjay.tape.format import (
    PAYLOAD_MAX_BYTES,
    RECORD_MAX_BYTES,
    RECORD_OVERHEAD_BYTES,
    SEALED_MAGIC,
    SEGMENT_HEADER_BYTES,
    BadRecord,
    chain_checksums,
    decode_record,
    decode_segment_header,
    encode_record,
    encode_segment_header,
    restore_checksums,
    segment_stem,
    skim_output,
    skim_records,
    strip_checksums,
    tape_salt,
)
from scrubjay.tape.sealed import (
    FOOTER_BYTES,
    FRAME_BYTES,
    Frame,
    compress_frame,
    decode_footer,
    decode_index,
    decompress_frame,
    encode_index,
    salvage_index,
    zstd,
)
from scrubjay.tape.watermark import WatermarkFile, decode_watermark
from tests.support.tables import every_row
from tests.support.tapes import OTHER_ID, TAPE_ID

SALT = tape_salt(TAPE_ID)
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
OFFSETS = st.integers(0, 1 << 60)
RECORDS = st.tuples(st.integers(0, 255), st.integers(0, (1 << 64) - 1), st.binary(max_size=300))


def encode_all(contents: list[tuple[int, int, bytes]], offset: int = 0) -> bytes:
    data = b""
    for kind, at, payload in contents:
        data += encode_record(kind, at, payload, offset=offset + len(data), salt=SALT)
    return data


@given(RECORDS, OFFSETS, st.binary(max_size=40), st.binary(max_size=40))
def test_a_record_is_read_back_as_it_was_from_anywhere_in_a_buffer(
    content: tuple[int, int, bytes], offset: int, before: bytes, after: bytes
) -> None:
    record = encode_record(*content, offset=offset, salt=SALT)

    decoded = decode_record(before + record + after, len(before), offset=offset, salt=SALT)

    assert decoded is not None
    assert decoded[:3] == content
    assert decoded[3] == int.from_bytes(record[-4:], "little")
    assert len(record) == RECORD_OVERHEAD_BYTES + len(content[2])


@given(st.lists(RECORDS, max_size=8), st.integers(0, 400))
def test_the_output_of_whole_records_is_skimmed_and_a_piece_of_one_is_left(
    contents: list[tuple[int, int, bytes]], missing_bytes: int
) -> None:
    contents = [(2 if number % 2 else kind, at, payload) for number, (kind, at, payload) in enumerate(contents)]
    ends = [len(encode_all(contents[:count])) for count in range(len(contents) + 1)]
    data = encode_all(contents)[: max(0, ends[-1] - missing_bytes)]
    whole = sum(end <= len(data) for end in ends[1:])

    shown, taken = skim_output(data)

    assert taken == ends[whole]
    assert shown == b"".join(payload for kind, _, payload in contents[:whole] if kind == 2)


@given(RECORDS, OFFSETS)
def test_a_record_fits_no_other_offset_and_no_other_tape(content: tuple[int, int, bytes], offset: int) -> None:
    record = encode_record(*content, offset=offset, salt=SALT)

    with pytest.raises(BadRecord):
        decode_record(record, 0, offset=offset + 1, salt=SALT)
    with pytest.raises(BadRecord):
        decode_record(record, 0, offset=offset, salt=tape_salt(OTHER_ID))


@given(RECORDS, OFFSETS)
def test_a_record_without_its_last_bytes_is_incomplete_and_not_wrong(
    content: tuple[int, int, bytes], offset: int
) -> None:
    record = encode_record(*content, offset=offset, salt=SALT)

    for cut in range(len(record)):
        assert decode_record(record[:cut], 0, offset=offset, salt=SALT) is None


def test_a_length_above_the_limit_is_wrong_before_the_record_is_there() -> None:
    header = (PAYLOAD_MAX_BYTES + 1).to_bytes(4, "little") + bytes(9)

    with pytest.raises(BadRecord, match="a length of"):
        decode_record(header, 0, offset=0, salt=SALT)


def test_the_largest_record_fits_the_limit_and_one_frame() -> None:
    record = encode_record(2, 0, bytes(PAYLOAD_MAX_BYTES), offset=0, salt=SALT)

    assert len(record) == RECORD_MAX_BYTES <= FRAME_BYTES
    assert decode_record(record, 0, offset=0, salt=SALT) is not None


def test_the_bytes_are_those_of_the_specification() -> None:
    record = encode_record(2, 1_500_000, "hi é\r\n".encode(), offset=85, salt=tape_salt(ALPHABET))
    header = encode_segment_header(ALPHABET, 1, 0)

    assert record.hex(" ") == "07 00 00 00 02 60 e3 16 00 00 00 00 00 68 69 20 c3 a9 0d 0a 47 45 05 39"
    assert header == b"SJTAPE01" + ALPHABET.encode() + bytes(10) + b"\1" + bytes(15) + bytes.fromhex("f37cb318")
    assert len(header) == SEGMENT_HEADER_BYTES == 64
    assert segment_stem(2, 16_777_321) == "000002-00000000000016777321"


@given(st.lists(RECORDS, max_size=8), st.integers(0, 1 << 40), st.data())
def test_skimming_finds_what_reading_one_by_one_finds(
    contents: list[tuple[int, int, bytes]], offset: int, draw: st.DataObject
) -> None:
    data = bytearray(encode_all(contents, offset))
    if data and draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= 0x10
    whole = bytes(data[: draw.draw(st.integers(0, len(data)))])

    size, kind, at, checksums = skim_records(whole, offset=offset, salt=SALT, stop=-1)

    position, found = 0, list[tuple[int, int, bytes, int]]()
    try:
        while (decoded := decode_record(whole, position, offset=offset + position, salt=SALT)) is not None:
            found.append(decoded)
            position += RECORD_OVERHEAD_BYTES + len(decoded[2])
    except BadRecord:
        pass
    assert size == position
    assert checksums == b"".join(record[3].to_bytes(4, "little") for record in found)
    assert (kind, at) == (found[-1][:2] if found else (0, 0))


def test_skimming_stops_where_it_is_told_to() -> None:
    data = encode_all([(2, n, b"abc") for n in range(5)], 1000)

    assert skim_records(data, offset=1000, salt=SALT, stop=1040)[:3] == (40, 2, 1)
    assert skim_records(data, offset=1000, salt=SALT, stop=1041)[0] == 100
    assert skim_records(data[40:], offset=1040, salt=SALT, stop=1040)[0] == 60


def test_the_chain_is_the_same_record_by_record_and_all_at_once() -> None:
    records = [encode_record(2, n, b"x" * n, offset=n, salt=SALT) for n in range(20)]
    chain = 0
    for record in records:
        chain = chain_checksums(chain, record[-4:])

    assert chain == chain_checksums(0, b"".join(record[-4:] for record in records))
    assert chain != chain_checksums(0, b"".join(record[-4:] for record in reversed(records)))


@given(st.integers(1, (1 << 32) - 1), OFFSETS, st.sampled_from([b"SJTAPE01", SEALED_MAGIC]))
def test_a_segment_header_is_read_back_as_it_was(number: int, first: int, magic: bytes) -> None:
    header = encode_segment_header(TAPE_ID, number, first, magic=magic)

    assert decode_segment_header(header, magic=magic) == (TAPE_ID, number, first)


def test_a_segment_header_of_the_other_shape_is_not_taken() -> None:
    with pytest.raises(BadRecord):
        decode_segment_header(encode_segment_header(TAPE_ID, 1, 0, magic=SEALED_MAGIC))
    with pytest.raises(BadRecord):
        decode_segment_header(encode_segment_header(TAPE_ID, 1, 0)[:-1])


class _Memory:
    """A file that only a watermark writes to."""

    def __init__(self) -> None:
        self.data = bytearray(1024)

    def overwrite(self, position: int, data: bytes) -> None:
        self.data[position : position + len(data)] = data

    def sync(self) -> None:
        return

    def close(self) -> None:
        return


def test_the_newest_watermark_is_read() -> None:
    file = _Memory()
    marks = WatermarkFile(file, TAPE_ID)
    for offset in range(0, 500, 100):
        marks.put(offset, crc32(b"%d" % offset))
        marks.sync()
        watermark = decode_watermark(bytes(file.data))

        assert watermark is not None
        assert (watermark.tape, watermark.offset, watermark.chain) == (TAPE_ID, offset, crc32(b"%d" % offset))


def test_a_watermark_that_was_synced_is_not_written_over_before_another_one_is() -> None:
    file = _Memory()
    marks = WatermarkFile(file, TAPE_ID)
    marks.put(100, 1)
    marks.sync()
    synced = bytes(file.data[512:])

    for offset in (200, 300, 400):
        marks.put(offset, 1)
        assert bytes(file.data[512:]) == synced

    marks.sync()
    marks.put(500, 1)
    assert bytes(file.data[512:]) != synced
    assert decode_watermark(bytes(file.data[:512])) is not None


def test_a_writer_that_goes_on_leaves_the_newest_watermark_alone() -> None:
    file = _Memory()
    marks = WatermarkFile(file, TAPE_ID)
    for offset in (100, 200, 300):
        marks.put(offset, 1)
        marks.sync()
    newest = decode_watermark(bytes(file.data))
    assert newest is not None

    WatermarkFile(file, TAPE_ID, turn=newest.turn).put(400, 1)

    slot = newest.turn % 2 * 512
    kept = decode_watermark(bytes(file.data[slot : slot + 512]))
    assert kept is not None
    assert kept.offset == 300
    last = decode_watermark(bytes(file.data))
    assert last is not None
    assert last.offset == 400


@every_row("data", [b"", b"SJMARK01", bytes(1024), b"\xff" * 2000])
def test_what_is_no_watermark_is_none(data: bytes) -> None:
    assert decode_watermark(data) is None


def test_another_tapes_watermark_does_not_count(tmp_path: Path) -> None:
    file = _Memory()
    WatermarkFile(file, OTHER_ID).put(100, 1)
    (tmp_path / "watermark").write_bytes(file.data)

    assert read_anchor(tmp_path, TAPE_ID).watermark is None
    assert read_anchor(tmp_path, OTHER_ID).watermark is not None


def test_seals_survive_lines_that_were_half_written(tmp_path: Path) -> None:
    add_seal(tmp_path, 1, b"\1" * 32)
    whole = (tmp_path / "seals").read_bytes()
    add_seal(tmp_path, 2, b"\2" * 32)
    line = (tmp_path / "seals").read_bytes()[len(whole) :]

    for cut in range(len(line)):
        (tmp_path / "seals").write_bytes(whole + line[:cut])
        half = read_anchor(tmp_path, TAPE_ID).seals
        assert half in ({1: "01" * 32}, {1: "01" * 32, 2: "02" * 32})
        add_seal(tmp_path, 3, b"\3" * 32)
        assert read_anchor(tmp_path, TAPE_ID).seals == half | {3: "03" * 32}


def make_sealed(frames: list[bytes], first: int = 0) -> bytes:
    """A sealed file of the records in ``frames``."""
    header = encode_segment_header(TAPE_ID, 1, first, magic=SEALED_MAGIC)
    entries, packed, offset, position = list[Frame](), b"", first, len(header)
    for frame in map(compress_frame, frames):
        entries.append(Frame(offset, 7, position, crc32(frame)))
        packed += frame
        position += len(frame)
        offset += len(frames[len(entries) - 1])
    return header + packed + encode_index(entries, end=offset, position=position, previous=bytes(32), digest=bytes(32))


def split_sealed(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Header, index entries and footer."""
    footer = data[-FOOTER_BYTES:]
    position, length = decode_footer(footer)
    return data[:SEGMENT_HEADER_BYTES], data[position : position + length], footer


def test_an_index_is_read_back_and_can_be_found_again_without_itself() -> None:
    first = encode_all([(2, 7, b"a" * 100), (2, 8, b"b" * 100)])
    second = encode_all([(2, 7, b"c" * 50)], len(first))
    data = make_sealed([first, second])

    index = decode_index(*split_sealed(data))
    salvaged = salvage_index(data[: -FOOTER_BYTES - 10], 1, 0, salt=SALT)

    assert [frame.offset for frame in index.frames] == [0, len(first)]
    assert index.end == len(first) + len(second)
    assert salvaged.frames == index.frames
    assert (salvaged.end, salvaged.frames_end) == (index.end, index.frames_end)


@every_row(
    "frames",
    [
        [],
        [Frame(1, 0, 64, 0)],
        [Frame(0, 0, 65, 0)],
        [Frame(0, 0, 64, 0), Frame(0, 0, 80, 0)],
        [Frame(0, 0, 64, 0), Frame(50, 0, 64, 0)],
        [Frame(0, 0, 64, 0), Frame(200, 0, 80, 0)],
        [Frame(0, 0, 64, 0), Frame(50, 0, 300, 0)],
        [Frame(0, 0, 64, 0), Frame(50, 0, 80, 0), Frame(40, 0, 90, 0)],
    ],
)
def test_an_index_whose_frames_do_not_follow_one_another_is_refused(frames: list[Frame]) -> None:
    header = encode_segment_header(TAPE_ID, 1, 0, magic=SEALED_MAGIC)
    index = encode_index(frames, end=100, position=200, previous=bytes(32), digest=bytes(32))

    with pytest.raises(BadRecord):
        decode_index(header, index[:-FOOTER_BYTES], index[-FOOTER_BYTES:])


def test_an_index_that_asks_for_more_memory_than_a_frame_has_is_refused() -> None:
    header = encode_segment_header(TAPE_ID, 1, 0, magic=SEALED_MAGIC)
    index = encode_index([Frame(0, 0, 64, 0)], end=1 << 50, position=200, previous=bytes(32), digest=bytes(32))

    with pytest.raises(BadRecord):
        decode_index(header, index[:-FOOTER_BYTES], index[-FOOTER_BYTES:])


def test_a_frame_is_taken_only_if_it_is_exactly_what_was_sealed() -> None:
    records = encode_all([(2, 7, b"a" * 100), (8, 8, b""), (2, 9, b"b" * 5)], 85)
    end = 85 + len(records)
    data = compress_frame(records)
    frame = Frame(85, 7, 64, crc32(data))

    assert decompress_frame(data, frame, end, salt=SALT) == records
    assert decompress_frame(data, frame, end, salt=SALT + 1) != records
    for wrong_frame, wrong_end in ((frame, end - 1), (frame, end + 1), (Frame(85, 7, 64, frame.checksum ^ 1), end)):
        with pytest.raises(BadRecord):
            decompress_frame(data, wrong_frame, wrong_end, salt=SALT)
    for other in (data[:-1], data + b"\0", data + data, b"", b"no frame"):
        with pytest.raises(BadRecord):
            decompress_frame(other, Frame(85, 7, 64, crc32(other)), end, salt=SALT)


@every_row("cut", [1, 12, 13, 20])
def test_a_frame_that_ends_within_a_record_is_refused(cut: int) -> None:
    stripped = strip_checksums(encode_all([(2, 7, b"a" * 10)]))

    with pytest.raises(BadRecord):
        restore_checksums(stripped[:cut], offset=0, salt=SALT)


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**40), st.binary(max_size=60))), st.integers(0, 2**40))
def test_checksums_are_left_out_and_come_back(contents: list[tuple[int, int, bytes]], offset: int) -> None:
    records = encode_all(contents, offset)

    stripped = strip_checksums(records)

    assert len(stripped) == len(records) - 4 * len(contents)
    assert restore_checksums(stripped, offset=offset, salt=SALT) == records


def test_a_frame_that_swells_is_given_up_before_it_fills_the_memory() -> None:
    bomb = zstd.compress(bytes(200 << 20))

    with pytest.raises(BadRecord):
        decompress_frame(bomb, Frame(0, 0, 64, crc32(bomb)), 200 << 20, salt=SALT)
