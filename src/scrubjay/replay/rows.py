"""Rows that were shown or typed, and blocks of them as the search index keeps them. Pure but for the compressor."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from operator import sub
from typing import NamedTuple

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BITS = 9
BLOCK_ROWS = 1 << BLOCK_BITS  # more take less room, a byte for twice as many, and longer to read: these, 0.1 ms

_HEADER = struct.Struct("<I")
# Level 3 takes a fifth longer and a byte less for a row.
_COMPRESSOR = zstd.ZstdCompressor(
    options={zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.checksum_flag: 1}
)
_KINDS = ("shown", "typed")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}


class Row(NamedTuple):
    """A row to be found again."""

    at: int  #: microseconds since the tape began
    offset: int  #: in the tape: a frame that shows it, or that it had just left
    y: int  #: the row of the screen; -1 if it had scrolled off or was typed
    kind: str  #: shown or typed
    text: str


class BadBlock(Exception):
    """Bytes that are no block of rows."""


def pack(data: bytes) -> bytes:
    """Compress, with a checksum."""
    return _COMPRESSOR.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def unpack(data: bytes) -> bytes:
    """What was packed; BadBlock if it is damaged."""
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as error:
        raise BadBlock(str(error)) from error


def encode_rows(rows: Sequence[tuple[int, int, int, str, str]]) -> bytes:
    """Rows as one compressed block; their texts hold no newline."""
    ats, offsets, ys, kinds, texts = zip(*rows, strict=True)
    parts = (
        _HEADER.pack(len(rows)),
        _differences(ats),
        _differences(offsets),
        array("i", ys).tobytes(),
        bytes(map(_NUMBERS.__getitem__, kinds)),
        "\n".join(texts).encode(),
    )
    return pack(b"".join(parts))


class Block:
    """A block that was read; BadBlock if it is damaged."""

    def __init__(self, data: bytes) -> None:
        try:
            raw = unpack(data)
            (count,) = _HEADER.unpack_from(raw)
            sizes = (8 * count, 8 * count, 4 * count, count, len(raw) - _HEADER.size - 21 * count)
            ends = accumulate(sizes, initial=_HEADER.size)
            ats, offsets, ys, kinds, text = (raw[start:end] for start, end in pairwise(ends))
            self._ats, self._offsets = array("q", ats), array("q", offsets)  # each less the one before
            self._ys, self._kinds = array("i", ys), kinds
            self.text = text.decode()  #: of all rows, a line each
            self._texts = self.text.split("\n")
        except (struct.error, ValueError) as error:
            raise BadBlock(str(error)) from error
        if {len(column) for column in (self._ats, self._offsets, self._ys, kinds, self._texts)} != {count}:
            raise BadBlock("it ends early")

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Row:
        kind = _KINDS[self._kinds[index]]
        at, offset = sum(self._ats[: index + 1]), sum(self._offsets[: index + 1])
        return Row(at, offset, self._ys[index], kind, self._texts[index])


def _differences(values: Sequence[int]) -> bytes:
    return array("q", chain(values[:1], map(sub, values[1:], values))).tobytes()
