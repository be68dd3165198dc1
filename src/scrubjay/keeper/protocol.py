"""Frames between a keeper and whoever talks to it over its socket.

Implements docs/keeper-protocol.md. A frame is ``length u32 · meta length u16 · meta (JSON) · tail``,
little endian; ``length`` counts what follows it. Pure: bytes in, frames out.
"""

from __future__ import annotations

import json
from struct import Struct

FRAME_MAX_BYTES = 1 << 20
SIZE_MIN = (10, 2)  # columns and rows a terminal may have
SIZE_MAX = (2000, 1000)

_LENGTHS = Struct("<IH")
_to_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for every frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Meta = dict[str, object]


class BadFrame(Exception):
    """Bytes that are no frame; the connection cannot go on."""


def encode_frame(meta: Meta, tail: bytes = b"") -> bytes:
    """One frame."""
    head = _to_json(meta).encode()
    return _LENGTHS.pack(2 + len(head) + len(tail), len(head)) + head + tail


def encode_tape_frame(offset: int, data: bytes) -> bytes:
    """The frame of bytes of a tape, which somebody may wait for: the same without a JSON encoder."""
    head = b'{"tape":%d}' % offset
    return _LENGTHS.pack(2 + len(head) + len(data), len(head)) + head + data


class FrameReader:
    """Collects what arrives and gives back whole frames."""

    def __init__(self, decode: Callable[[bytes], object] = json.loads) -> None:
        """``decode`` JSON some other way: there are faster ones that a keeper does without."""
        self._pending = b""
        self._decode_json = decode
        # The last meta as it came, and what it says: keys come with the same one again and again.
        self._known: tuple[bytes, Meta] | None = None

    def feed(self, data: bytes) -> list[tuple[Meta, bytes]]:
        """The frames completed by ``data``; BadFrame if it cannot be one."""
        self._pending = data if not self._pending else self._pending + data
        frames: list[tuple[Meta, bytes]] = []
        start = 0
        while len(self._pending) - start >= _LENGTHS.size:
            length, meta_length = _LENGTHS.unpack_from(self._pending, start)
            if length > FRAME_MAX_BYTES or meta_length + 2 > length:
                raise BadFrame(f"a frame of {length} bytes with {meta_length} of meta")
            end = start + 4 + length
            if end > len(self._pending):
                break
            meta_start = start + _LENGTHS.size
            frames.append(self._decode(self._pending[meta_start:end], meta_length))
            start = end
        self._pending = self._pending[start:]
        return frames

    def _decode(self, body: bytes, meta_length: int) -> tuple[Meta, bytes]:
        raw = body[:meta_length]
        if self._known is None or self._known[0] != raw:
            self._known = raw, self._decode_meta(raw)
        return self._known[1].copy(), body[meta_length:]

    def _decode_meta(self, raw: bytes) -> Meta:
        try:
            meta = self._decode_json(raw)
        except (ValueError, RecursionError) as error:
            raise BadFrame(f"meta that is not JSON: {error}") from error
        if not isinstance(meta, dict):
            raise BadFrame("meta that is not an object")
        return meta  # pyright: ignore[reportUnknownVariableType]
