"""Screens and output with the keys in them hidden, whoever they belong to. Pure.

A key that goes on in the next row is found if the terminal or the program has wrapped it; one that is coloured in parts
is found too. What is shown takes the same cells as before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

from scrubjay.screen.key_shapes import Span, find_keys, mask_keys, mask_rows, spans_within
from scrubjay.screen.picture import Line, Picture
from scrubjay.screen.snapshot import WIDE_TAIL, Row, ScreenState, Snapshot
from scrubjay.tape.redaction import veil

_CODE = 0x7FFFFC  # bits of a cell: its character


def mask_picture(picture: Picture) -> Picture:
    """What is to be seen, without keys."""
    lines = (*picture.history, *picture.lines)
    texts = ["".join([span.text for span in line.spans]) for line in lines]
    masked = mask_rows(texts, [line.wrapped for line in lines])
    title, cwd = mask_keys(picture.title), mask_keys(picture.cwd)
    if masked == texts and not any(span.link for line in lines for span in line.spans):
        return picture if (title, cwd) == (picture.title, picture.cwd) else replace(picture, title=title, cwd=cwd)
    redrawn = [_redraw(line, text) for line, text in zip(lines, masked, strict=True)]
    above = len(picture.history)
    return replace(picture, history=tuple(redrawn[:above]), lines=tuple(redrawn[above:]), title=title, cwd=cwd)


def _redraw(line: Line, text: str) -> Line:
    spans = list(line.spans)
    at = 0
    for number, span in enumerate(spans):
        link = span.link and mask_keys(span.link)
        spans[number] = span._replace(text=text[at : at + len(span.text)], link=link)
        at += len(span.text)
    return Line(tuple(spans), line.wrapped)


def mask_snapshot(state: Snapshot) -> Snapshot:
    """A screen without keys, from which later output goes on as before."""
    screens = {key: _mask_screen(screen) for key, screen in state.screens.items()}
    title, pwd = (mask_keys(text.decode("utf-8", "replace")) for text in (state.title, state.pwd))
    return replace(state, screens=screens, title=title.encode("utf-8", "replace"), pwd=pwd.encode("utf-8", "replace"))


def _mask_screen(screen: ScreenState) -> ScreenState:
    rows = [*screen.history, *screen.rows]
    texts = [_cells_text(row) for row in rows]
    masked = mask_rows(texts, [row.wrapped for row in rows])
    if masked == texts:
        return screen
    redrawn = [_rewrite(row, old, new) for row, old, new in zip(rows, texts, masked, strict=True)]
    above = len(screen.history)
    return replace(screen, history=redrawn[:above], rows=redrawn[above:])


def _cells_text(row: Row) -> str:
    """A character for every cell, so that their numbers are columns."""
    codes = [0 if word & 2 or word >> 42 & 3 == WIDE_TAIL else word >> 2 & 0x1FFFFF for word in row.words]
    return "".join([chr(code) if code >= 0x20 else " " for code in codes])


def _rewrite(row: Row, old: str, new: str) -> Row:
    if old == new:
        return row
    words = tuple(
        [
            word if before == after else word & ~_CODE | ord(after) << 2
            for word, before, after in zip(row.words, old, new, strict=True)
        ]
    )
    return replace(row, words=words)


# In output a colour may stand within a key. Anything else that is no text ends it, and a move of the cursor does.
_COLOUR = rb"\x1b\[[0-9;:]{0,256}m"
_SEQUENCE = re.compile(rb"(?P<colour>(?:%s)+)|\x1b\[[0-?]{0,256}[ -/]{0,8}[@-~]|\r\n?" % _COLOUR)


class OutputText:
    """Output as text in which keys can be found, and where each character stands."""

    def __init__(self, data: bytes) -> None:
        pieces: list[str] = []
        self._starts, self._offsets = [0], [0]
        size = at = 0
        for found in _SEQUENCE.finditer(data):
            pieces.append(data[at : found.start()].decode("latin-1"))
            size += found.start() - at
            at = found.end()
            if found["colour"] is None:
                pieces.append("\n")
                size += 1
            self._starts.append(size)
            self._offsets.append(at)
        pieces.append(data[at:].decode("latin-1"))
        self.text = "".join(pieces)

    def find(self) -> list[Span]:
        """Where in the output the secret parts of keys are, in order."""
        return [part for span in find_keys(self.text) for part in self.spans(*span)]

    def spans(self, start: int, stop: int) -> list[Span]:
        """Where a part of the text stands in the output."""
        found: list[Span] = []
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            following = self._starts[number + 1] if number + 1 < len(self._starts) else stop
            until = min(stop, following)
            first = self._offsets[number] + start - self._starts[number]
            if until > start:
                found.append((first, first + until - start))
            start, number = until, number + 1
        return found


def veil_output(data: bytes, spans: list[Span], start: int, stop: int) -> bytes:
    """A part of the output with other characters in place of the bytes in spans: as many, whatever is cut where."""
    parts: list[bytes] = []
    end = start
    for first, last in spans_within(spans, start, stop):
        parts += (data[end:first], veil(last - first).encode())
        end = last
    return b"".join([*parts, data[end:stop]]) if parts else data[start:stop]
