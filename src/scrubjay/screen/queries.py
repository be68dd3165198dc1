"""What programs ask a terminal that the engine does not answer by itself, found in their output. Pure."""

from __future__ import annotations

import re
from typing import Literal

FOCUS_MODE = 1004

Query = Literal["position", "focus"]

# DECXCPR, and the mode that reports focus, alone or among others.
_QUERY = re.compile(rb"\x1b\[\?(?:(?P<position>6n)|(?:\d+;)*1004(?:;\d+)*h)")
_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\?[\d;]*)?)?\Z")
_UNFINISHED_MAX_BYTES = 64
# Whatever a terminal answers or tells of, bells apart: strings, control sequences that end like those that ask, a
# reset, and what stands where no character may, which is taken for a control. All output is searched for it, so
# without going back.
_CALL = re.compile(
    rb"\x1b(?:\[(?:[0-?]*+(?:[cnqtu\x80-\xff]|\$p|[ -/]++[\x80-\xff])|\?[\d;]*(?:1004|2048)[\d;]*h)"
    rb"|[P\]_Zc\x80-\xff]|[ -/]++[\x80-\xff])"
)
_BEGUN = re.compile(rb"\x1b(?:[ -/]*|\[[0-?]*[ -/]*)\Z")
_BEGUN_MAX_BYTES = 256
_STRING = re.compile(rb"\x1b[P\]_X^][^\x07\x18\x1a]*\Z")
_STRING_ENDS = re.compile(rb"[\x07\x18\x1a\x1b\x80-\x9f]")


class Queries:
    """Cuts output where something is asked, in whatever portions it arrives."""

    def __init__(self) -> None:
        self._before = b""  # the beginning of a sequence that has not ended; it was given out already

    def cut(self, data: bytes) -> list[tuple[bytes, Query | None]]:
        """The output in parts, each with what it asks, if anything; a part that asks is nothing but the question."""
        seen = len(self._before)
        whole = self._before + data
        parts: list[tuple[bytes, Query | None]] = []
        position = seen
        for found in _QUERY.finditer(whole):
            start = max(seen, found.start())
            if start > position:
                parts.append((whole[position:start], None))
            parts.append((whole[start : found.end()], "position" if found["position"] else "focus"))
            position = found.end()
        if position < len(whole):
            parts.append((whole[position:], None))
        unfinished = _UNFINISHED.search(whole, max(0, len(whole) - _UNFINISHED_MAX_BYTES))
        self._before = unfinished[0] if unfinished is not None else b""
        return parts


class CallWatch:
    """Tells output that may have an effect besides drawing from output that cannot, which is nearly all of it."""

    def __init__(self) -> None:
        self._begun = b""  # a sequence that has not ended
        self._in_string = False  # or in one that is longer
        self._is_first = True  # and nobody knows what came before

    def feed(self, data: bytes) -> bool:
        """Whether to ask the terminal after this portion of output."""
        first, self._is_first = self._is_first, False
        data = self._begun + data
        ends = _STRING_ENDS.search(data) is not None if self._in_string else False
        last = data.rfind(b"\x1b")
        if last < 0:
            self._begun = b""
            self._in_string = self._in_string and not ends
            return first or ends or b"\x07" in data
        begun = _BEGUN.match(data, last) is not None and len(data) - last <= _BEGUN_MAX_BYTES
        self._begun = data[last:] if begun else b""
        self._in_string = _STRING.match(data, last) is not None
        return first or ends or b"\x07" in data or _CALL.search(data) is not None
