"""Make the payloads that are not plain bytes.

Implements docs/tape-format.md, section 3. The reading side is ``scrubjay.tape.record``. Pure.
"""

from __future__ import annotations

import json
from functools import lru_cache
from struct import Struct

_SIZE = Struct("<HH")
_META_LENGTH = Struct("<H")
_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode  # json.dumps would make one every time
_to_ascii_json = json.JSONEncoder(separators=(",", ":")).encode


def encode_json(**fields: object) -> bytes:
    """A JSON object, compact and in the order given; fields that are None are left out."""
    present = {name: value for name, value in fields.items() if value is not None}
    try:
        return _to_json(present).encode()
    except UnicodeEncodeError:  # bytes of an argument or path that are not UTF-8; escaped they come back as they were
        return _to_ascii_json(present).encode()


def encode_size(cols: int, rows: int) -> bytes:
    """The payload of a resize."""
    return _SIZE.pack(cols, rows)


def encode_typed(
    data: bytes, author: str, *, hidden: bool, epoch: int | None = None, answers: int | None = None
) -> bytes:
    """The payload of an input; when ``hidden`` only its length is kept."""
    if not hidden and answers is None:
        return _by(author, epoch) + data
    meta = encode_json(author=author, epoch=epoch, answers=answers, hidden=len(data) if hidden else None)
    return _with_length(meta) + (b"" if hidden else data)


@lru_cache(maxsize=16)
def _by(author: str, epoch: int | None) -> bytes:
    """What stands before every key of an author; making it anew each time would delay the echo."""
    return _with_length(encode_json(author=author, epoch=epoch))


def _with_length(meta: bytes) -> bytes:
    return _META_LENGTH.pack(len(meta)) + meta
