"""Draw rows of cells with the sequences a terminal understands, so that they come out as the same cells. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, zip_longest
from unicodedata import category, east_asian_width

from scrubjay.screen.picture import PLAIN, Style, rgb
from scrubjay.screen.sgr import encode_sgr
from scrubjay.screen.snapshot import WIDE, WIDE_HEAD, WIDE_TAIL, Link, Row, ScreenState, read_style

_LOOK = 0xFFFF_03FF_FC00_0000  # bits of a cell: its style and its link
_ERASED = 2  # bit of a cell: nothing but a background
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_ENDS = dict.fromkeys([*range(0x20), *range(0x80, 0xA0)], " ")
_JOINS = frozenset({"Mn", "Me", "Cf", "Cn"})
_JAMO = re.compile("[\u115f-\u11ff\u3164\ud7b0-\ud7fb\uffa0]")  # vowels and ends of a Hangul syllable, without width
_VARIATIONS = frozenset({0xFE0E, 0xFE0F})
_CHARSETS = "BBA0"  # by the engine's numbers: UTF-8, ASCII, British, DEC special graphics
_SHIFTS = ("\x0f", "\x0e", "\x1bn", "\x1bo")


class Pen:
    """Writes to a terminal of which it knows style, link and character sets."""

    def __init__(self, cols: int, *, links: bool) -> None:
        self.cols = cols
        self._links = links
        self._parts: list[str] = []
        self._style: bytes | Style | None = None
        self._link: Link | None = None
        self._charsets = 0

    def write(self, *parts: str) -> None:
        """Write sequences that change nothing of what the pen knows."""
        self._parts += parts

    def encode(self) -> bytes:
        """Everything written so far."""
        return "".join(self._parts).encode("utf-8", "replace")

    def set_style(self, style: bytes | Style | None) -> None:
        """Write in a style from now on: the engine's bytes, one of ours, or None for the plain one."""
        if style != self._style:
            self._style = style
            self.write(encode_sgr(PLAIN if style is None else read_style(style) if isinstance(style, bytes) else style))

    def set_link(self, link: Link | None) -> None:
        """Let what is written from now on belong to a link."""
        if link == self._link or not self._links:
            return
        self._link = link
        if link is None:
            self.write("\x1b]8;;\x1b\\")
        else:
            name = "" if link.id is None else f"id={inert(link.id)}"
            self.write(f"\x1b]8;{name};{inert(link.uri)}\x1b\\")

    def set_charsets(self, packed: int) -> None:
        """Designate the four character sets, and use one of them."""
        for slot, designate in enumerate("()*+"):
            wanted, now = (_CHARSETS[value >> 2 * slot & 3] for value in (packed, self._charsets))
            if wanted != now:
                self.write(f"\x1b{designate}{wanted}")
        if packed >> 8 & 3 != self._charsets >> 8 & 3:
            self.write(_SHIFTS[packed >> 8 & 3])
        self._charsets = packed

    def move(self, x: int, y: int) -> None:
        """Move the cursor."""
        self.write(f"\x1b[{max(y, 0) + 1};{x + 1}H")

    def place(self, screen: ScreenState, x: int, y: int, top: int, *, pending: bool) -> None:
        """Move the cursor; one that is about to wrap gets there by writing the last character of its row."""
        row = screen.rows[y]
        if not pending or x != self.cols - 1:
            self.move(x, y - top)
            return
        if x < len(row.words) and row.words[x] >> 42 & 3 == WIDE_TAIL:
            x -= 1
        self.move(x, y - top)
        self._draw_to_edge(row, x)

    def draw_again(self, row: Row, x: int, y: int) -> None:
        """Write the character of one cell in its place."""
        self.move(x, y)
        self._draw_cells(row, x, x + 1)

    def draw(self, history: Sequence[Row], rows: Sequence[Row]) -> None:
        """Write rows one after the other from the top, so that history scrolls off and wrapped rows stay wrapped."""
        self.set_style(None)
        drawn = [*history, *rows]
        if not history:
            del drawn[_used(drawn) :]
        start = 0
        for row, following in zip_longest(drawn, drawn[1:]):
            if following is None:
                self._draw_ended(row, start)
            elif row.wrapped:
                start = self._draw_wrapped(row, start, following)
            else:
                self._draw_ended(row, start)
                if history:
                    self.set_style(None)  # a row that scrolls in takes the background of the pen
                self.write("\r\n")
                start = 0
        self.set_link(None)
        self.set_style(None)

    def _draw_ended(self, row: Row, start: int) -> None:
        """Write a row after which the next begins anew."""
        skip = self._draw_cells(row, start, len(row.words))
        if _has_clusters(row) and len(row.words) < self.cols:
            self._skip(skip)
            self.set_style(None)
            self.write("\x1b[K")

    def _draw_wrapped(self, row: Row, start: int, following: Row) -> int:
        """Write a row and go over its edge into the next; return how much of that has been written already."""
        if _is_short(row, following, self.cols):
            self._skip(self._draw_cells(row, start, self.cols - 1))
            self._draw_cells(following, 0, 2)
            self.set_link(None)
            self.set_style(None)
            self.write(f"\x1b[{self.cols - 2}X" if self.cols > 2 else "")
            return min(2, len(following.words))
        self._draw_to_edge(row, start)
        self.set_link(None)
        self.set_style(None)
        self.write(" \r\x1b[X")
        return 0

    def _draw_to_edge(self, row: Row, start: int) -> None:
        """Write the cells up to the last column, there at least a blank, so that the next character would wrap."""
        last = row.words[-1] if len(row.words) == self.cols else 0
        look = _look(last)
        if look and not look & _ERASED:
            self._draw_cells(row, start, self.cols)
            return
        self._skip(self._draw_cells(row, start, self.cols - 1))
        self.set_link(None)
        self.set_style(_background(look))
        self.write(" ")

    def _draw_cells(self, row: Row, start: int, stop: int) -> int:
        """Write cells from the cursor on; return how many at the end were not written, but left as they are."""
        words = row.words[start:stop]
        spilling = _has_clusters(row)
        column, skip = start, 0
        for key, group in groupby(words, _look):
            run = list(group)
            if key & _ERASED or (not key and spilling):
                self._skip(skip)
                self._erase(key, len(run))
                skip = len(run)
            elif not key:
                skip += len(run)
            else:
                self._skip(skip)
                skip = 0
                self.set_link(row.links.get(key >> 48))
                self.set_style(row.styles.get(key >> 26 & 0xFFFF))
                self.write(self._text(row, run, column))
            column += len(run)
        return skip + stop - start - len(words)

    def _skip(self, cells: int) -> None:
        if cells:
            self.write(f"\x1b[{cells}C")

    def _erase(self, look: int, cells: int) -> None:
        self.set_style(_background(look))
        self.write(f"\x1b[{cells}X")

    def _text(self, row: Row, words: list[int], column: int) -> str:
        if not row.more and not any(_is_wide_blank(word) for word in words):
            return "".join([chr(word >> 2 & 0x1FFFFF) for word in words if word >> 42 & 3 != WIDE_TAIL]).translate(
                _CONTROLS
            )
        return "".join([self._character(row, word, column + i) for i, word in enumerate(words)])

    def _character(self, row: Row, word: int, x: int) -> str:
        width = word >> 42 & 3
        if width == WIDE_TAIL:
            return ""
        if _is_wide_blank(word):
            return "  "
        text = (chr(word >> 2 & 0x1FFFFF) + "".join([chr(code) for code in row.more.get(x, ())])).translate(_CONTROLS)
        if not is_cluster(row, x):
            return text
        # A terminal that does not know clusters spills their parts over the next columns, but not over the edge.
        end = x + (2 if width == WIDE else 1)
        back = f"\x1b[{end + 1}G" if end < self.cols else ""
        return f"\x1b[?7l\x1b[?2027h{text}\x1b[?2027l\x1b[?7h{back}"


def _look(word: int) -> int:
    """What cells have in common that are written in one go; 0 of a cell that nothing was written to."""
    if word & _ERASED:
        return word & 0x3FF_FFFF
    look = word & _LOOK
    return look | 1 if look or word >> 2 & 0x1FFFFF or word >> 42 & 3 else 0


def _background(look: int) -> Style | None:
    """What an erased cell looks like."""
    content = look >> 2
    if not look:
        return None
    return Style(bg=rgb(content & 255, content >> 8 & 255, content >> 16) if look & 1 else content & 255)


def _is_wide_blank(word: int) -> bool:
    """Whether a wide character could not be shown in the character set that was in use."""
    return word >> 42 & 3 == WIDE and word >> 2 & 0x1FFFFF <= 0x20


def _used(rows: Sequence[Row]) -> int:
    """How many rows have to be drawn: those below them are blank, and go on with none."""
    return max((y + 1 + row.wrapped for y, row in enumerate(rows) if row.words or row.wrapped), default=0)


def _has_clusters(row: Row) -> bool:
    return any(is_cluster(row, x) for x in row.more)


def is_cluster(row: Row, x: int) -> bool:
    """Whether a cell holds what comes together in mode 2027 alone."""
    more = row.more.get(x)
    if not more:
        return False
    if any(category(chr(code)) not in _JOINS and not _JAMO.match(chr(code)) for code in more):
        return True
    # Outside of it, a variation selector does not change the width, and digits have none.
    width, base = row.words[x] >> 42 & 3, chr(row.words[x] >> 2 & 0x1FFFFF)
    return not _VARIATIONS.isdisjoint(more) and (base.isascii() or (width == WIDE) != (east_asian_width(base) in "WF"))


def _is_short(row: Row, following: Row, cols: int) -> bool:
    """Whether the last column is empty because the wide character that begins the next row did not fit."""
    if len(row.words) < cols or not following.words:
        return False
    head, wide = row.words[-1], following.words[0]
    if head >> 42 & 3 != WIDE_HEAD or wide >> 42 & 3 != WIDE or _is_wide_blank(wide) or is_cluster(following, 0):
        return False
    same_style = row.styles.get(head >> 26 & 0xFFFF) == following.styles.get(wide >> 26 & 0xFFFF)
    return same_style and row.links.get(head >> 48) == following.links.get(wide >> 48)


def is_ascii(charsets: int) -> bool:
    """Whether the character set in use shows every character as itself."""
    return _CHARSETS[charsets >> 2 * (charsets >> 8 & 3) & 3] == "B"


def inert(data: bytes) -> str:
    """Text that cannot end the sequence it is in."""
    return data.decode("utf-8", "replace").translate(_ENDS)
