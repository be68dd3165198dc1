"""What a person's terminal sends by itself: its answers to what a program asked it. Pure.

Every terminal that is shown a query answers it. Where the pod's own terminal does, the answers of persons' terminals
are taken out of what they send, and keys are left alone. What may be the beginning of an answer is kept back for a
moment.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HELD_MAX_BYTES = 64 << 10  # of one answer; only a clipboard is larger
_TAKEN_MAX_BYTES = 4096  # of answers that may be wanted after all
_STRINGS = (
    rb"P(?:[01][$+]r|[!>]\||\d*!~|\d\$[su])",  # settings, capabilities, name and number, checksums, tabs
    rb"\](?:\d+;|[lL])",  # colours, the clipboard, the title
    rb"_G",  # images
)
# No key is sent as a control sequence with ?, > or =; of the others only those that answer something end like this.
_ANSWER = re.compile(
    rb"\x1b(?:\[(?:[?>=][\d;:]*[ -/]*[@-~]|(?P<position>\d+;\d+)R|\d+n|\d[\d;]*t|\d+;\d\$y|[23](?:;\d+){6}x)"
    rb"|(?:%s)[^\x07\x1b]*(?:\x07|\x1b\\))" % b"|".join(_STRINGS)
)
_BEGUN = re.compile(
    rb"\x1b(?:\[(?:[?>=][\d;:]*[ -/]*|[\d;]*\$?)?|P\d*[$+!>]?|\]\d*|_|(?:%s)[^\x07\x1b]*\x1b?)?\Z" % b"|".join(_STRINGS)
)
_CLIPBOARD = re.compile(rb"\x1b\](?:52|5522);")
_STRING_END = re.compile(rb"\x07|\x1b\\?")
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_PASTE_END_BEGUN = re.compile(rb"\x1b(?:\[(?:2(?:0(?:1)?)?)?)?\Z")
_KEY_BYTES = 2  # escape, and alt with a bracket, are keys as well
# Shift, ctrl and alt with F3 look like the answer that the cursor is near the beginning of the first row.
_F3 = re.compile(rb"1;(?:[2-9]|1[0-6])")


class Replies:
    """Takes the answers out of what one terminal sends, in whatever portions that arrives."""

    KEY_S = 0.03  #: how long what may be a key is kept back
    ANSWER_S = 0.5  #: how long what can only be an answer is, until it is passed on after all

    def __init__(self, position_asked: Callable[[], bool]) -> None:
        """``position_asked`` tells whether the program may be waiting for the place of the cursor."""
        self.taken = b""  #: what was taken out, for whoever finds that nobody else has answered; theirs to empty
        self._position_asked = position_asked
        self._held = b""
        self._pasting = False  # what is pasted is typed, whatever it looks like
        self._dropping = False  # an answer that is too long to be kept until its end

    @property
    def holding(self) -> bool:
        """Whether something is kept back, or an answer has not ended."""
        return bool(self._held) or self._dropping

    @property
    def hold_s(self) -> float:
        """How long to wait for the rest of it."""
        return self.KEY_S if len(self._held) <= _KEY_BYTES and not self._dropping else self.ANSWER_S

    def feed(self, data: bytes) -> bytes:
        """What was typed."""
        data, self._held = self._held + data, b""
        typed: list[bytes] = []
        position = 0
        while position < len(data):
            if self._dropping:
                position = self._drop(data, position)
            elif self._pasting:
                position = self._pass_paste(data, position, typed)
            else:
                position = self._take(data, position, typed)
        return b"".join(typed)

    def release(self) -> bytes:
        """What was kept back, to be passed on after all: the rest of it did not come."""
        held, self._held = self._held, b""
        if self._dropping:
            self._dropping = False
            return b""
        return held

    def _take(self, data: bytes, position: int, typed: list[bytes]) -> int:
        start = data.find(b"\x1b", position)
        if start < 0:
            typed.append(data[position:])
            return len(data)
        typed.append(data[position:start])
        answer = _ANSWER.match(data, start)
        if answer is not None:
            place = answer["position"]
            if place is not None and _F3.fullmatch(place) and not self._position_asked():
                typed.append(answer[0])
            elif len(self.taken) + len(answer[0]) <= _TAKEN_MAX_BYTES:
                self.taken += answer[0]
            return answer.end()
        if _BEGUN.match(data, start):
            if len(data) - start <= _HELD_MAX_BYTES:
                self._held = data[start:]
                return len(data)
            if _CLIPBOARD.match(data, start):
                self._dropping = True
                return start + 1
        if data.startswith(_PASTE, start):
            self._pasting = True
            typed.append(_PASTE)
            return start + len(_PASTE)
        typed.append(b"\x1b")
        return start + 1

    def _pass_paste(self, data: bytes, position: int, typed: list[bytes]) -> int:
        end = data.find(_PASTE_END, position)
        if end >= 0:
            self._pasting = False
            typed.append(data[position : end + len(_PASTE_END)])
            return end + len(_PASTE_END)
        begun = _PASTE_END_BEGUN.search(data, position)
        end = len(data) if begun is None else begun.start()
        typed.append(data[position:end])
        self._held = data[end:]
        return len(data)

    def _drop(self, data: bytes, position: int) -> int:
        end = _STRING_END.search(data, position)
        if end is None:
            return len(data)
        if end[0] == b"\x1b" and end.end() == len(data):
            self._held = b"\x1b"
            return len(data)
        self._dropping = False
        return end.start() if end[0] == b"\x1b" else end.end()  # another sequence ends a string too
