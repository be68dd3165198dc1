"""Text cut into pieces of which the columns are known, so that any page keeps the grid. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category, east_asian_width

# What acts instead of being seen: controls, what turns the direction of text, separators, and what XML cannot hold.
_ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# Latin, Greek, Cyrillic, boxes and blocks: fonts that have any of these have them all, one column wide.
_EVEN = re.compile("[ -~\xa1-\xac\xae-\u02af\u0370-\u0482\u048a-\u052f\u2500-\u259f]+")
_JOINS = frozenset({"Mn", "Me", "Cf"})


class Piece(NamedTuple):
    """Some text and the columns it takes."""

    text: str
    cells: int


def clean(text: str) -> str:
    """``text`` without characters that do something to the text around them."""
    return _ACTS.sub("", text)


@lru_cache(maxsize=8192)
def cut(text: str, cells: int) -> tuple[Piece, ...]:
    """The pieces of a span: even runs of text, and every character that fonts do not agree on by itself.

    Where the characters do not add up to ``cells``, the whole is one piece: its neighbours stay where they belong.
    """
    text = clean(text)
    if text.isascii() and len(text) == cells:
        return (Piece(text, cells),)
    pieces: list[Piece] = []
    position = 0
    while position < len(text):
        run = _EVEN.match(text, position)
        start, end = position, position + 1 if run is None else run.end()
        width = end - start
        if run is None and east_asian_width(text[start]) in "WF":
            width = 2
        joined = end
        while joined < len(text) and category(text[joined]) in _JOINS:
            joined += 1
        if joined > end and width > 1 and run is not None:
            pieces.append(Piece(text[start : end - 1], width - 1))
            start, width = end - 1, 1
        pieces.append(Piece(text[start:joined], width))
        position = joined
    return tuple(pieces) if sum(piece.cells for piece in pieces) == cells else (Piece(text, cells),)
