"""A screen as the bytes that rebuild it in a fresh xterm.js of the same size.

Everything that decides how later output looks is rebuilt, so that the recorded bytes may follow: text, styles,
links, both screens, cursors, margins, tab stops, modes, and the escape sequence that was unfinished. Nothing in
the bytes asks or acts: no queries, no clipboard, no reports. docs/screen-differences.md says what is not rebuilt,
because xterm.js does not have it. Pure.
"""

from __future__ import annotations

import re

from scrubjay.screen.pen import Pen, inert, is_ascii, is_cluster
from scrubjay.screen.picture import DEFAULT, split_rgb
from scrubjay.screen.snapshot import MODES, WIDE, WIDE_TAIL, Row, ScreenState, Snapshot

# After the reset, what xterm.js keeps through it: newline mode, a hidden cursor, colours.
_BEGIN = "\x1bc\x1b[20l\x1b[?25h\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"

# Not focus events and size or colour reports, which a terminal answers; not synchronised output, which it would
# wait to see the end of; not the screens, the shape and the visibility of the cursor, which are rebuilt by themselves.
_MODES = frozenset({(20, True)}) | {
    (number, False) for number in (1, 5, 9, 45, 66, 1000, 1002, 1003, 1005, 1006, 1015, 1016, 1045, 2004)
}
_LATE_MODES = frozenset({(4, True), (7, False), (2027, False)})  # they change how the cursor's cell would be drawn
KEPT_MODES = _MODES | _LATE_MODES | {(6, False), (12, False), (25, False)}

# Strings, of which the commands that set something of the screen are carried on. Any other becomes one that no
# terminal knows: it ends where it would have, with the same terminator, and does nothing.
_STRING = re.compile(rb"\x1b(?:\](?P<command>\d+);|[PX^_])")
_OSC_KEPT = frozenset({0, 1, 2, 4, 8, 10, 11, 12, 104, 110, 111, 112})
_UNKNOWN_OSC = b"\x1b]7777777;"
_SAVED_PENDING, _SAVED_ORIGIN = 2, 4  # flags of a saved cursor


def encode_vt(state: Snapshot, *, history: int = 0, links: bool = True) -> bytes:
    """The bytes, with up to ``history`` rows of what scrolled off the primary screen."""
    pen = Pen(state.cols, links=links)
    primary, active = state.screens[0], state.screen
    pen.write(_BEGIN, _colours(state), f"\x1b]2;{inert(state.title)}\x1b\\")
    tabs = _tabs(state)
    pen.write(tabs)
    pen.draw(primary.history[-history:] if history else [], primary.rows)
    _save_cursor(pen, primary)
    if active is not primary:
        pen.set_style(None)
        pen.write("\x1b[?1047h\x1b[H", tabs)  # xterm.js has tab stops for each screen
        pen.draw([], active.rows)
        _save_cursor(pen, active)
    if (state.top, state.bottom) != (0, state.rows - 1):
        pen.write(f"\x1b[{state.top + 1};{state.bottom + 1}r")
    pen.write(_modes(state, _MODES))
    _finish(pen, state, active)
    return pen.encode() + _unfinished(state.continuation, links=links)


def _save_cursor(pen: Pen, screen: ScreenState) -> None:
    """Let the terminal keep what it is to restore on this screen."""
    saved = screen.saved
    if saved is None:
        return
    if saved.flags & _SAVED_ORIGIN:
        pen.write("\x1b[?6h")
    x, y = min(saved.x, pen.cols - 1), min(saved.y, len(screen.rows) - 1)
    pen.place(screen, x, y, 0, pending=bool(saved.flags & _SAVED_PENDING))
    pen.set_link(None)
    pen.set_style(_packed(saved.style))
    pen.set_charsets(saved.charsets)
    pen.write("\x1b7")
    if saved.flags & _SAVED_ORIGIN:
        pen.write("\x1b[?6l")
    pen.set_charsets(0)


def _finish(pen: Pen, state: Snapshot, screen: ScreenState) -> None:
    """Put the cursor in its place, ready to go on."""
    top = 0
    if state.has_mode(6):
        pen.write("\x1b[?6h")
        top = state.top
    # Written at last, so that xterm.js lets what comes next join it.
    target = _written_last(screen, state)
    if target is None:
        pen.place(screen, screen.cursor_x, screen.cursor_y, top, pending=_is_pending(screen, state))
    pen.set_style(_packed(screen.pen))
    pen.set_link(screen.link)
    pen.set_charsets(screen.charsets)
    pen.write(_cursor_shape(state, screen), "" if state.has_mode(25) else "\x1b[?25l", _modes(state, _LATE_MODES))
    if target is not None:
        pen.draw_again(screen.rows[screen.cursor_y], target, screen.cursor_y - top)
    if single_shift := screen.charsets >> 12 & 7:
        pen.write("\x1bN" if single_shift == 3 else "\x1bO" if single_shift == 4 else "")


def _written_last(screen: ScreenState, state: Snapshot) -> int | None:
    """The column of the character before the cursor, if it can be written again as the pen is now."""
    row = screen.rows[screen.cursor_y]
    x = screen.cursor_x if _is_pending(screen, state) else screen.cursor_x - 1
    if not 0 <= x < len(row.words) or row.words[x] >> 42 & 3 == WIDE:
        return None
    if row.words[x] >> 42 & 3 == WIDE_TAIL:
        x -= 1
    cell = row.cells()[x]
    if cell.kind >= 2 or not cell.content or is_cluster(row, x):
        return None
    if cell.style != _packed(screen.pen) or cell.link != screen.link:
        return None
    changes = state.has_mode(4, ansi=True) or (state.has_mode(2027) and _may_join(row, x))
    return x if is_ascii(screen.charsets) and not changes else None


def _is_pending(screen: ScreenState, state: Snapshot) -> bool:
    """Whether the next character wraps."""
    return bool(screen.cursor_flags & 1) and screen.cursor_x == state.cols - 1


def _may_join(row: Row, x: int) -> bool:
    """Whether a cell would become another in mode 2027, or part of the one to its left."""
    return x in row.more or (x > 0 and row.words[x - 1] >> 2 & 0x1FFFFF >= 0x80) or x - 2 in row.more


def _packed(style: bytes) -> bytes | None:
    return style if any(style) else None


def _colours(state: Snapshot) -> str:
    parts = [f"4;{number};{_x_colour(colour)}" for number, colour in state.palette.items()]
    dynamic = ((10, state.fg), (11, state.bg), (12, state.cursor_colour))
    parts += [f"{number};{_x_colour(colour)}" for number, colour in dynamic if colour != DEFAULT]
    return "".join([f"\x1b]{part}\x1b\\" for part in parts])


def _x_colour(colour: int) -> str:
    return "rgb:{:02x}/{:02x}/{:02x}".format(*split_rgb(colour))


def _tabs(state: Snapshot) -> str:
    stops = [x for x in range(state.cols) if state.tabs[x // 8] >> x % 8 & 1]
    if stops == list(range(8, state.cols, 8)):
        return ""
    return "\x1b[3g" + "".join([f"\x1b[{x + 1}G\x1bH" for x in stops]) + "\r"


def _modes(state: Snapshot, wanted: frozenset[tuple[int, bool]]) -> str:
    """What is not as it is in a fresh terminal."""
    return "".join(
        [
            f"\x1b[{'' if ansi else '?'}{number}{'h' if state.modes >> bit & 1 else 'l'}"
            for bit, (number, ansi) in enumerate(MODES)
            if (number, ansi) in wanted and (state.modes ^ state.default_modes) >> bit & 1
        ]
    )


def _cursor_shape(state: Snapshot, screen: ScreenState) -> str:
    if state.cursor_is_default:
        return _modes(state, frozenset({(12, False)}))
    return f"\x1b[{(5, 1, 3, 1)[screen.cursor_shape & 3] + (not state.has_mode(12))} q"


def _unfinished(continuation: bytes, *, links: bool) -> bytes:
    """The sequence that later bytes go on with; without its body if it would act at its end, or draw nothing."""
    start = _STRING.match(continuation)
    if start is None:
        return continuation
    command = int(start["command"] or -1)
    if command in _OSC_KEPT and (links or command != 8) and (command == 8 or b"?" not in continuation):
        return continuation
    return _UNKNOWN_OSC if start["command"] else start[0] + b"z"
