"""A clip as the records of a recording that began with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scrubjay.replay.exports.clip import Clip, Part
from scrubjay.replay.frame import Frame
from scrubjay.screen.key_shapes import mask_keys
from scrubjay.screen.masked import mask_snapshot
from scrubjay.screen.pieces import clean
from scrubjay.screen.vt import encode_vt
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_size
from scrubjay.tape.record import Record

_RESET = b"\x1bc"
HISTORY_ROWS = 100  # a window that is enlarged shows what had scrolled off


def drawn(frame: Frame) -> bytes:
    """The output that draws a screen without keys on a fresh terminal, with the history the frame has."""
    if frame.state is not None:
        return encode_vt(mask_snapshot(frame.state), history=frame.history)
    return _RESET + "\r\n".join([clean(line) for line in mask_keys(frame.text).split("\n")]).encode()


def cast_records(clip: Clip) -> Iterator[Record]:
    """A head as of the clip's start; if that is in the middle of a tape, output that draws the screen; and the rest."""
    part = clip.parts()[0]
    head = next((record for record in part.tape.records() if record.kind == Kind.HEAD), None)
    frame = clip.seek(clip.start, history=HISTORY_ROWS)
    said = (head.json() if head is not None else {}) | {"cols": frame.picture.cols, "rows": frame.picture.rows}
    wall = clip.reel.wall_us(clip.start)
    yield Record(0, Kind.HEAD, 0, encode_json(**said if wall is None else said | {"wall": wall}), 0)
    if part.first:
        yield Record(0, Kind.OUTPUT, 0, drawn(frame), 0)
    for _, record in later_records(clip):
        yield record


def later_records(clip: Clip) -> Iterator[tuple[Part, Record]]:
    """Everything after the screen at the clip's start, as if all of it were one tape."""
    parts = clip.parts()
    for part in parts:
        for record in clip.records_of(part):
            record = replace(record, at=max(0, part.begin + record.at))
            if record.kind == Kind.HEAD:
                if part is not parts[0]:
                    yield from ((part, made) for made in _begin_anew(record))
            elif record.kind != Kind.EXIT or part is parts[-1]:
                yield part, record


def _begin_anew(head: Record) -> Iterator[Record]:
    """Where another tape begins: an empty screen of its size."""
    cols, rows = head.json().get("cols"), head.json().get("rows")
    if isinstance(cols, int) and isinstance(rows, int) and 0 < min(cols, rows) <= max(cols, rows) < 1 << 16:
        yield replace(head, kind=Kind.RESIZE, payload=encode_size(cols, rows))
    yield replace(head, kind=Kind.OUTPUT, payload=_RESET)
