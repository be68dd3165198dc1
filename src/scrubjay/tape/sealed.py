"""The file of a sealed segment: independent zstd frames, an index, and a chained SHA-256.

Implements docs/tape-format.md, section 6. Pure but for the compressor.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from scrubjay.tape.format import SEALED_MAGIC, SEGMENT_HEADER_BYTES, BadRecord, decode_segment_header

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Level 6 in frames of 256 KiB is smaller than level 3 over the whole stream, and a seal is background work.
_LEVEL = 6
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}
FRAME_BYTES = 256 << 10  # of records in one frame, so a read decompresses no more than this

_ENTRY = Struct("<QQQ")
_FOOTER = Struct("<QQQ32s32s8s")
_CRC = Struct("<I")
FOOTER_BYTES = _FOOTER.size + _CRC.size
_FOOTER_MAGIC = b"SJFOOT01"


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame is. Its first byte is the first byte of a record."""

    offset: int  #: of its first byte in the tape
    at: int  #: of its first record
    position: int  #: of its first byte in the file


@dataclass(frozen=True, slots=True)
class SealedIndex:
    """What a sealed segment says about itself."""

    tape: str
    number: int
    first: int
    end: int  #: the offset after its last record
    frames: tuple[Frame, ...]
    frames_end: int  #: the file position after the last frame
    previous: bytes  #: SHA-256 of the segment before
    digest: bytes  #: SHA-256 of ``previous`` and this segment's records


def compress_frame(records: bytes) -> bytes:
    """One frame, with zstd's own checksum in it."""
    return zstd.compress(records, options=_OPTIONS)


def decompress_frame(data: bytes, expected_bytes: int) -> bytes:
    """The records of one frame; BadRecord if it does not yield exactly ``expected_bytes``."""
    decompressor = zstd.ZstdDecompressor()
    try:
        records = decompressor.decompress(data, max_length=expected_bytes + 1)
    except zstd.ZstdError as error:
        raise BadRecord(f"a damaged frame: {error}") from error
    if len(records) != expected_bytes or not decompressor.eof:
        raise BadRecord(f"a frame of {len(records)} bytes where {expected_bytes} belong")
    return records


def chain_digest(previous: bytes, records: bytes) -> bytes:
    """SHA-256 of a segment chained to the one before."""
    return hashlib.sha256(previous + records).digest()


def encode_index(frames: list[Frame], *, end: int, position: int, previous: bytes, digest: bytes) -> bytes:
    """The index and footer that follow the frames, the first byte of which stands at ``position``."""
    entries = b"".join(_ENTRY.pack(frame.offset, frame.at, frame.position) for frame in frames)
    packed = zstd.compress(entries, _LEVEL)
    footer = _FOOTER.pack(position, len(packed), end, previous, digest, _FOOTER_MAGIC)
    return packed + footer + _CRC.pack(crc32(packed + footer))


def decode_footer(footer: bytes) -> tuple[int, int]:
    """Position and length of the packed index; BadRecord if this is no footer."""
    if len(footer) != FOOTER_BYTES or footer[_FOOTER.size - 8 : _FOOTER.size] != _FOOTER_MAGIC:
        raise BadRecord("no footer")
    position, length, *_ = _FOOTER.unpack_from(footer)
    return position, length


def decode_index(header: bytes, packed: bytes, footer: bytes) -> SealedIndex:
    """What the three parts say; BadRecord if any of them is damaged."""
    tape, number, first = decode_segment_header(header, magic=SEALED_MAGIC)
    if _CRC.unpack_from(footer, _FOOTER.size)[0] != crc32(packed + footer[: _FOOTER.size]):
        raise BadRecord("a damaged index")
    position, _, end, previous, digest, _ = _FOOTER.unpack_from(footer)
    try:
        entries = zstd.decompress(packed)
    except zstd.ZstdError as error:
        raise BadRecord(f"a damaged index: {error}") from error
    frames = tuple(Frame(*entry) for entry in _ENTRY.iter_unpack(entries))
    if not frames or frames[0].position != SEGMENT_HEADER_BYTES or frames[0].offset != first:
        raise BadRecord("an index that does not begin with its segment")
    return SealedIndex(tape, number, first, end, frames, position, previous, digest)
