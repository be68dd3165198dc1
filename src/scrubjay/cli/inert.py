"""Terminal output made harmless: text and colours, nothing that acts on whoever looks at it. Pure.

A recording may hold anything an agent was made to print: clipboard writes, title reports, links,
queries that a terminal answers by typing. None of that gets through.
"""

from __future__ import annotations

import re

from scrubjay.cli.modes import Modes

_TOKEN = re.compile(
    rb"""
      (?P<sgr>\x1b\[[0-9;:]{0,256}m)               # colours: the only sequence that may pass
    | \x1b\[[0-?]{0,256}[ -/]{0,8}[@-~]            # any other control sequence
    | \x1b[\]PX^_][^\x07\x1b\x18\x1a]*             # strings (titles, clipboard, links, graphics), ended by
        (?:\x07|\x1b\\|[\x18\x1a]|(?=\x1b[^\\]))    # BEL, ST, a cancel, or the start of something else
    | (?P<unfinished>                             # what the next portion may complete
        (?:\x1b(?:\[[0-?]{0,256}[ -/]{0,8} | [\]PX^_][^\x07\x1b\x18\x1a]*\x1b? | [ -/]{0,8}) | \r+ | \xc2)\Z)
    | \x1b[ -/]{0,8}[0-OQ-WYZ\\`-~]               # short escapes
    | (?P<newline>\r+\n)
    | \xc2[\x80-\x9f]                             # the same controls as single characters
    | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f]            # control characters other than tab, newline, return
    """,
    re.VERBOSE,
)
_UNFINISHED_MAX_BYTES = 4096


class InertFilter:
    """Filters a stream in any portions."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """What of ``data`` is harmless; an unfinished sequence is kept for the next portion."""
        data, self._pending = self._pending + data, b""
        return _TOKEN.sub(self._replace, data)

    def finish(self) -> bytes:
        """What is left at the end, and colours switched off."""
        left = self._pending if self._pending.startswith(b"\r") else b""
        self._pending = b""
        return left + (b"\x1b[0m" if self._colours else b"")

    def _replace(self, match: re.Match[bytes]) -> bytes:
        if match["unfinished"] is not None:
            # Of a string only its beginning matters: that it is one.
            token = match["unfinished"]
            self._pending = token if len(token) <= _UNFINISHED_MAX_BYTES else token[:2]
            return b""
        if match["newline"] is not None:
            return b"\n"
        return match["sgr"] if self._colours and match["sgr"] is not None else b""


# What a terminal answers by typing into the program that asked. Replayed to a person's terminal, the
# answers would reach the agent a second time.
_QUERY = re.compile(
    rb"\x1b\[[>=?]?[0-9;]{0,16}[cn]"
    rb"|\x1b\[[>?]?[0-9;]{0,16}(?:q|\$p|u)"
    rb"|\x1b\[(?:1[13-9]|2[01])(?:;[0-9]{1,8})?t"
    rb"|\x1bP[+$]q[^\x1b\x07]{0,4096}\x1b\\"
    rb"|\x1b\](?:4;[0-9]{1,3}|1[0-9]|52;[a-z]{0,8}|7501);\?[^\x1b\x07]{0,256}(?:\x07|\x1b\\)"
    rb"|\x1b_G[^\x1b\x07]{0,65536}\x1b\\"
    rb"|\x05"
)


def catch_up(output: bytes, shown_bytes: int) -> bytes:
    """What to show a person who joins late: the modes set so far, then the last of the output, without queries."""
    early, late = output[:-shown_bytes], output[-shown_bytes:]
    if early:
        # Not from the middle of a line or a sequence.
        newline = late.find(b"\n")
        early, late = output[: -len(late) + newline + 1], late[newline + 1 :]
    modes = Modes()
    modes.feed(early)
    return modes.enter() + _QUERY.sub(b"", late)
