"""Types of columns that keep the same values on every engine.

Paths and arguments may hold bytes that are not UTF-8 (Python shows them as lone surrogates), and JSON any character;
SQLite refuses the first and PostgreSQL NUL as well. Such characters are written as an escape and come back unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Protocol, cast

import msgspec
from sqlalchemy import JSON, BigInteger, Dialect, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

_ESCAPE = "\ue000"  # of the private use area: nobody's text has it, and if it has, it is escaped itself
_ESCAPE_IN_JSON = json.dumps(_ESCAPE)[1:-1]
_UNSAFE = re.compile(f"[\x00\ud800-\udfff{_ESCAPE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")

Micros = BigInteger
"""Microseconds since 1970 in UTC."""

# Only a column declared INTEGER is SQLite's own row number; a BIGINT would cost a second index.
Number = BigInteger().with_variant(Integer, "sqlite")
"""The number of an event."""

_JSON = JSON().with_variant(JSONB(), "postgresql")


class _ReadsText(Protocol):
    def __call__(self, value: Any) -> str | None: ...


class AnyText(TypeDecorator[str]):
    """Text of people and machines, whatever is in it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape what an engine would refuse."""
        del dialect
        return value if value is None else _escape(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> _ReadsText:
        """Undo it, in one call: ``process_result_value`` would be three, for every text there is."""
        del dialect, coltype
        return _read_text


class AnyJson(TypeDecorator[object]):
    """A JSON value with any text in it. None is kept as JSON's null."""

    impl = _JSON
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        """Escape what an engine would refuse."""
        del dialect
        return _map_text(value, escaping=True)

    def process_result_value(self, value: object, dialect: Dialect) -> object:
        """Undo it."""
        del dialect
        return _map_text(value, escaping=False)


class Words(TypeDecorator[tuple[str, ...]]):
    """A program and its arguments."""

    impl = _JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> list[str] | None:
        """Escape what an engine would refuse."""
        del dialect
        return None if value is None else [_escape(word) for word in value]

    def process_result_value(self, value: list[str] | None, dialect: Dialect) -> tuple[str, ...] | None:
        """Undo it."""
        del dialect
        return None if value is None else tuple(_unescape(word) for word in value)


def decode_json(text: str) -> object:
    """What a column of JSON holds, for who has read it as text: for thousands of rows that is ten times as fast."""
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:  # it takes no numbers that are none, which Python writes
        value = json.loads(text)
    escaped = _ESCAPE in text or _ESCAPE_IN_JSON in text
    return _map_text(value, escaping=False) if escaped else value


def decode_json_rows(texts: Iterable[str]) -> list[object]:
    """The same of many rows at once."""
    return cast(list[object], decode_json(f"[{','.join(texts)}]"))


def _escape(text: str) -> str:
    # Most text is ASCII, of which only NUL is unsafe; asking for both is a tenth of a search's cost.
    if text.isascii() and "\0" not in text:
        return text
    return _UNSAFE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def _unescape(text: str) -> str:
    if text.isascii() or _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _read_text(value: str | None) -> str | None:
    return value if value is None or _ESCAPE not in value else _unescape(value)


def _map_text(value: object, *, escaping: bool) -> object:
    match value:
        case str():
            return _escape(value) if escaping else _unescape(value)
        case dict():
            fields = cast(dict[str, object], value)
            change = _escape if escaping else _unescape
            return {change(name): _map_text(field, escaping=escaping) for name, field in fields.items()}
        case list() | tuple():
            return [_map_text(item, escaping=escaping) for item in cast(list[object], value)]
        case _:
            return value
