"""The bytes of a tape: records, their checksums, and the header of a segment file.

Implements docs/tape-format.md, sections 2 and 3. Pure: bytes in, bytes out.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from zlib import crc32

TYPE_CHECKING = False  # not typing's: importing typing costs a keeper 4 ms and 0.5 MB
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORMAT_VERSION = 1

RECORD_MAX_BYTES = 256 << 10  # a whole record; so a compressed frame of this size always holds whole records
SEGMENT_BYTES = 16 << 20  # of records in one segment file before the next one is begun

_HEADER = Struct("<IBQ")
_CRC = _LENGTH = Struct("<I")
_OFFSET = Struct("<Q")
HEADER_BYTES = _HEADER.size
RECORD_OVERHEAD_BYTES = _HEADER.size + _CRC.size
PAYLOAD_MAX_BYTES = RECORD_MAX_BYTES - RECORD_OVERHEAD_BYTES

_RAW_MAGIC = b"SJTAPE01"
SEALED_MAGIC = b"SJSEAL01"
_SEGMENT = Struct("<8s26sxxQI12x")
SEGMENT_HEADER_BYTES = _SEGMENT.size + _CRC.size


class Kind(IntEnum):
    """What a record holds. Readers skip and keep kinds they do not know."""

    HEAD = 1  #: who, what, where and when: JSON, the first record of a tape
    OUTPUT = 2  #: bytes the agent showed
    INPUT = 3  #: bytes somebody typed, and who
    RESIZE = 4  #: columns and rows, two u16
    SIGNAL = 5  #: a signal sent to the agent: JSON
    CLOCK = 6  #: the wall clock at this instant: JSON
    MARK = 7  #: a label by a person or agent: JSON
    EVENT = 8  #: something that happened around the agent: JSON
    GAP = 9  #: what is missing here and why: JSON
    EXIT = 10  #: how the agent ended: JSON
    SEAL = 11  #: the end of the tape; nothing follows: JSON


Skimmed = tuple[int, int, bytes, int]
"""Kind, at and payload of a record, and the offset after it."""


class BadRecord(Exception):
    """Bytes that are not the record that belongs at this offset."""


def tape_salt(tape: str) -> int:
    """What every checksum of a tape starts from, so that no other tape's record fits."""
    return crc32(tape.encode())


def encode_record(kind: int, at: int, payload: bytes, *, offset: int, salt: int) -> bytes:
    """One record as it stands at ``offset`` of the tape with ``salt``."""
    return b"".join(encode_parts(kind, at, payload, offset=offset, salt=salt))


def encode_parts(kind: int, at: int, *payload: bytes, offset: int, salt: int) -> tuple[bytes, ...]:
    """The same of a payload that comes in parts, which are not copied: header, payload, checksum."""
    header = _HEADER.pack(sum(map(len, payload)), kind, at)
    # The offset is part of the checksum: a record that a damaged length points at, or one of a
    # tape that was itself printed into this tape, is not taken for one of ours.
    checksum = crc32(header, crc32(_OFFSET.pack(offset), salt))
    for part in payload:
        checksum = crc32(part, checksum)
    return header, *payload, _CRC.pack(checksum)


def decode_record(
    data: bytes | memoryview, position: int, *, offset: int, salt: int
) -> tuple[int, int, bytes, int] | None:
    """Kind, at, payload and checksum of the record at ``position`` of ``data``, or None if it is incomplete.

    Raises BadRecord if what is there cannot be this tape's record for ``offset``.
    """
    if position + HEADER_BYTES > len(data):
        return None
    length, kind, at = _HEADER.unpack_from(data, position)
    if length > PAYLOAD_MAX_BYTES:
        raise BadRecord(f"a length of {length} at {offset}")
    end = position + HEADER_BYTES + length
    if end + _CRC.size > len(data):
        return None
    (checksum,) = _CRC.unpack_from(data, end)
    body = memoryview(data)[position:end]
    if crc32(body, crc32(_OFFSET.pack(offset), salt)) != checksum:
        raise BadRecord(f"a wrong checksum at {offset}")
    return kind, at, bytes(body[HEADER_BYTES:]), checksum


def peek_record(data: bytes | memoryview, position: int) -> tuple[int, int] | None:
    """Size and at of the record at ``position`` without checking it, or None if its header is incomplete."""
    if position + HEADER_BYTES > len(data):
        return None
    length, _, at = _HEADER.unpack_from(data, position)
    return RECORD_OVERHEAD_BYTES + length, at


def skim_records(data: bytes, *, offset: int, salt: int, stop: int) -> tuple[int, int, int, bytes]:
    """Check the records ``data`` begins with: bytes they take, kind and at of the last, all their checksums.

    Ends before the first that is incomplete or wrong, and where one ends at the offset ``stop``.
    """
    # One loop without calls of our own: tapes of small records are verified four times as fast as record by record.
    view, size = memoryview(data), len(data)
    position = kind = at = 0
    checksums: list[bytes] = []
    while position + RECORD_OVERHEAD_BYTES <= size:
        length, this_kind, this_at = _HEADER.unpack_from(data, position)
        end = position + HEADER_BYTES + length
        if length > PAYLOAD_MAX_BYTES or end + _CRC.size > size:
            break
        body = crc32(view[position:end], crc32(_OFFSET.pack(offset + position), salt))
        if body != _CRC.unpack_from(data, end)[0]:
            break
        position, kind, at = end + _CRC.size, this_kind, this_at
        checksums.append(data[end:position])
        if offset + position == stop:
            break
    return position, kind, at, b"".join(checksums)


def skim_output(data: bytes) -> tuple[bytes, int]:
    """What an agent showed, from the whole records ``data`` begins with, and the bytes they take. Checks nothing."""
    shown: list[bytes] = []
    position, size = 0, len(data)
    while position + RECORD_OVERHEAD_BYTES <= size:
        length, kind, _ = _HEADER.unpack_from(data, position)
        start = position + HEADER_BYTES
        end = start + length + _CRC.size
        if end > size:
            break
        if kind == Kind.OUTPUT:
            shown.append(data[start : start + length])
        position = end
    return b"".join(shown), position


def strip_checksums(records: bytes) -> bytes:
    """Whole records without their checksums, which follow from everything else."""
    parts: list[bytes] = []
    position = 0
    while position < len(records):
        end = position + HEADER_BYTES + _LENGTH.unpack_from(records, position)[0]
        parts.append(records[position:end])
        position = end + _CRC.size
    return b"".join(parts)


def restore_checksums(stripped: bytes, *, offset: int, salt: int) -> bytes:
    """The records that ``strip_checksums`` was given, the first of them at ``offset``; BadRecord if it was not."""
    parts: list[bytes] = []
    position = 0
    while position < len(stripped):
        if position + HEADER_BYTES > len(stripped):
            raise BadRecord("a frame that ends within a record")
        end = position + HEADER_BYTES + _LENGTH.unpack_from(stripped, position)[0]
        if end > len(stripped):
            raise BadRecord("a frame that ends within a record")
        body = stripped[position:end]
        parts += (body, _CRC.pack(crc32(body, crc32(_OFFSET.pack(offset), salt))))
        offset += len(body) + _CRC.size
        position = end
    return b"".join(parts)


def skim_stripped(pieces: Iterable[bytes], offset: int, start: int, stop: int) -> Iterator[list[Skimmed]]:
    """The records in the pieces of a frame that begins at ``offset``: those from ``start`` to ``stop``."""
    unpack, rest = _HEADER.unpack_from, b""
    for piece in pieces:
        stripped, position = rest + piece, 0
        size, records = len(stripped), list[Skimmed]()
        while position + HEADER_BYTES <= size and offset < stop:
            length, kind, at = unpack(stripped, position)
            first = position + HEADER_BYTES
            if first + length > size:
                break
            position = first + length
            end = offset + RECORD_OVERHEAD_BYTES + length
            if offset >= start:
                records.append((kind, at, stripped[first:position], end))
            offset = end
        yield records
        if offset >= stop:
            return
        rest = stripped[position:]
    if rest:
        raise BadRecord("a frame that ends within a record")


def chain_checksums(chain: int, checksums: bytes) -> int:
    """Carry the tape's running checksum over the records that ``checksums`` belong to."""
    return crc32(checksums, chain)


def encode_segment_header(tape: str, number: int, first: int, *, magic: bytes = _RAW_MAGIC) -> bytes:
    """The first 64 bytes of a segment file."""
    body = _SEGMENT.pack(magic, tape.encode(), first, number)
    return body + _CRC.pack(crc32(body))


def decode_segment_header(data: bytes, *, magic: bytes = _RAW_MAGIC) -> tuple[str, int, int]:
    """Tape id, segment number and first offset; BadRecord if the bytes are no such header."""
    if len(data) < SEGMENT_HEADER_BYTES or not data.startswith(magic):
        raise BadRecord("no segment header")
    body = data[: _SEGMENT.size]
    if _CRC.unpack_from(data, _SEGMENT.size)[0] != crc32(body):
        raise BadRecord("a damaged segment header")
    _, tape, first, number = _SEGMENT.unpack(body)
    return tape.decode("ascii", "replace"), number, first


def segment_stem(number: int, first: int) -> str:
    """A segment's file name without its ending."""
    return f"{number:06d}-{first:020d}"
