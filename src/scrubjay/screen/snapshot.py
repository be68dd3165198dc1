"""Read the engine's snapshots without the engine.

The format is libghostty-vt's ``GHOSTSNP`` version 1. It has no promise of compatibility, which is why every
keyframe carries the engine's identity; here only what this version writes is read, and anything else is a
BadSnapshot. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from struct import Struct, error
from typing import NamedTuple

from scrubjay.screen.picture import DEFAULT, PLAIN, Cursor, Line, Picture, Span, Style, rgb

_ENVELOPE = b"GHOSTSNP\x01\x00"
ENVELOPE_BYTES = len(_ENVELOPE)
RECORD_HEADER = Struct("<HII")  # tag, length of the payload, checksum
_TERMINAL_TAG, _SCREEN_TAG, _PAGE_TAG, _HISTORY_TAG, READY_TAG, _FINISH_TAG, _CONTINUATION_TAG = range(1, 8)

_TERMINAL = Struct("<HHIIHHHHBHHIBBBBBBBBBBQQQ8s8s8sQQ")
_SCREEN = Struct("<HHQHHBB16sI")
_PAGE = Struct("<HHHHHHII")
_STYLE = Struct("<4s4s4sH")
_U16, _U32, _RGB = Struct("<H"), Struct("<I"), Struct("3B")
_WORDS = {0: ("B", 1), 1: ("H", 2), 2: ("I", 4), 3: ("Q", 8)}
_GRAPHEME = Struct("<HHH")
_ROWS_KEPT = 1024  # drawn ones, some kB each

# The engine's modes in the order of the bits that hold them: number, and whether it is an ANSI one.
MODES: tuple[tuple[int, bool], ...] = (
    *((number, True) for number in (2, 4, 12, 20)),
    *((number, False) for number in (1, 3, 4, 5, 6, 7, 8, 9, 12, 25, 40, 45, 47, 66, 67, 69, 1000, 1002, 1003)),
    *((number, False) for number in (1004, 1005, 1006, 1007, 1015, 1016, 1035, 1036, 1039, 1045, 1047, 1048, 1049)),
    *((number, False) for number in (2004, 2026, 2027, 2031, 0, 2048, 5522)),
)
_MODE_BITS: dict[tuple[int, bool], int] = {mode: bit for bit, mode in enumerate(MODES)}
_SHAPES = ("bar", "block", "underline", "block")
_BLANKS = bytes(code if 0x20 <= code < 0x7F else 0x20 for code in range(256))
WIDE, WIDE_TAIL, WIDE_HEAD = 1, 2, 3  # of a cell: holds a wide character, its second half, or could not hold one


class BadSnapshot(Exception):
    """Bytes that are not a snapshot of this engine."""


class Link(NamedTuple):
    """A hyperlink."""

    id: bytes | None  #: None if the program gave it none
    uri: bytes


class Cell(NamedTuple):
    """One cell, resolved."""

    kind: int  #: 0 text, 1 text with more code points, 2 a background of the palette, 3 a background of its own
    content: int  #: the code point, or the background
    style: bytes | None  #: the engine's 16 bytes, None for the plain one
    width: int  #: 0, or WIDE, WIDE_TAIL, WIDE_HEAD
    link: Link | None
    more: tuple[int, ...]  #: code points that join the first


@dataclass(frozen=True, slots=True)
class Meanings:
    """What the ids of styles and links mean in one page."""

    raw: bytes
    styles: dict[int, bytes] = field(compare=False)
    links: dict[int, Link] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One row: words of the engine, and what their ids mean."""

    flags: int
    words: tuple[int, ...]
    ids: Meanings
    more: dict[int, tuple[int, ...]]  #: by column

    @property
    def wrapped(self) -> bool:
        """Whether the next row continues it."""
        return bool(self.flags & 1)

    @property
    def styles(self) -> dict[int, bytes]:
        """What its styles are."""
        return self.ids.styles

    @property
    def links(self) -> dict[int, Link]:
        """Where its links lead."""
        return self.ids.links

    def cells(self) -> list[Cell]:
        """The cells the row was given; those to the right of them are blank."""
        styles, links, more = self.styles, self.links, self.more
        return [
            Cell(
                word & 3,
                word >> 2 & 0xFFFFFF,
                styles.get(word >> 26 & 0xFFFF),
                word >> 42 & 3,
                links.get(word >> 48),
                more.get(x, ()),
            )
            for x, word in enumerate(self.words)
        ]

    def text(self) -> str:
        """What it says, whatever it looks like; much quicker than its line."""
        if self.more or not self.words:
            return "".join([span.text for span in self.line().spans])
        return _text(tuple([0 if word & 2 else word for word in self.words]))

    def line(self) -> Line:
        """The row as it is drawn."""
        # Most rows of a screen are those of the one before.
        return _draw_again(self.words, self.ids, self.wrapped) if not self.more else self.draw()

    def draw(self) -> Line:
        """The same, made anew."""
        spans: list[Span] = []
        column = 0
        # Style and link of a cell, and for erased cells their background: what spans are made of.
        for key, group in groupby(map(_look, self.words)):
            end = column + len(list(group))
            spans.append(self._span(key, self.words[column:end], column))
            column = end
        while spans and spans[-1].style == PLAIN and spans[-1].link is None and not spans[-1].text.strip():
            spans.pop()
        return Line(tuple(spans), self.wrapped)

    def _span(self, key: int, words: tuple[int, ...], column: int) -> Span:
        kind = key & 3
        if kind >= 2:
            content = key >> 2 & 0xFFFFFF
            bg = content & 255 if kind == 2 else rgb(content & 255, content >> 8 & 255, content >> 16)
            return Span(" " * len(words), len(words), Style(bg=bg))
        packed = self.styles.get(key >> 26 & 0xFFFF)
        link = self.links.get(key >> 48)
        if self.more and any(column <= x < column + len(words) for x in self.more):
            text = "".join([self._characters(word, column + i) for i, word in enumerate(words)])
        else:
            text = _text(words)
        style = PLAIN if packed is None else read_style(packed)
        return Span(text, len(words), style, None if link is None else link.uri.decode("utf-8", "replace"))

    def _characters(self, word: int, x: int) -> str:
        if word >> 42 & 3 == WIDE_TAIL:
            return ""
        more = "".join([chr(code) for code in self.more.get(x, ()) if _joins(code)])
        return _character(word >> 2 & 0x1FFFFF) + more


def _look(word: int) -> int:
    """What a cell has in common with neighbours in the same span."""
    if word & 2:
        return word & 0x3FFFFFF  # an erased cell: kind and background
    return word & 0xFFFF_03FF_FC00_0000  # kind 0, style and link


def _text(words: tuple[int, ...]) -> str:
    """What cells say that hold one code point each."""
    codes = [word >> 2 & 0x1FFFFF for word in words]
    if max(codes) < 0x80 and max(words) < 1 << 42:  # nothing wide, and no half of it
        return bytes(codes).translate(_BLANKS).decode()
    return "".join([_character(code) for word, code in zip(words, codes, strict=True) if word >> 42 & 3 != WIDE_TAIL])


def _character(code: int) -> str:
    # What was never written is drawn as a blank.
    return chr(code) if code >= 0x20 and code != 0x7F and (code < 0x80 or _joins(code)) else " "


def _joins(code: int) -> bool:
    # A lone surrogate could not be printed anywhere.
    return 0xA0 <= code < 0xD800 or 0xE000 <= code < 0x110000


@dataclass(slots=True)
class SavedCursor:
    """What DECSC kept."""

    x: int
    y: int
    style: bytes
    flags: int
    charsets: int


@dataclass(slots=True)
class ScreenState:
    """The primary or the alternate screen."""

    cursor_x: int
    cursor_y: int
    cursor_shape: int
    cursor_flags: int  #: bit 0: at the right edge, the next character wraps
    pen: bytes  #: the engine's style bytes
    charsets: int
    saved: SavedCursor | None
    link: Link | None  #: that what is written next belongs to
    rows: list[Row] = field(default_factory=list[Row])
    history: list[Row] = field(default_factory=list[Row])


@dataclass(slots=True)
class Snapshot:
    """Everything a snapshot says that a screen needs."""

    cols: int
    rows: int
    top: int
    bottom: int
    active: int  #: 0 primary, 1 alternate
    cursor_is_default: bool
    modes: int  #: bits in the order of MODES
    default_modes: int
    bg: int
    fg: int
    cursor_colour: int
    tabs: bytes  #: a bit per column
    palette: dict[int, int]  #: what the program changed
    pwd: bytes
    title: bytes
    screens: dict[int, ScreenState]
    continuation: bytes  #: the unfinished escape sequence

    @property
    def screen(self) -> ScreenState:
        """The one that is shown."""
        return self.screens[self.active]

    def has_mode(self, number: int, *, ansi: bool = False) -> bool:
        """Whether a mode is on."""
        return bool(self.modes >> _MODE_BITS[number, ansi] & 1)

    def picture(self, history: int = 0) -> Picture:
        """What is to be seen, with up to ``history`` rows of what scrolled off."""
        screen = self.screen
        return Picture(
            cols=self.cols,
            rows=self.rows,
            lines=tuple([row.line() for row in screen.rows]),
            history=tuple([row.line() for row in screen.history[-history:]]) if history else (),
            cursor=Cursor(
                min(screen.cursor_x, self.cols - 1),
                screen.cursor_y,
                visible=self.has_mode(25),
                shape=_SHAPES[screen.cursor_shape & 3],
            ),
            title=self.title.decode("utf-8", "replace"),
            cwd=self.pwd.decode("utf-8", "replace"),
            alternate=self.active == 1,
            modes=frozenset(n for bit, (n, ansi) in enumerate(MODES) if not ansi and n and self.modes >> bit & 1),
            palette=self.palette,
            fg=self.fg,
            bg=self.bg,
        )


def cut_history(data: bytes) -> bytes:
    """The part of a snapshot that holds the screen alone, itself a snapshot."""
    for tag, _, end in _records(data):
        if tag == READY_TAG:
            return data[:end]
    raise BadSnapshot("a snapshot that is never ready")


def read_size(data: bytes) -> tuple[int, int]:
    """Columns and rows of a snapshot."""
    for _, payload, _ in _records(data):
        if len(payload) >= _TERMINAL.size:
            return _U16.unpack_from(payload)[0], _U16.unpack_from(payload, 2)[0]
        break
    raise BadSnapshot("a snapshot that does not begin with the terminal")


def restores_exactly(data: bytes) -> bool:
    """Whether the engine makes of a snapshot what it was taken of.

    It forgets that the next character wraps, of the cursor and of a saved one, unless that stands in the last column.
    """
    cols = 0
    for tag, payload, _ in _records(data):
        if tag == _TERMINAL_TAG:
            (cols,) = _U16.unpack_from(payload)
        elif tag == _SCREEN_TAG:
            _, screen = _read_screen(bytes(payload))
            saved = screen.saved
            if screen.cursor_flags & 1 and screen.cursor_x < cols - 1:
                return False
            if saved is not None and saved.flags & 2 and saved.x < cols - 1:
                return False
        elif tag == READY_TAG:
            break
    return True


def read_snapshot(data: bytes, *, history: int = 0) -> Snapshot:
    """What a snapshot says, with at least ``history`` rows of what scrolled off if it has them."""
    try:
        return _read(data, history)
    except (error, IndexError, KeyError, ValueError) as why:
        raise BadSnapshot(f"a snapshot that cannot be read: {why}") from why


def read_picture(data: bytes, *, history: int = 0) -> Picture:
    """What a snapshot shows."""
    return read_snapshot(data, history=history).picture(history)


def _records(data: bytes) -> Iterator[tuple[int, memoryview, int]]:
    """Tag, payload and end of each record."""
    if not data.startswith(_ENVELOPE):
        raise BadSnapshot("not a snapshot of a version that can be read")
    view, position = memoryview(data), len(_ENVELOPE)
    while position + RECORD_HEADER.size <= len(data):
        tag, length, _ = RECORD_HEADER.unpack_from(data, position)
        start = position + RECORD_HEADER.size
        position = start + length
        if position > len(data):
            raise BadSnapshot("a snapshot that was cut")
        yield tag, view[start:position], position
        if tag == _FINISH_TAG:
            return
    if position != len(data):
        raise BadSnapshot("a snapshot that was cut")


def _read(data: bytes, history: int) -> Snapshot:
    found: Snapshot | None = None
    state: ScreenState | None = None
    older: list[list[Row]] = []  # pages of history, newest first
    in_history = False
    wanted = history
    tag = _TERMINAL_TAG
    for tag, payload, _ in _records(data):
        if found is None:
            found = _read_terminal(bytes(payload))
        elif tag == _SCREEN_TAG:
            key, state = _read_screen(bytes(payload))
            found.screens[key] = state
        elif tag == _CONTINUATION_TAG:
            found.continuation = bytes(payload)
        elif tag == READY_TAG and not history:
            break
        elif tag == _HISTORY_TAG:
            (key,) = _U16.unpack_from(payload)
            _take_history(state, older)
            state, in_history, wanted = found.screens[key], True, history
        elif tag == _PAGE_TAG and state is not None:
            if not in_history:
                state.rows += _read_page(bytes(payload))
            elif wanted > 0:
                older.append(_read_page(bytes(payload)))
                wanted -= len(older[-1])
    _take_history(state, older)
    if found is None or tag not in (READY_TAG, _FINISH_TAG):
        raise BadSnapshot("a snapshot that was cut")
    if not found.screens.keys() >= {0, found.active}:
        raise BadSnapshot("a snapshot without a screen")
    for screen in found.screens.values():
        # The first page may begin above the screen.
        screen.history += screen.rows[: -found.rows]
        screen.rows = screen.rows[-found.rows :]
        if not screen.cursor_y < len(screen.rows) == found.rows:
            raise BadSnapshot("a snapshot without all rows")
    return found


def _take_history(state: ScreenState | None, older: list[list[Row]]) -> None:
    if state is not None:
        for page in reversed(older):
            state.history += page
    older.clear()


def _read_terminal(data: bytes) -> Snapshot:
    (cols, rows, _, _, top, bottom, _, _, _, active, _, _, cursor_is_default, *_rest) = _TERMINAL.unpack_from(data)
    modes, _, default_modes, bg, fg, cursor_colour, _, _ = _rest[-8:]
    position = _TERMINAL.size
    tabs = data[position : position + (cols + 7) // 8]
    position += len(tabs) + 768  # the palette as it is; what differs from its default follows
    mask = data[position : position + 32]
    position += 32
    palette: dict[int, int] = {}
    for number in range(256):
        if mask[number // 8] >> number % 8 & 1:
            palette[number] = rgb(*_RGB.unpack_from(data, position))
            position += 3
    (length,) = _U32.unpack_from(data, position)
    pwd = data[position + 4 : position + 4 + length]
    position += 4 + length
    (length,) = _U32.unpack_from(data, position)
    title = data[position + 4 : position + 4 + length]
    _check_end(data, position + 4 + length)
    return Snapshot(
        cols=cols,
        rows=rows,
        top=top,
        bottom=bottom,
        active=active,
        cursor_is_default=bool(cursor_is_default),
        modes=modes,
        default_modes=default_modes,
        bg=_read_override(bg),
        fg=_read_override(fg),
        cursor_colour=_read_override(cursor_colour),
        tabs=tabs,
        palette=palette,
        pwd=pwd,
        title=title,
        screens={},
        continuation=b"",
    )


def _read_override(packed: bytes) -> int:
    """The second of two colours, each behind a byte that says whether there is one: what the program set."""
    return rgb(*packed[5:8]) if packed[4] else DEFAULT


def _read_screen(data: bytes) -> tuple[int, ScreenState]:
    key, _, _, x, y, shape, flags, pen, _ = _SCREEN.unpack_from(data)
    rest = data[_SCREEN.size :]
    (charsets,) = _U16.unpack_from(rest)
    position = 14
    saved = None
    if rest[position]:
        saved_x, saved_y = _U16.unpack_from(rest, 15)[0], _U16.unpack_from(rest, 17)[0]
        saved = SavedCursor(saved_x, saved_y, rest[19:35], rest[35], _U16.unpack_from(rest, 36)[0])
        position += 23
    position += 1
    link, end = _read_link(rest, position) if rest[position] else (None, position + 1)
    _check_end(rest, end)
    return key, ScreenState(x, y, shape, flags, pen, charsets, saved, link)


def _read_link(data: bytes, position: int) -> tuple[Link, int]:
    """The hyperlink at ``position``, and where it ends."""
    kind = data[position]
    if kind == 1:
        (length,) = _U32.unpack_from(data, position + 5)
        end = position + 9 + length
        return Link(None, data[position + 9 : end]), end
    if kind != 2:
        raise BadSnapshot(f"a hyperlink of kind {kind}")
    (length,) = _U32.unpack_from(data, position + 1)
    id_end = position + 5 + length
    (uri_length,) = _U32.unpack_from(data, id_end)
    end = id_end + 4 + uri_length
    return Link(data[position + 5 : id_end], data[id_end + 4 : end]), end


def _read_page(data: bytes) -> list[Row]:
    _, row_count, style_count, link_count, *_ = _PAGE.unpack_from(data)
    position = first = _PAGE.size
    styles: dict[int, bytes] = {}
    for _ in range(style_count):
        styles[_U16.unpack_from(data, position)[0]] = data[position + 2 : position + 18]
        position += 18
    links: dict[int, Link] = {}
    for _ in range(link_count):
        (number,) = _U16.unpack_from(data, position)
        links[number], position = _read_link(data, position + 2)
    ids = Meanings(data[first:position], styles, links)
    rows: list[Row] = []
    for _ in range(row_count):
        flags = data[position]
        (count,) = _U16.unpack_from(data, position + 1)
        code, width = _WORDS[flags >> 4 & 3]
        position += 3
        more: dict[int, tuple[int, ...]] = {}
        rows.append(Row(flags & 15, _read_words(data[position : position + count * width], code, width), ids, more))
        position += count * width
    (count,) = _U32.unpack_from(data, position)
    position += 4
    for _ in range(count):
        y, x, length = _GRAPHEME.unpack_from(data, position)
        position += _GRAPHEME.size
        rows[int(y)].more[x] = _words(length, "I").unpack_from(data, position)
        position += 4 * length
    _check_end(data, position)
    return rows


def _check_end(data: bytes, position: int) -> None:
    """A part that was cut short says nothing by itself: what is taken of it is only shorter than it should be."""
    if position != len(data):
        raise BadSnapshot("a record that was cut")


@lru_cache(maxsize=_ROWS_KEPT)
def _draw_again(words: tuple[int, ...], ids: Meanings, wrapped: bool) -> Line:  # noqa: FBT001
    return Row(int(wrapped), words, ids, {}).draw()


@lru_cache(maxsize=_ROWS_KEPT)
def _read_words(data: bytes, code: str, width: int) -> tuple[int, ...]:
    words = _words(len(data) // width, code).unpack(data)
    # The engine leaves the two bits of the kind out where all are text.
    return tuple([word << 2 for word in words]) if width <= 2 else words


@lru_cache(maxsize=4096)
def _words(count: int, code: str) -> Struct:
    return Struct(f"<{count}{code}")


@lru_cache(maxsize=4096)
def read_style(packed: bytes) -> Style:
    """A style out of the engine's 16 bytes."""
    fg, bg, underline_colour, flags = _STYLE.unpack_from(packed)
    return Style(
        fg=_read_colour(fg),
        bg=_read_colour(bg),
        attributes=flags & 255,
        underline=flags >> 8 & 7,
        underline_colour=_read_colour(underline_colour),
    )


def _read_colour(packed: bytes) -> int:
    match packed[0]:
        case 1:
            return packed[1]
        case 2:
            return rgb(packed[1], packed[2], packed[3])
        case _:
            return DEFAULT
