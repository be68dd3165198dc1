"""Turn an asciicast into a tape.

Implements docs/tape-format.md, section 10. Nothing a cast says is left out: what has no kind of its
own is kept as an event or in the head, and goes out again when the tape is exported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from scrubjay.tape.asciicast import SIZE_MAX, Cast, CastEvent, CastHeader, parse_size
from scrubjay.tape.format import FORMAT_VERSION, PAYLOAD_MAX_BYTES, Kind
from scrubjay.tape.payload import encode_json, encode_size, encode_typed
from scrubjay.tape.record import Record
from scrubjay.tape.writer import TapeWriter

AUTHOR = "import"

_FLUSH_BYTES = 256 << 10
_TYPED_MAX_BYTES = PAYLOAD_MAX_BYTES - len(encode_typed(b"", AUTHOR, hidden=False))
_STATUS = re.compile(r"0|-?[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Imported:
    """What went from a cast to a tape."""

    events: int
    unknown_events: int  #: those of them without a kind of their own, kept as they came
    output_bytes: int
    last_at: int
    truncated_line: int | None  #: the torn line the cast ended with; the tape has a gap for it


def import_cast(cast: Cast, writer: TapeWriter, *, name: str, session: str | None = None) -> Imported:
    """Write all of ``cast`` to a new tape, end it and sync it, holding no more than the writer's window.

    CastError leaves a tape without an end, for the caller to throw away.
    """
    writer.append(Kind.HEAD, 0, _encode_head(cast, writer.tape, name=name, session=session))
    if cast.header.wall_us is not None:
        writer.append(Kind.CLOCK, 0, encode_json(wall=cast.header.wall_us, reason="start"))
    events = unknown_events = output_bytes = last_at = 0
    for event in cast.events:
        events += 1
        last_at = event.at_us
        for kind, payload in _encode_event(event, cast):
            writer.append(kind, last_at, payload)
            _drain(writer)
            unknown_events += kind == Kind.EVENT
            output_bytes += len(payload) if kind == Kind.OUTPUT else 0
    if cast.truncated_line is not None:
        reason = f"the cast is cut off in line {cast.truncated_line}"
        gap = encode_json(reason=reason, bytes=cast.truncated_bytes, **{"from": last_at})
        writer.append(Kind.GAP, last_at, gap)
    writer.append(Kind.SEAL, last_at, encode_json(reason="imported"))
    writer.sync()
    return Imported(events, unknown_events, output_bytes, last_at, cast.truncated_line)


def cast_records(cast: Cast) -> Iterator[Record]:
    """The records that an import of ``cast`` would write, without a tape."""
    offset = 0
    for kind, at, payload in _encode(cast):
        record = Record(offset, kind, at, payload, 0)
        offset = record.end
        yield record


def _encode(cast: Cast) -> Iterator[tuple[Kind, int, bytes]]:
    yield Kind.HEAD, 0, _encode_head(cast, "", name="", session=None)
    for event in cast.events:
        for kind, payload in _encode_event(event, cast):
            yield kind, event.at_us, payload


def _drain(writer: TapeWriter) -> None:
    if writer.full:
        writer.sync()
    elif writer.offset - writer.written >= _FLUSH_BYTES:
        writer.flush()


def _encode_head(cast: Cast, tape: str, *, name: str, session: str | None) -> bytes:
    header = cast.header
    command = header.command or ""
    # Before the split, which takes time in the square of a word's length.
    if len(command) > PAYLOAD_MAX_BYTES:
        raise _too_large(cast, "the command", len(command))
    argv = split_command(command)
    payload = encode_json(
        format=FORMAT_VERSION,
        tape=tape,
        name=name,
        session=session,
        argv=argv,
        cols=header.cols,
        rows=header.rows,
        wall=header.wall_us,
        term=header.term,
        title=header.title,
        imported=_describe_source(header, argv),
    )
    if len(payload) > PAYLOAD_MAX_BYTES:
        raise _too_large(cast, "the header", len(payload))
    return payload


def split_command(command: str) -> list[str]:
    """The words of a shell line; none if it cannot be one."""
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is never closed
        return []


def _describe_source(header: CastHeader, argv: list[str]) -> dict[str, object]:
    """What the rest of the head does not say of a cast's header."""
    said: dict[str, object] = {"version": header.version}
    if header.command is not None and header.command != shlex.join(argv):
        said["command"] = header.command
    if header.env:
        said["env"] = header.env
    if header.idle_time_limit is not None:
        said["idle_time_limit"] = header.idle_time_limit
    if header.extra:
        said["extra"] = header.extra
    return said


def _encode_event(event: CastEvent, cast: Cast) -> Iterator[tuple[Kind, bytes]]:
    match event.code:
        case "o":
            for piece in _pieces(_encode_text(event.data), PAYLOAD_MAX_BYTES):
                yield Kind.OUTPUT, piece
        case "i":
            for piece in _pieces(_encode_text(event.data), _TYPED_MAX_BYTES):
                yield Kind.INPUT, encode_typed(piece, AUTHOR, hidden=False)
        case "r":
            size = parse_size(event.data)
            if size is None:
                why = f"{event.data[:40]!r} is not a size"
                raise cast.fault(why, hint=f"a size is like 80x24, from 1 to {SIZE_MAX} each")
            yield Kind.RESIZE, encode_size(*size)
        case "m":
            yield Kind.MARK, _fitting(encode_json(label=event.data, author=AUTHOR), cast)
        # Only version 3 has an exit: another version's "x" would not come out again.
        case "x" if cast.header.version == 3 and _STATUS.fullmatch(event.data):
            yield Kind.EXIT, encode_json(status=int(event.data))
        case _:
            kept = encode_json(event="asciicast", code=event.code, data=event.data)
            yield Kind.EVENT, _fitting(kept, cast)


def _encode_text(text: str) -> bytes:
    # JSON can hold half a surrogate pair, which UTF-8 cannot: its three bytes are kept, as WTF-8 writes
    # them, rather than a question mark.
    return text.encode("utf-8", "surrogatepass")


def _pieces(data: bytes, limit_bytes: int) -> Iterator[bytes]:
    for start in range(0, max(1, len(data)), limit_bytes):
        yield data[start : start + limit_bytes]


def _fitting(payload: bytes, cast: Cast) -> bytes:
    if len(payload) > PAYLOAD_MAX_BYTES:
        raise _too_large(cast, "the event", len(payload))
    return payload


def _too_large(cast: Cast, what: str, size: int) -> Exception:
    why = f"{what} takes {size} bytes and a record holds {PAYLOAD_MAX_BYTES}"
    return cast.fault(why, hint="shorten it")
