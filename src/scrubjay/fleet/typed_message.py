"""A message as it is typed into a terminal: one line that says whose it is; and how it is found on the screen again.

It is typed in two parts. A program may take a character of somebody's text for a command while it thinks that its
prompt is empty, a ``!`` for the beginning of a line for the shell; so the rest comes only when the opening is seen
there. Both ends of the line are what no other message has. By them it is found, however the program breaks the line and
whatever it draws around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from scrubjay.fleet.messages import Message
from scrubjay.fleet.parties import kind_of
from scrubjay.fleet.untrusted import one_line

TEXT_MAX = 400  # characters; programs take more than about 800 at once for a paste, and show only that there was one
OWN_INBOX = "inbox"  # what an agent calls the channel that is its own
_NAME_MAX = 64
_NOT_ITS_USER = "not from your user"
_QUOTES = str.maketrans("«»", "<>")  # or a text could end its own quotation
_DRAWN = re.compile(r"[^\S\n\r]+|[\u2500-\u259f\u200b|]+")  # blanks, and what frames are drawn with
_BESIDE_MAX = 80  # of what is drawn right of a line that goes on in the next row,
_BEFORE_MAX = 16  # and left of it there
_NO_LETTERS = re.compile(r"[\W\d_]+")
_FOLLOWING_MAX = 40  # letters behind the line by which two screens are compared; what is further below may be a clock

Shown = Literal["absent", "begun", "waiting", "gone on"]
"""Where a line is: nowhere to be seen, its opening in the prompt, all of it there, or shown as what somebody said."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What a terminal shows."""

    text: str
    until_cursor: str  #: the part of it that ends where the cursor is


@dataclass(frozen=True, slots=True)
class TypedLine:
    """What is typed: printable characters without a line end."""

    opening: str
    rest: str
    mark: str  #: what the rest ends with

    @property
    def strokes(self) -> tuple[str, str]:
        """Its parts."""
        return self.opening, self.rest


def typed_line(message: Message, channel: str) -> TypedLine:
    """What is typed of a message; ``channel`` is what its reader calls the place where it was said."""
    text = one_line(message.text, TEXT_MAX).translate(_QUOTES)
    named = f"{channel}#{message.seq}"
    where = "to you alone" if channel == OWN_INBOX else f"in channel {channel}"
    answer = f'Answer: post_message(channel="{channel}", reply_to={message.seq}, text=...). '
    if kind_of(message.author) == "scrubjay":
        answer = ""
    rest = f" {_who(message)}, {where}: «{text}» {answer}All of it: read_inbox. {named}]"
    return TypedLine(f"[{named}:", rest, f"{named}]")


def _who(message: Message) -> str:
    name = one_line(message.author_name, _NAME_MAX).translate(_QUOTES)
    match kind_of(message.author):
        case "pod" | "agent":
            return f"Message from agent {name}, {_NOT_ITS_USER}"
        case "person":
            return f"Message from {name}, a person"
        case "scrubjay":
            return f"Notice from Scrubjay, {_NOT_ITS_USER}"


def find_line(screen: Screen, line: TypedLine, *, entered: bool, before: Screen | None, reads_lines: bool) -> Shown:
    """Where a line stands; ``before`` is the screen before Enter was pressed, if it was ``entered`` and is known.

    A program that ``reads_lines`` and draws nothing has its cursor elsewhere then. For one that draws, another thing
    stands behind the line: what it does about it, and its prompt.
    """
    opened = _following(screen.text, line.opening)
    if opened is not None and _following(opened, line.mark) is None:
        return "begun"
    behind = _following(screen.text, line.mark)
    if behind is None:
        return "absent"
    if not entered:
        return "waiting"
    if reads_lines or before is None:
        return "waiting" if _following(screen.until_cursor, line.mark) == "" else "gone on"
    return "waiting" if _letters(behind) == _letters(_following(before.text, line.mark) or "") else "gone on"


def _following(text: str, mark: str) -> str | None:
    """What is drawn behind the last that there is of a mark, whole or continued in the next row; None if there is none.

    Not by a regular expression: a mark and a screen can be such that one takes a second.
    """
    *above, last = _DRAWN.sub("", text).split("\n")
    rows = [*filter(None, above), last]
    for y in reversed(range(len(rows))):
        end = _end_in_row(rows[y], mark) or _end_of_rest(rows[y - 1] if y else "", rows[y], mark)
        if end:
            return "\n".join([rows[y][end:], *rows[y + 1 :]])
    return None


def _end_in_row(row: str, mark: str) -> int:
    start = row.rfind(mark)
    return start + len(mark) if start >= 0 else 0


def _end_of_rest(above: str, row: str, mark: str) -> int:
    """Where a mark ends in a row that has begun in the one above; 0 if it has not."""
    for length in range(1, len(mark)):
        begun = above.rfind(mark[:length])
        start = row.find(mark[length:], 0, _BEFORE_MAX + len(mark) - length) if begun >= 0 else -1
        if start >= 0 and len(above) - begun - length <= _BESIDE_MAX:
            return start + len(mark) - length
    return 0


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text)[:_FOLLOWING_MAX]
