"""A clip in asciinema-player's segmented format: an index, and segments that each begin with a screen.

The player (3.17 and later) fetches only the segment it is asked for, so a seek costs the same however long the
recording is. Its rules, which it checks: the first segment starts at 0, every other at its own first event, after
everything before it and before the end, and the last event of all is at the recording's end.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from scrubjay.replay.exports.cast import HISTORY_ROWS, drawn, later_records
from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.exports.masking import mask_placed
from scrubjay.replay.frame import Frame
from scrubjay.screen.pieces import clean
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record

SEGMENT_US = 10_000_000  # a seek feeds what comes before it in its segment
SEGMENT_BYTES = 256 << 10
INDEX = "index.json"

_Event = tuple[int, str, str]  # microseconds, code, data


class _Text:
    """Bytes that come in pieces as text; a character cut in two comes with the second piece."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes) -> str:
        return self._decoder.decode(data)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is held back."""
        return not self._decoder.getstate()[0]


@dataclass(slots=True)
class _Segment:
    """A segment that is being filled."""

    start: int
    before: Frame  #: the screen before its first event
    events: list[_Event] = field(default_factory=list[_Event])
    size: int = 0

    def add(self, event: _Event) -> None:
        self.events.append(event)
        self.size += len(event[2])

    def ends_before(self, at: int, *, early: bool) -> bool:
        """Whether what comes at that time should be in another segment, and may."""
        full = early or at - self.start >= SEGMENT_US or self.size >= SEGMENT_BYTES
        return full and bool(self.events) and at > self.events[-1][0]

    def encode(self) -> bytes:
        picture = self.before.picture
        init = drawn(self.before).decode("utf-8", "replace")
        events = [(_seconds(at), code, data) for at, code, data in self.events]
        return _json({"snapshot": {"cols": picture.cols, "rows": picture.rows, "init": init}, "events": events})


def encode_segmented(clip: Clip) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files; the index comes last."""
    first = clip.seek(clip.start, history=HISTORY_ROWS)
    segment = _Segment(0, first)
    segments: list[tuple[str, int]] = []
    marks: list[_Event] = []
    output, typed = _Text(), _Text()
    for part, record in mask_placed(later_records(clip)):
        is_whole = output.is_whole
        event = _event(record, output, typed)
        if event is None:
            continue
        is_resize = record.kind == Kind.RESIZE
        if is_whole and record.at < clip.duration and segment.ends_before(record.at, early=is_resize):
            # A resize is already part of the screen that its segment begins with: an enlarged window shows again
            # what had scrolled off, which a segment does not have.
            offset = record.end if is_resize else record.offset
            frame = clip.noted(clip.reel.seek_offset(offset, tape=part.tape.id))
            if frame.state is not None:
                segments.append((_name(segments), segment.start))
                yield segments[-1][0], segment.encode()
                segment = _Segment(record.at, frame)
        segment.add(event)
        if event[1] == "m":
            marks.append(event)
    if not segment.events or segment.events[-1][0] < clip.duration:
        segment.add((clip.duration, "o", ""))
    segments.append((_name(segments), segment.start))
    yield segments[-1][0], segment.encode()
    index = {
        "version": 1,
        "duration": _seconds(clip.duration),
        "term": {"cols": first.picture.cols, "rows": first.picture.rows},
        "markers": [(_seconds(at), label) for at, _, label in marks],
        "segments": [{"start": _seconds(start), "url": name} for name, start in segments],
    }
    yield INDEX, _json(index)


def _event(record: Record, output: _Text, typed: _Text) -> _Event | None:
    match record.kind:
        case Kind.OUTPUT:
            text = output.decode(record.payload)
            return (record.at, "o", text) if text else None
        case Kind.INPUT:
            text = typed.decode(record.typed().data)
            return (record.at, "i", text) if text else None
        case Kind.RESIZE:
            return record.at, "r", "{}x{}".format(*record.size())
        case Kind.MARK:
            return record.at, "m", clean(str(record.json().get("label", "")))
        case _:
            return None


def _name(before: list[tuple[str, int]]) -> str:
    return f"{len(before):06d}.json"


def _seconds(us: int) -> float:
    return us / 1_000_000


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
