"""What was typed, as lines to be found again. Pure."""

from __future__ import annotations

import re

_LINE_MAX = 4096
# Keys that are not text: control sequences, function keys, alt with a character; and what a terminal answers.
_KEYS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[\]P_X^][^\x07\x1b]*(?:\x07|\x1b\\)|.)?", re.DOTALL)


class TypedLines:
    """Collects what authors type until they end a line."""

    def __init__(self) -> None:
        self._pending: dict[str, str] = {}

    @property
    def unfinished(self) -> bool:
        """Whether somebody has begun a line and not ended it."""
        return any(line.strip() for line in self._pending.values())

    def feed(self, author: str, data: bytes) -> list[str]:
        """The lines that ``data`` ends."""
        line = self._pending.get(author, "")
        found: list[str] = []
        for character in _KEYS.sub(b"", data).decode("utf-8", "replace"):
            if character in "\r\n":
                found.append(line)
                line = ""
            elif character in "\x7f\x08":
                line = line[:-1]
            elif character in "\x03\x15":  # given up
                line = ""
            elif character.isprintable() or character == "\t":
                line = (line + character)[:_LINE_MAX]
        self._pending[author] = line
        return [line.strip() for line in found if line.strip()]
