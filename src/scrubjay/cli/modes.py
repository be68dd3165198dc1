"""Which modes a program has left a terminal in, and how to leave them. Pure."""

from __future__ import annotations

import re

_CHANGE = re.compile(
    rb"\x1b(?:\[\?(?P<private>[0-9;]{1,64})(?P<state>[hl])"
    rb"|\[(?P<region>[0-9]{0,4};?[0-9]{0,4})r"
    rb"|\[>(?P<keyboard>[0-9]{1,3})u"
    rb"|\[>4;(?P<other_keys>[0-9])m"
    rb"|(?P<keypad>[=>])"
    rb"|(?P<reset>c))"
)
_LONGEST_BYTES = 80

# Modes a shell does not expect to be on, in the order in which to leave them.
_LEAVE_ON = (
    b"2026",
    b"1000",
    b"1002",
    b"1003",
    b"1004",
    b"1005",
    b"1006",
    b"1015",
    b"1016",
    b"2004",
    b"2031",
    b"2048",
    b"1",
    b"66",
)
_ALTERNATE = (b"1049", b"1047", b"47")
# Modes it expects to be on: line wrap and the cursor.
_LEAVE_OFF = (b"7", b"25")


class Modes:
    """Follows a program's output and knows the modes that are in force."""

    def __init__(self) -> None:
        self._private: dict[bytes, bool] = {}
        self._region = self._keyboard = self._other_keys = self._keypad = False
        self._tail = b""
        self._ends_line = True

    def feed(self, output: bytes) -> None:
        """Take note of what ``output`` changes."""
        if not output:
            return
        self._ends_line = output.endswith(b"\n")
        if b"\x1b" not in output and not self._tail:
            return
        data = self._tail + output
        end = 0
        for match in _CHANGE.finditer(data):
            end = match.end()
            self._note(match)
        start = data.rfind(b"\x1b", max(end, len(data) - _LONGEST_BYTES))
        self._tail = data[start:] if start >= 0 else b""

    def _note(self, match: re.Match[bytes]) -> None:
        if match["private"] is not None:
            for mode in match["private"].split(b";"):
                self._private[mode] = match["state"] == b"h"
        elif match["region"] is not None:
            self._region = bool(match["region"])
        elif match["keyboard"] is not None:
            self._keyboard = True
        elif match["other_keys"] is not None:
            self._other_keys = match["other_keys"] != b"0"
        elif match["keypad"] is not None:
            self._keypad = match["keypad"] == b"="
        else:
            self.__init__()

    def enter(self) -> bytes:
        """What puts a fresh terminal into these modes."""
        switched = (b"\x1b[?" + mode + (b"h" if on else b"l") for mode, on in self._private.items())
        return b"".join(switched) + (b"\x1b=" if self._keypad else b"")

    def leave(self) -> bytes:
        """What puts the terminal back as a shell wants it, at the start of a line."""
        parts = [b"\x1b[?" + mode + b"l" for mode in _LEAVE_ON if self._private.get(mode)]
        alternate = [mode for mode in _ALTERNATE if self._private.get(mode)]
        if self._region:
            parts.append(b"\x1b7\x1b[r\x1b8")  # resetting the region alone would move the cursor home
        parts += [b"\x1b[?" + mode + b"l" for mode in alternate]
        parts += [b"\x1b[?" + mode + b"h" for mode in _LEAVE_OFF if self._private.get(mode) is False]
        if self._keyboard:
            parts.append(b"\x1b[<99u")
        if self._other_keys:
            parts.append(b"\x1b[>4;0m")
        if self._keypad:
            parts.append(b"\x1b>")
        parts.append(b"\x1b[0m")
        if not alternate and not self._ends_line:
            # Programs that draw below the cursor would leave that behind the next words.
            parts.append(b"\r\n\x1b[J")
        return b"".join(parts)
