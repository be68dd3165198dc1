"""The file of a sealed segment: independent zstd frames, an index, and a chained SHA-256.

Implements docs/tape-format.md, section 6. Pure but for the compressor.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from scrubjay.tape.format import (
    SEALED_MAGIC,
    SEGMENT_HEADER_BYTES,
    BadRecord,
    decode_segment_header,
    peek_record,
    restore_checksums,
    strip_checksums,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Level 9 in frames of 512 KiB is smaller than level 3 over the whole stream, and a seal is background work.
_LEVEL = 9
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}
FRAME_BYTES = 512 << 10  # of records in one frame, so a read decompresses no more than this
_PIECE_BYTES = 128 << 10  # of them at a time

_ENTRY = Struct("<QQQI")
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
    checksum: int  #: CRC-32 of its bytes in the file


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
    """One frame, with zstd's own checksum in it in place of those of the records."""
    # Checksums do not compress: they would be a tenth of what an agent's many small records take.
    return zstd.compress(strip_checksums(records), options=_OPTIONS)


def decompress_frame(data: bytes, frame: Frame, end: int, *, salt: int) -> bytes:
    """The records of one frame that ends at ``end``; BadRecord if it is damaged or yields anything else."""
    records = restore_checksums(b"".join(unpack_pieces(data, frame)), offset=frame.offset, salt=salt)
    if len(records) != end - frame.offset:
        raise BadRecord(f"a frame of {len(records)} bytes where {end - frame.offset} belong")
    return records


def unpack_pieces(data: bytes, frame: Frame) -> Iterator[bytes]:
    """The records of one frame as they are stored, without their checksums, bit by bit; BadRecord if it is damaged."""
    # zstd's own checksum is of the records: bits that make no difference to those would go unnoticed, and whoever
    # needs only the first records would never come to it.
    if crc32(data) != frame.checksum:
        raise BadRecord("a damaged frame")
    decompressor = zstd.ZstdDecompressor()
    left = FRAME_BYTES
    try:
        while not decompressor.eof:
            piece = decompressor.decompress(data, max_length=_PIECE_BYTES)
            data = b""
            left -= len(piece)
            if left < 0 or (decompressor.needs_input and not decompressor.eof):
                raise BadRecord("a frame that does not end")
            yield piece
    except zstd.ZstdError as error:
        raise BadRecord(f"a damaged frame: {error}") from error
    if decompressor.unused_data:
        raise BadRecord("a frame with bytes after its end")


def _decompress(data: bytes) -> tuple[bytes, int]:
    """What the frame that ``data`` begins with holds, and how many bytes are not part of it."""
    decompressor = zstd.ZstdDecompressor()
    try:
        records = decompressor.decompress(data, max_length=FRAME_BYTES + 1)
    except zstd.ZstdError as error:
        raise BadRecord(f"a damaged frame: {error}") from error
    if not decompressor.eof or len(records) > FRAME_BYTES:
        raise BadRecord("a frame that does not end")
    return records, len(decompressor.unused_data)


def chain_digest(previous: bytes, records: bytes) -> bytes:
    """SHA-256 of a segment chained to the one before."""
    return hashlib.sha256(previous + records).digest()


def encode_index(frames: list[Frame], *, end: int, position: int, previous: bytes, digest: bytes) -> bytes:
    """The index and footer that follow the frames, the first byte of which stands at ``position``."""
    entries = b"".join(_ENTRY.pack(frame.offset, frame.at, frame.position, frame.checksum) for frame in frames)
    footer = _FOOTER.pack(position, len(entries), end, previous, digest, _FOOTER_MAGIC)
    return entries + footer + _CRC.pack(crc32(entries + footer))


def decode_footer(footer: bytes) -> tuple[int, int]:
    """Position and length of the index entries; BadRecord if this is no footer."""
    if len(footer) != FOOTER_BYTES or footer[_FOOTER.size - 8 : _FOOTER.size] != _FOOTER_MAGIC:
        raise BadRecord("no footer")
    position, length, *_ = _FOOTER.unpack_from(footer)
    return position, length


def decode_index(header: bytes, entries: bytes, footer: bytes) -> SealedIndex:
    """What the three parts say; BadRecord if any of them is damaged."""
    tape, number, first = decode_segment_header(header, magic=SEALED_MAGIC)
    if _CRC.unpack_from(footer, _FOOTER.size)[0] != crc32(entries + footer[: _FOOTER.size]):
        raise BadRecord("a damaged index")
    position, _, end, previous, digest, _ = _FOOTER.unpack_from(footer)
    if len(entries) % _ENTRY.size:
        raise BadRecord("an index of the wrong length")
    frames = tuple(Frame(*entry) for entry in _ENTRY.iter_unpack(entries))
    if not frames or frames[0].position != SEGMENT_HEADER_BYTES or frames[0].offset != first:
        raise BadRecord("an index that does not begin with its segment")
    ends = [*((frame.offset, frame.position) for frame in frames[1:]), (end, position)]
    for frame, (frame_end, stop) in zip(frames, ends, strict=True):
        # Whoever wrote it: a reader must get on with every frame and hold it in memory.
        if not 0 < frame_end - frame.offset <= FRAME_BYTES or stop <= frame.position:
            raise BadRecord("an index whose frames do not follow one another")
    return SealedIndex(tape, number, first, end, frames, position, previous, digest)


def salvage_index(data: bytes, number: int, first: int, *, salt: int) -> SealedIndex:
    """The index of a sealed file whose own is damaged, from its frames; BadRecord if the first is damaged too."""
    frames: list[Frame] = []
    position, offset = SEGMENT_HEADER_BYTES, first
    while True:
        window = data[position : position + 2 * FRAME_BYTES]
        try:
            stripped, unused = _decompress(window)
            records = restore_checksums(stripped, offset=offset, salt=salt)
        except BadRecord:
            break
        peeked = peek_record(records, 0)
        if peeked is None:
            break
        packed = window[: len(window) - unused]
        frames.append(Frame(offset, peeked[1], position, crc32(packed)))
        position += len(packed)
        offset += len(records)
    if not frames:
        raise BadRecord("neither the index nor the first frame can be read")
    return SealedIndex("", number, first, offset, tuple(frames), position, b"", b"")
