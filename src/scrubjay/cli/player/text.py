"""Text of a recording made fit to be drawn: nothing that acts, and exactly as many columns as it had. Pure.

The person's terminal may know other widths than the engine that made the recording, and most of all so for
emoji made of several characters. Only characters whose width is the same everywhere are drawn.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

from rich.cells import cell_len, set_cell_size

TITLE_MAX = 256  # characters of a title, label or message from a recording that anybody is shown

_JOINED = re.compile("(.)\ufe0f?(?:\u200d.\ufe0f?|[\U0001f3fb-\U0001f3ff])+", re.DOTALL)
_MADE_WIDE = re.compile("([^\ufe0f])\ufe0f")
_FLAG_LETTERS = {0x1F1E6 + number: chr(ord("A") + number) for number in range(26)}


def inert(text: str) -> str:
    """What of ``text`` is printed and nothing else: no controls, no marks of direction, nothing invisible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([_harmless(character) for character in text.translate(_FLAG_LETTERS)])


def short(text: str) -> str:
    """A title or label on one line."""
    return " ".join(inert(text[: 4 * TITLE_MAX]).split())[:TITLE_MAX]


def fit(text: str, cells: int) -> str:
    """The harmless part of ``text`` in exactly ``cells`` columns."""
    if len(text) == cells and text.isascii() and text.isprintable():
        return text
    # An engine that joins characters counts the first of them alone; one that does not counts each.
    for candidate in (_MADE_WIDE.sub(_widened, _JOINED.sub(r"\1", text)), text):
        shown = inert(candidate)
        if cell_len(shown) == cells:
            return shown
    return set_cell_size(inert(text), cells)


def _widened(match: re.Match[str]) -> str:
    return match[1] + " " * (cell_len(match[1]) == 1)


@lru_cache(maxsize=4096)
def _harmless(character: str) -> str:
    code = ord(character)
    # What only changes how its neighbour looks: variations, skin tones, tags.
    if 0xFE00 <= code < 0xFE10 or 0x1F3FB <= code < 0x1F400 or 0xE0000 <= code < 0xE1000:
        return ""
    match category(character):
        case "Cf":
            return ""
        case "Cc" | "Cs" | "Zl" | "Zp":
            return " "
        case _:
            return character
