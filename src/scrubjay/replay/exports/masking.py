"""Records for other people: with the keys in what was shown, typed and noted hidden. Pure.

The records stay the same in number, order and time. Nothing is decided about a portion before what follows it is known,
so a key is hidden wherever it was cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

from scrubjay.screen.key_shapes import mask_keys
from scrubjay.screen.masked import OutputText, veil_output
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.record import Json, Record

_WINDOW_BYTES, _WINDOW_RECORDS = 64 << 10, 1024  # looked at together
_CONTEXT_BYTES = 8192  # of what came before, and of what comes after
_KEPT_RECORDS = 128  # at most, that wait for what comes after
_NOTES = frozenset({Kind.HEAD, Kind.MARK, Kind.EVENT, Kind.SIGNAL})

_Place = TypeVar("_Place")


def mask_records(records: Iterable[Record]) -> Iterator[Record]:
    """The records without keys."""
    return (record for _, record in mask_placed((None, record) for record in records))


def mask_placed(placed: Iterable[tuple[_Place, Record]]) -> Iterator[tuple[_Place, Record]]:
    """The same of records that come with something else."""
    window: deque[tuple[_Place, Record]] = deque()
    shown, typed = _Stream(), _Stream()
    for place, record in placed:
        window.append((place, record))
        shown.put(record.payload if record.kind == Kind.OUTPUT else b"")
        typed.put(record.typed().data if record.kind == Kind.INPUT else b"")
        if len(window) >= _WINDOW_RECORDS or shown.bytes + typed.bytes >= _WINDOW_BYTES:
            # All but the last, for a key may go on after them.
            count = len(window) - _kept(shown, typed, len(window))
            if count:
                yield from _take(window, shown, typed, count)
    yield from _take(window, shown, typed, len(window))


def _kept(shown: _Stream, typed: _Stream, count: int) -> int:
    """How many of the last records wait: half of them, and more if there is little in those; perhaps all."""
    size = 0
    for kept in range(1, min(_KEPT_RECORDS, count) + 1):
        size += shown.size(-kept) + typed.size(-kept)
        if kept >= count // 2 and size >= _CONTEXT_BYTES:
            return kept
    return min(_KEPT_RECORDS, count)


def _take(
    window: deque[tuple[_Place, Record]], shown: _Stream, typed: _Stream, count: int
) -> Iterator[tuple[_Place, Record]]:
    for output, keys in zip(shown.take(count), typed.take(count), strict=True):
        place, record = window.popleft()
        yield place, _masked(record, output, keys)


def _masked(record: Record, output: bytes, keys: bytes) -> Record:
    if record.kind == Kind.OUTPUT:
        return record if output == record.payload else replace(record, payload=output)
    if record.kind == Kind.INPUT:
        data = record.typed().data
        meta = record.payload[: len(record.payload) - len(data)]
        return record if keys == data else replace(record, payload=meta + keys)
    if record.kind in _NOTES:
        said = record.json()
        hidden = cast(Json, _mask_note(said))
        return record if hidden == said else replace(record, payload=encode_json(**hidden))
    return record


def _mask_note(value: object) -> object:
    if isinstance(value, str):
        return mask_keys(value)
    if isinstance(value, list):
        return [_mask_note(item) for item in cast(list[object], value)]
    if isinstance(value, dict):
        return {key: _mask_note(item) for key, item in cast(Json, value).items()}
    return value


class _Stream:
    """One direction of a terminal, in as many portions as there are records."""

    def __init__(self) -> None:
        self._before = b""
        self._portions: deque[bytes] = deque()
        self.bytes = 0

    def put(self, data: bytes) -> None:
        """The next portion."""
        self._portions.append(data)
        self.bytes += len(data)

    def size(self, number: int) -> int:
        """The bytes of one portion."""
        return len(self._portions[number])

    def take(self, count: int) -> list[bytes]:
        """The first portions, without keys."""
        if not self.bytes:
            return [self._portions.popleft() for _ in range(count)]
        data = self._before + b"".join(self._portions)
        spans = OutputText(data).find()
        taken: list[bytes] = []
        at = len(self._before)
        for _ in range(count):
            portion = self._portions.popleft()
            taken.append(veil_output(data, spans, at, at + len(portion)))
            at += len(portion)
            self.bytes -= len(portion)
        self._before = data[max(0, at - _CONTEXT_BYTES) : at]
        return taken
