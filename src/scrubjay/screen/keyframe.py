"""A snapshot as it is kept: hashed, and compressed against a similar one. Pure but for the compressor."""

from __future__ import annotations

import hashlib
import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 9  # a tenth smaller than at level 6
_SNAPSHOT_MAX_BYTES = 64 << 20
_DIGEST_BYTES = 16


class BadKeyframe(Exception):
    """A keyframe that is not what was kept."""


def digest(snapshot: bytes, place: bytes) -> bytes:
    """What tells a snapshot and its place on the tape from any other."""
    return hashlib.sha256(place + snapshot).digest()[:_DIGEST_BYTES]


def pack(snapshot: bytes, base: bytes | None = None) -> bytes:
    """Compress a snapshot, by itself or beside another one that will be at hand."""
    if base is None:
        return zstd.compress(snapshot, level=_LEVEL)
    return zstd.compress(snapshot, level=_LEVEL, zstd_dict=zstd.ZstdDict(base, is_raw=True).as_prefix)


def unpack(data: bytes, kept_digest: bytes, place: bytes, base: bytes | None = None) -> bytes:
    """The snapshot that was packed, verified: the engine's decoder is not safe with anything else."""
    prefix = None if base is None else zstd.ZstdDict(base, is_raw=True).as_prefix
    decompressor = zstd.ZstdDecompressor(zstd_dict=prefix)
    try:
        snapshot = decompressor.decompress(data, max_length=_SNAPSHOT_MAX_BYTES)
    except zstd.ZstdError as error:
        raise BadKeyframe(f"a damaged keyframe: {error}") from error
    if digest(snapshot, place) != kept_digest:
        raise BadKeyframe("a keyframe with a wrong hash")
    return snapshot


def stored_estimate(output: bytes) -> int:
    """About how much of a sealed tape this output takes."""
    return len(zstd.compress(output, level=1)) * 3 // 4  # which level 9 makes of it
