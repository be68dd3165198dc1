"""Records as readers see them, and what their payloads mean.

Implements docs/tape-format.md, section 3. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from struct import Struct
from typing import cast

from scrubjay.tape.format import RECORD_OVERHEAD_BYTES, Kind

Json = dict[str, object]

_SIZE = Struct("<HH")
_META_LENGTH = Struct("<H")


@dataclass(frozen=True, slots=True)
class Record:
    """One record and where it stands."""

    offset: int  #: of its first byte in the tape
    kind: int  #: a Kind, or a number this version does not know
    at: int  #: microseconds since the tape began
    payload: bytes
    checksum: int = field(repr=False)

    @property
    def end(self) -> int:
        """The offset of the record after this one."""
        return self.offset + RECORD_OVERHEAD_BYTES + len(self.payload)

    @property
    def kind_name(self) -> str:
        """The kind in words, ``kind-42`` for an unknown one."""
        try:
            return Kind(self.kind).name.lower()
        except ValueError:
            return f"kind-{self.kind}"

    def json(self) -> Json:
        """The payload of a kind that holds JSON; an empty object if it cannot be read."""
        return decode_json(self.payload)

    def size(self) -> tuple[int, int]:
        """Columns and rows of a resize."""
        cols, rows = _SIZE.unpack_from(self.payload.ljust(_SIZE.size, b"\0"))
        return cols, rows

    def typed(self) -> Typed:
        """What an input record says."""
        (length,) = _META_LENGTH.unpack_from(self.payload.ljust(_META_LENGTH.size, b"\0"))
        meta = decode_json(self.payload[_META_LENGTH.size : _META_LENGTH.size + length])
        return Typed(
            author=str(meta.get("author", "")),
            data=self.payload[_META_LENGTH.size + length :],
            hidden_bytes=_whole(meta.get("hidden")),
            epoch=_whole(meta.get("epoch")),
            answers=_whole(meta.get("answers")),
        )


@dataclass(frozen=True, slots=True)
class Typed:
    """Input and its author."""

    author: str
    data: bytes
    hidden_bytes: int | None  #: how much was typed while the terminal hid it; then ``data`` is empty
    epoch: int | None = None  #: of the turn at the keyboard it was typed in, where turns are taken
    answers: int | None = None  #: the offset up to which it answers what the agent asked its terminal


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def decode_json(data: bytes) -> Json:
    """A JSON object, or an empty one if ``data`` holds none: a reader of a recording never fails on it."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return cast(Json, value) if isinstance(value, dict) else {}
