"""How much of a tape was known to be on the medium, kept outside the tape.

Implements docs/tape-format.md, section 5. A bad record below the watermark is damage; one at or
above it is an ordinary torn tail. There are two slots, and only the one that was not synced last is
written, so a power cut costs the steps since the last sync of the watermark and no more.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

_MAGIC = b"SJMARK01"
_BODY = Struct("<8s26sxxQQI")
_CRC = Struct("<I")
_SLOT_BYTES = 512  # a sector each, so one torn sector spoils one slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Overwritable(Protocol):
        """What a watermark needs of its file."""

        def overwrite(self, position: int, data: bytes) -> None:
            """Put ``data`` at ``position``."""
            ...

        def sync(self) -> None:
            """Return when everything written is on the medium."""
            ...

        def close(self) -> None:
            """Give the descriptor back."""
            ...


class Watermark:
    """A synced offset and the running checksum of all records before it."""

    __slots__ = ("chain", "offset", "tape", "turn")

    def __init__(self, tape: str, turn: int, offset: int, chain: int) -> None:
        self.tape, self.turn, self.offset, self.chain = tape, turn, offset, chain

    def __repr__(self) -> str:
        return f"Watermark(offset={self.offset}, chain={self.chain:#010x}, turn={self.turn})"


class WatermarkFile:
    """Where a writer leaves its watermark after each sync."""

    def __init__(self, file: Overwritable, tape: str, *, turn: int = 0) -> None:
        self._file, self._tape, self._turn = file, tape, turn
        self._anchored = True

    def put(self, offset: int, chain: int) -> None:
        """Say that everything before ``offset`` is on the medium. Call it after the sync, never before."""
        # A power cut can spoil every slot written since the last sync, so the one synced last stays: odd
        # turns have one slot, even turns the other.
        self._turn += 1 if self._anchored else 2
        self._anchored = False
        body = _BODY.pack(_MAGIC, self._tape.encode(), self._turn, offset, chain)
        self._file.overwrite((self._turn % 2) * _SLOT_BYTES, body + _CRC.pack(crc32(body)))

    def sync(self) -> None:
        """Return when the watermark itself is on the medium."""
        self._file.sync()
        self._anchored = True

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def decode_watermark(data: bytes) -> Watermark | None:
    """The newest readable slot, or None if neither is."""
    newest: Watermark | None = None
    for start in (0, _SLOT_BYTES):
        slot = data[start : start + _BODY.size + _CRC.size]
        if len(slot) < _BODY.size + _CRC.size or not slot.startswith(_MAGIC):
            continue
        if _CRC.unpack_from(slot, _BODY.size)[0] != crc32(slot[: _BODY.size]):
            continue
        _, tape, turn, offset, chain = _BODY.unpack_from(slot)
        if newest is None or turn > newest.turn:
            newest = Watermark(tape.decode("ascii", "replace"), turn, offset, chain)
    return newest
