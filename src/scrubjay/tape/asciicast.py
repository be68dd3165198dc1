"""asciicast in and out, and tapes as JSON lines.

Implements docs/tape-format.md, section 10. Pure: byte lines in, events out; records in, byte lines out.
Reading is strict, since a cast has no checksum: what does not fit the format is a CastError, never a guess.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Literal, Protocol, cast

from scrubjay.errors import CastError
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json, Record, decode_json

LINE_MAX_BYTES = 64 << 20  # a line is held whole to be parsed; the longest real one seen is below 1 MiB
TIME_MAX_S = 10**9  # 31 years, far above any recording and far below what a record's time holds
SIZE_MAX = 10_000  # columns or rows
NESTING_MAX = 64  # of a header, which goes into the tape's head: every reader must be able to parse that

_VERSIONS = (1, 2, 3)
_READ_BYTES = 1 << 20
_US_PER_S = 1_000_000
_WALL_MAX_S = 10**11  # the year 5138
_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_EVENT_HINT = 'an event is [seconds, "code", "data"]; remove the line to read the rest'
_HEADER_HINT = 'a cast begins with an object like {"version": 2, "width": 80, "height": 24}'
_DEFAULT_SIZE = (80, 24)  # of a tape whose head cannot be read
_SIZE_BYTES = 4


@dataclass(frozen=True, slots=True)
class CastHeader:
    """What a cast says about itself; null and absent are the same."""

    version: int
    cols: int
    rows: int
    wall_us: int | None  #: when it began
    title: str | None
    command: str | None
    env: dict[str, str]
    idle_time_limit: float | None  #: seconds
    extra: Json  #: every other field, and those above whose value is of another type, as they came

    @property
    def term(self) -> str | None:
        """The type of the terminal, as version 3 says it or else the environment."""
        kind = _object(self.extra.get("term")).get("type")
        return kind if isinstance(kind, str) else self.env.get("TERM")


@dataclass(frozen=True, slots=True)
class CastEvent:
    """One event, of a known code or not."""

    at_us: int  #: since the start, in every version; never before the event before
    code: str
    data: str


class Cast:
    """A cast being read. Its events can be iterated once."""

    def __init__(
        self, lines: _Lines, line: int, header: CastHeader, delays: list[object] | None, *, accept_truncated: bool
    ) -> None:
        self.source, self.header = lines.source, header
        self.line = line  #: of the event read last; version 1 has all of them where the header is
        self.truncated_line: int | None = None  #: the torn last line, once the events are read up to it
        self.truncated_bytes = 0  #: what there is of the torn line
        self._accept_truncated = accept_truncated
        self.events: Iterator[CastEvent] = self._read_lines(lines) if delays is None else self._read_delays(delays)

    def fault(self, why: str, *, hint: str) -> CastError:
        """Make the error that names this cast and the line of the event read last."""
        return CastError(self.source, why, line=self.line, hint=hint)

    def _read_lines(self, lines: _Lines) -> Iterator[CastEvent]:
        relative = self.header.version == 3
        now = Decimal(0)
        while (line := lines.take()) is not None:
            self.line = lines.number
            if relative and line.startswith(b"#"):
                continue
            try:
                value = lines.parse(line)
            except _Unreadable as error:
                self._end_torn(lines, line, error)
                return
            match value:
                case [int() | float() as raw, str(code), str(data)] if not isinstance(raw, bool):
                    time = self._parse_time(raw) + (now if relative else 0)
                case _:
                    raise self.fault("this is not an event", hint=_EVENT_HINT)
            if time < now:
                raise self.fault(f"{time} s comes after {now} s", hint="times never go back; sort the lines by time")
            now = time
            yield CastEvent(self._to_us(now), code, data)

    def _read_delays(self, delays: list[object]) -> Iterator[CastEvent]:
        now = Decimal(0)
        for number, value in enumerate(delays, 1):
            match value:
                case [int() | float() as raw, str(data)] if not isinstance(raw, bool):
                    now += self._parse_time(raw)
                case _:
                    raise self.fault(f'item {number} of "stdout" is not an event', hint='it should be [delay, "data"]')
            yield CastEvent(self._to_us(now), "o", data)

    def _parse_time(self, raw: float) -> Decimal:
        if not 0 <= raw <= TIME_MAX_S:
            raise self._bad_time(repr(raw))
        # A float's repr is the shortest text that means it, so what is added up is what the file says.
        return Decimal(repr(raw))

    def _to_us(self, time: Decimal) -> int:
        if time > TIME_MAX_S:
            raise self._bad_time(str(time))
        return int((time * _US_PER_S).to_integral_value())

    def _bad_time(self, shown: str) -> CastError:
        return self.fault(f"a time of {shown[:40]} s", hint=f"times are from 0 to {TIME_MAX_S} seconds")

    def _end_torn(self, lines: _Lines, line: bytes, error: _Unreadable) -> None:
        if lines.take() is not None:
            raise self.fault(str(error), hint=_EVENT_HINT) from error
        if not self._accept_truncated:
            why = f"the last line is cut off: {error}"
            raise self.fault(why, hint="import what is readable with --accept-truncated") from error
        self.truncated_line, self.truncated_bytes = self.line, len(line)


class ReadableLines(Protocol):
    """A binary file as ``limited_lines`` sees it."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, or as much of it as ``limit`` allows; empty at the end."""
        ...


def limited_lines(file: ReadableLines, source: str, *, limit_bytes: int = LINE_MAX_BYTES) -> Iterator[bytes]:
    """The lines of a file; CastError at one above the limit, of which little more than the limit is ever held."""
    number = 0
    while True:
        number += 1
        parts: list[bytes] = []
        size = 0
        while part := file.readline(_READ_BYTES):
            parts.append(part)
            size += len(part)
            if size > limit_bytes:
                raise _line_too_long(source, number, limit_bytes)
            if part.endswith(b"\n"):
                break
        if not parts:
            return
        yield b"".join(parts)


def read_cast(lines: Iterable[bytes], source: str, *, accept_truncated: bool = False) -> Cast:
    """Read a cast of version 1, 2 or 3; ``source`` is its name in errors.

    CastError if it is not one, here for the header and while iterating for the events. So is a torn
    last line, unless ``accept_truncated``: then the events end before it and ``truncated_line`` says so.
    """
    numbered = _Lines(lines, source)
    fields, line = _read_object(numbered)
    version = fields.get("version")
    if version is None:
        raise CastError(source, "this is not an asciicast: it names no version", line=line, hint=_HEADER_HINT)
    if isinstance(version, bool) or not isinstance(version, int) or version not in _VERSIONS:
        raise CastError(
            source, f"version {_shown(version)} is not supported", line=line, hint="versions 1, 2 and 3 work"
        )
    header = _parse_header(version, fields, source, line)
    delays = _parse_delays(fields, numbered, line) if version == 1 else None
    return Cast(numbered, line, header, delays, accept_truncated=accept_truncated)


def parse_size(raw: str) -> tuple[int, int] | None:
    """Columns and rows of a resize event, or None if ``raw`` says no size a terminal can have."""
    match = _SIZE.fullmatch(raw)
    if match is None:
        return None
    cols, rows = int(match[1]), int(match[2])
    return (cols, rows) if 1 <= cols <= SIZE_MAX and 1 <= rows <= SIZE_MAX else None


class _Unreadable(Exception):
    """Bytes that hold no JSON, as a torn line does not."""

    def __init__(self, why: str, *, line: int = 0, unfinished: bool = False) -> None:
        super().__init__(why)
        self.line = line  # of the fault, counted from 0
        self.unfinished = unfinished  # it could go on in the next line


class _Lines:
    """The lines of a cast, counted and limited."""

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        self.source, self.number = source, 0
        self._lines = iter(lines)

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.number += 1
            if len(line) > LINE_MAX_BYTES:
                raise _line_too_long(self.source, self.number, LINE_MAX_BYTES)
            yield line

    def take(self) -> bytes | None:
        """The next line that is not blank, or None at the end."""
        return next((line for line in self if line and not line.isspace()), None)

    def parse(self, data: bytes) -> object:
        """The JSON in ``data``, which ends with the line taken last."""
        if b"\0" in data:
            raise _Unreadable("it holds NUL bytes")
        try:
            return json.loads(data.decode())
        except UnicodeDecodeError as error:
            raise _Unreadable(f"it is not UTF-8 from byte {error.start + 1} on") from error
        except json.JSONDecodeError as error:
            unfinished = not error.doc[error.pos :].strip()
            why = f"it is not JSON from column {error.colno} on"
            raise _Unreadable(why, line=error.lineno - 1, unfinished=unfinished) from error
        except ValueError as error:
            raise _Unreadable("it holds a number of thousands of digits") from error
        except RecursionError as error:
            raise _nested_too_deeply(self.source, self.number) from error


def _line_too_long(source: str, line: int, limit_bytes: int) -> CastError:
    return CastError(source, f"it is longer than {limit_bytes} bytes", line=line, hint="no recorder writes such a line")


def _nested_too_deeply(source: str, line: int) -> CastError:
    return CastError(source, "it is nested too deeply", line=line, hint=f"at most {NESTING_MAX} levels are read")


def _read_object(lines: _Lines) -> tuple[Json, int]:
    """The object a cast begins with and its line; version 1 may spread it over many."""
    document = lines.take()
    if document is None:
        raise CastError(lines.source, "it is empty", line=1, hint=_HEADER_HINT)
    first = lines.number
    try:
        try:
            value = lines.parse(document)
        except _Unreadable as error:
            if not error.unfinished or not document.lstrip().startswith(b"{"):
                raise
            value = lines.parse(_take_rest(lines, document))
    except _Unreadable as error:
        hint = "decompress it if it is compressed; " + _HEADER_HINT
        raise CastError(lines.source, str(error), line=first + error.line, hint=hint) from error
    if not isinstance(value, dict):
        raise CastError(lines.source, "this is not an asciicast: it has no header", line=first, hint=_HEADER_HINT)
    return cast(Json, value), first


def _take_rest(lines: _Lines, beginning: bytes) -> bytes:
    parts, size = [beginning], len(beginning)
    for line in lines:
        parts.append(line)
        size += len(line)
        if size > LINE_MAX_BYTES:
            raise _line_too_long(lines.source, lines.number, LINE_MAX_BYTES)
    return b"".join(parts)


def _parse_delays(fields: Json, lines: _Lines, line: int) -> list[object]:
    delays = fields.get("stdout")
    if not isinstance(delays, list):
        raise CastError(lines.source, 'it has no list "stdout"', line=line, hint="version 1 has its events there")
    if lines.take() is not None:
        why = "something follows the end of the cast"
        raise CastError(
            lines.source, why, line=lines.number, hint="a version 1 cast is one JSON object; remove the rest"
        )
    return cast(list[object], delays)


def _parse_header(version: int, fields: Json, source: str, line: int) -> CastHeader:
    title, command = _as_text(fields.get("title")), _as_text(fields.get("command"))
    wall_us, idle_time_limit = _as_wall_us(fields.get("timestamp")), _as_seconds(fields.get("idle_time_limit"))
    env = _as_env(fields.get("env"))
    taken = {"title": title, "command": command, "timestamp": wall_us, "idle_time_limit": idle_time_limit, "env": env}
    understood = {"version", *(name for name, value in taken.items() if value is not None)}
    if version == 1:
        understood.add("stdout")
    extra = {name: value for name, value in fields.items() if name not in understood and value is not None}
    if version == 3:
        size = _object(extra.pop("term", None))
        names = ("cols", "rows")
        rest = {name: value for name, value in size.items() if name not in names and value is not None}
        extra |= {"term": rest} if rest else {}
    else:
        names = ("width", "height")
        size = {name: extra.pop(name, None) for name in names}
    _check_plain(extra, source, line)
    cols, rows = (_parse_side(name, size.get(name), source, line) for name in names)
    return CastHeader(version, cols, rows, wall_us, title, command, env or {}, idle_time_limit, extra)


def _parse_side(name: str, raw: object, source: str, line: int) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= SIZE_MAX:
        return raw
    why = f'"{name}" is missing' if raw is None else f'"{name}" is {_shown(raw)}'
    raise CastError(source, why, line=line, hint=f"give a whole number from 1 to {SIZE_MAX} there")


def _check_plain(extra: Json, source: str, line: int) -> None:
    """Refuse what could not be written to the tape's head as JSON that everybody reads."""
    level: list[object] = [extra]
    for _ in range(NESTING_MAX):
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            raise CastError(source, "it holds a number that is not finite", line=line, hint="remove it from the header")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise _nested_too_deeply(source, line)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast(Json, value).values()
    return cast(list[object], value) if isinstance(value, list) else ()


def _shown(value: object) -> str:
    if isinstance(value, dict | list):  # perhaps nested too deeply to be printed
        return "{…}" if isinstance(value, dict) else "[…]"
    return json.dumps(value)[:40]


def _object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _as_seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= TIME_MAX_S:
        return None
    return value


def _as_wall_us(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _WALL_MAX_S:
        return None
    return int(Decimal(repr(value)) * _US_PER_S)


def _as_env(value: object) -> dict[str, str] | None:
    # Recorders write null for a variable that was not set.
    present = {name: item for name, item in _object(value).items() if item is not None}
    texts = {name: item for name, item in present.items() if isinstance(item, str)}
    return texts if isinstance(value, dict) and len(texts) == len(present) else None


class CastLines:
    """The lines of a cast made from records; iterate it once."""

    def __init__(self, records: Iterable[Record], version: Literal[2, 3]) -> None:
        self._records = records
        self._version: Literal[2, 3] = version
        self._output, self._input = _Utf8(), _Utf8()
        self._ticks = self._at = 0

    @property
    def replaced(self) -> int:
        """How many invalid UTF-8 sequences became U+FFFD so far."""
        return self._output.replaced + self._input.replaced

    def __iter__(self) -> Iterator[bytes]:
        records = iter(self._records)
        first = next(records, None)
        if first is not None and first.kind == Kind.HEAD:
            yield _json_line(_encode_header(first.json(), self._version))
        else:
            yield _json_line(_encode_header({}, self._version))
            records = chain([] if first is None else [first], records)
        for record in records:
            event = self._event_of(record)
            if event is not None:
                yield self._encode_event(record.at, *event)
        for code, text in (("o", self._output.finish()), ("i", self._input.finish())):
            if text:
                yield self._encode_event(self._at, code, text)

    def _event_of(self, record: Record) -> tuple[str, str] | None:
        match record.kind:
            case Kind.OUTPUT:
                return _unless_held_back("o", record.payload, self._output)
            case Kind.INPUT:
                typed = record.typed()
                return None if typed.hidden_bytes is not None else _unless_held_back("i", typed.data, self._input)
            case Kind.RESIZE:
                cols, rows = record.size()
                return "r", f"{cols}x{rows}"
            case Kind.MARK:
                return "m", _as_text(record.json().get("label")) or ""
            case Kind.EXIT if self._version == 3:
                status = record.json().get("status")
                return ("x", str(status)) if isinstance(status, int) else None
            case Kind.EVENT:
                return _kept_event(record.json())
            case _:
                return None

    def _encode_event(self, at: int, code: str, data: str) -> bytes:
        # Neither version can go back in time.
        self._at = max(self._at, at)
        if self._version == 2:
            time = f"{self._at // _US_PER_S}.{self._at % _US_PER_S:06d}"
        else:
            # The difference of rounded instants, not the rounded difference, so the sum is never 1 ms off.
            ticks = (self._at + 500) // 1000
            interval, self._ticks = ticks - self._ticks, ticks
            time = f"{interval // 1000}.{interval % 1000:03d}"
        return b"[%s, %s" % (time.encode(), _json_line([code, data])[1:])


def encode_cast_v2(records: Iterable[Record]) -> CastLines:
    """The records of a tape from its head on as asciicast 2; times to the microsecond, no exit status."""
    return CastLines(records, 2)


def encode_cast_v3(records: Iterable[Record]) -> CastLines:
    """The records of a tape from its head on as asciicast 3; times to the millisecond."""
    return CastLines(records, 3)


def encode_jsonl(records: Iterable[Record]) -> Iterator[bytes]:
    """One JSON object per record, from which the record's meaning can be had back in full."""
    for record in records:
        place: Json = {"offset": record.offset, "at": record.at, "kind": record.kind_name}
        try:
            yield _json_line(place | _describe(record))
        except ValueError:  # NaN, which other writers' JSON may hold and ours may not
            yield _json_line(place | _base64(record.payload))


def _describe(record: Record) -> Json:
    payload = record.payload
    match record.kind:
        case Kind.OUTPUT:
            return _text_or_base64(payload)
        case Kind.INPUT if len(payload) >= 2:
            return _describe_typed(record)
        case Kind.RESIZE if len(payload) == _SIZE_BYTES:
            cols, rows = record.size()
            return {"cols": cols, "rows": rows}
        case Kind.HEAD | Kind.SIGNAL | Kind.CLOCK | Kind.MARK | Kind.EVENT | Kind.GAP | Kind.EXIT | Kind.SEAL if (
            data := record.json()
        ) or payload == b"{}":
            return {"data": data}
        case _:
            return _base64(payload)


def _describe_typed(record: Record) -> Json:
    typed = record.typed()
    numbers = {"epoch": typed.epoch, "answers": typed.answers, "hidden": typed.hidden_bytes}
    said: Json = {"author": typed.author}
    said |= {name: number for name, number in numbers.items() if number is not None}
    if decode_json(record.payload[2 : len(record.payload) - len(typed.data)]) != said:
        return _base64(record.payload)
    return said if "hidden" in said and not typed.data else said | _text_or_base64(typed.data)


def _text_or_base64(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return _base64(data)


def _base64(data: bytes) -> Json:
    return {"base64": b64encode(data).decode()}


class _Utf8:
    """Decode bytes that come in pieces; a character cut in two comes out whole with the second piece."""

    def __init__(self) -> None:
        self.replaced: int = 0
        self._rest: bytes = b""

    def feed(self, data: bytes) -> str:
        """The characters that are complete now."""
        return self._decode(data, final=False)

    def finish(self) -> str:
        """U+FFFD if the bytes ended within a character, else nothing."""
        return self._decode(b"", final=True)

    def _decode(self, data: bytes, *, final: bool) -> str:
        data = self._rest + data
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._rest = data[used:]
        if "\ufffd" in text:
            # 0xEF never continues a character, so each of these three bytes in a row was one U+FFFD already.
            self.replaced += text.count("\ufffd") - data[:used].count(b"\xef\xbf\xbd")
        return text


def _unless_held_back(code: str, data: bytes, decoder: _Utf8) -> tuple[str, str] | None:
    text = decoder.feed(data)
    return (code, text) if text or not data else None


def _kept_event(data: Json) -> tuple[str, str] | None:
    """The event of a code we do not know that an import kept, or None if this is another kind of event."""
    match data:
        case {"event": "asciicast", "code": str(code), "data": str(text)}:
            return code, text
        case _:
            return None


def _encode_header(head: Json, version: Literal[2, 3]) -> Json:
    imported = _object(head.get("imported"))
    extra = _object(imported.get("extra"))
    kept = extra if imported.get("version") == version else {}
    cols = _as_side(head.get("cols"), _DEFAULT_SIZE[0])
    rows = _as_side(head.get("rows"), _DEFAULT_SIZE[1])
    term = _as_text(head.get("term"))
    theme = extra.get("theme") or _object(extra.get("term")).get("theme")
    env = _as_env(imported.get("env")) or {}
    if version == 2:
        shape: Json = {"width": cols, "height": rows, "theme": theme}
        env = ({"TERM": term} if term else {}) | env
    else:
        shape = {
            "term": _present({"cols": cols, "rows": rows, "type": term, "theme": theme}) | _object(kept.get("term"))
        }
    header = _present(
        {
            "version": version,
            **shape,
            "timestamp": _as_timestamp(head.get("wall")),
            "idle_time_limit": _as_seconds(imported.get("idle_time_limit")),
            "command": _as_text(imported.get("command")) or _join_words(head.get("argv")),
            "title": _as_text(head.get("title")) or (None if imported else _as_text(head.get("name"))),
            "env": env or None,
        }
    )
    return header | {name: value for name, value in kept.items() if name not in header}


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _as_side(value: object, default: int) -> int:
    return value if isinstance(value, int) and value > 0 else default


def _as_timestamp(wall: object) -> int | None:
    return wall // _US_PER_S if isinstance(wall, int) and wall >= 0 else None


def _join_words(argv: object) -> str | None:
    words = cast(list[object], argv) if isinstance(argv, list) else []
    return shlex.join(str(word) for word in words) or None


def _json_line(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can say only with an escape
        return json.dumps(value, allow_nan=False).encode() + b"\n"
