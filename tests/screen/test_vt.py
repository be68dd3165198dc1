"""A keyframe as VT bytes, written to another terminal of the same engine: test_xterm_judge.py has the other judge."""

from __future__ import annotations

import random

import pytest

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.picture import Picture
from scrubjay.screen.snapshot import WIDE, WIDE_HEAD, Row, ScreenState, Snapshot, read_snapshot
from scrubjay.screen.vt import KEPT_MODES, encode_vt
from tests.screen.xterm import see
from tests.support.streams import random_stream
from tests.support.tables import every_row
from tests.support.tiers import sized

_SIZES = ((80, 24), (20, 6), (5, 3), (132, 43), (40, 10))
_ACTS = {"reply", "clipboard", "notification", "bell"}
_SHOWN_MODES = {number for number, ansi in KEPT_MODES if not ansi}

# What xterm.js does not have, so that no bytes would rebuild it: cells that an erase leaves alone, margins left and
# right, marks of prompts, an alternate screen that keeps its content while it is left, modes that were saved. And REP
# behind a movement.
_NOT_IN_XTERM = frozenset({"protect", "side margins", "prompt", "old alternate", "saved mode", "repeat"})


def _state(terminal: Terminal) -> Snapshot | None:
    snapshot = terminal.snapshot(history=True)
    return None if snapshot is None else read_snapshot(snapshot, history=1 << 30)


def _show(data: bytes, cols: int, rows: int) -> Snapshot:
    terminal = Terminal(cols, rows)
    terminal.feed(data)
    state = _state(terminal)
    terminal.close()
    assert state is not None
    return state


def _can_be_said(state: Snapshot) -> bool:
    """Whether VT can express a state; some of these come about by bytes that are broken off."""
    left_alternate = state.active == 0 and 1 in state.screens  # whose pen fills it when it is entered again
    return not left_alternate and all(_can_be_drawn(screen, state.cols) for screen in state.screens.values())


def _can_be_drawn(screen: ScreenState, cols: int) -> bool:
    if screen.rows[-1].wrapped:
        return False  # there is no row that it could continue in
    if screen.cursor_flags & 1 and screen.cursor_x < cols - 1:
        return False  # about to wrap in the middle of a row, where CBT left it
    if screen.cursor_flags & 2:
        return False  # protects what is written
    saved = screen.saved
    if saved is not None and (saved.flags & 1 or saved.charsets >> 12 or (saved.flags & 2 and saved.x < cols - 1)):
        return False  # the same, or a single shift, was saved
    for row, following in zip(screen.rows, [*screen.rows[1:], None], strict=True):
        for word in row.words:
            width, code = word >> 42 & 3, word >> 2 & 0x1FFFFF
            if word >> 44 & 1:
                return False  # protected
            if width == WIDE and code <= 0x20:
                return False  # what a character set cannot show
            if width == WIDE_HEAD and not (following and _begins_with_its_character(following, row)):
                return False  # too narrow for a wide character that is not there any more
    return True


def _begins_with_its_character(following: Row, row: Row) -> bool:
    head, first = row.cells()[-1], (following.cells() or row.cells())[0]
    return first.width == WIDE and (first.style, first.link) == (head.style, head.link)


def _seen(state: Snapshot, *, shape: bool = True) -> list[object]:
    """Everything of a state that is to be rebuilt."""
    picture = state.picture()
    screen, saved = state.screen, state.screen.saved
    return [
        see(picture),
        picture.cursor.shape if shape else None,
        picture.title,
        picture.modes & _SHOWN_MODES,
        (picture.palette, picture.fg, picture.bg, state.cursor_colour),
        (state.top, state.bottom, state.tabs, state.has_mode(4, ansi=True), state.has_mode(20, ansi=True)),
        (screen.pen, screen.link, screen.cursor_flags & 1),
        saved and (saved.x, saved.y, saved.style, saved.flags),
        see(_primary(state)).rows,
    ]


def _primary(state: Snapshot) -> Picture:
    shown, state.active = state.active, 0
    try:
        return state.picture()
    finally:
        state.active = shown


def test_output_goes_on_after_a_keyframe_as_without_it() -> None:
    said = 0
    cases = sized(150, 1000, 50_000)
    for number in range(cases):
        rng = random.Random(f"keyframe {number}")
        cols, rows = rng.choice(_SIZES)
        stream = random_stream(rng, cols, rows, rng.choice((20, 100, 500, 2000)), leave_out=_NOT_IN_XTERM)
        cut = rng.randrange(len(stream) + 1)
        first, second = Terminal(cols, rows), Terminal(cols, rows)

        first.feed(stream[:cut])
        state = _state(first)
        if state is not None and _can_be_said(state):
            second.feed(encode_vt(state))
            rebuilt = _state(second)
            assert rebuilt is not None
            assert _seen(rebuilt) == _seen(state), number

            first.feed(stream[cut:])
            second.feed(stream[cut:])
            one, other = _state(first), _state(second)
            if one is not None and other is not None:
                said += 1
                # The shape of the cursor is each screen's own, but the terminal's in xterm.js.
                assert _seen(other, shape=not state.active) == _seen(one, shape=not state.active), number

        first.close()
        second.close()
    assert said > 0.94 * cases


def test_history_is_there_as_far_as_it_was_asked_for() -> None:
    lines = [f"\x1b[{31 + number % 6}mline {number} " + "w" * (number % 50) for number in range(60)]
    state = _show("\r\n".join(lines).encode(), 20, 5)
    for asked in (0, 1, 3, 4, 5, 30, 1000):
        rebuilt = _show(encode_vt(state, history=asked), 20, 5)

        assert see(rebuilt.picture()) == see(state.picture())
        assert rebuilt.picture(1000).history == state.picture(asked).history


@pytest.mark.parametrize("text", ["x" * 25, "x" * 20 + "日"])
def test_a_row_that_scrolls_in_does_not_take_a_background(text: str) -> None:
    coloured = f"\x1b[H\x1b[44m{text}\x1b[m\x1b[5;1H".encode()
    state = _show(b"\r\n" * 10 + coloured + b"\r\n" * 10 + b"end", 21, 5)

    rebuilt = _show(encode_vt(state, history=100), 21, 5)

    assert see(rebuilt.picture()) == see(state.picture())
    assert rebuilt.picture(100).history == state.picture(100).history


def test_a_used_terminal_is_made_fresh() -> None:
    state = _show(b"one", 40, 10)
    used = random_stream(random.Random("used"), 40, 10, 5000) + b"\x1b\\\x1b]4;1;#123456\a\x1b]11;#abcdef\a\x1b[20h"

    rebuilt = _show(used + encode_vt(state), 40, 10)

    assert _seen(rebuilt) == _seen(state)


def test_nothing_in_a_keyframe_acts() -> None:
    for number in range(sized(60, 300, 5000)):
        rng = random.Random(f"acts {number}")
        first, second = Terminal(40, 10), Terminal(40, 10)
        second.listen()
        first.feed(random_stream(rng, 40, 10, rng.randrange(2000)))
        state = _state(first)
        if state is not None:
            second.feed(encode_vt(state))
            assert not {effect.kind for effect in second.effects()} & _ACTS, number
        first.close()
        second.close()


@every_row(
    "acting",
    [
        b"\x1b]52;c;aGVsbG8=",
        b"\x1b]9;a notification",
        b"\x1b]777;notify;a;b",
        b"\x1b]11;?",
        b"\x1b]4;1;?",
        b"\x1bP$qm",
        b"\x1bP+q544e",
        b"\x1b_Gi=1,a=q,s=1,v=1,f=24;AAAA",
        b"\x1b^message",
        b"\x1bXstring",
    ],
)
@every_row("end", [b"\x1b\\", b"\a\x1b\\"])
def test_an_unfinished_sequence_does_nothing_when_it_ends(acting: bytes, end: bytes) -> None:
    terminal = Terminal(40, 10)
    terminal.listen()
    terminal.feed(encode_vt(_show(acting, 40, 10)))
    terminal.effects()

    terminal.feed(end + b"x")

    state = _state(terminal)
    assert state is not None
    assert state.picture().text == "x"
    assert not {effect.kind for effect in terminal.effects()} & _ACTS
    terminal.close()


def test_links_can_be_left_out() -> None:
    linked = b"\x1b]8;id=1;https://example.org/a\x1b\\here\x1b]8;;\x1b\\ and \x1b]8;;https://example.org/b\x1b\\there"
    for data in (linked, linked + b"\x1b]8;;https://exam"):
        state = _show(data, 40, 10)

        assert b"https://" in encode_vt(state)
        assert b"https://" not in encode_vt(state, links=False)
        assert _show(encode_vt(state, links=False), 40, 10).picture().text == "here and there"


def test_no_title_and_no_link_can_break_out() -> None:
    state = _show(b"text", 40, 10)
    state.title = b"a\x1b\\\x1b[6n\x07\xc2\x9c\xc2\x9b6n"
    state.screen.link = _show(b"\x1b]8;;https://example.org\a", 40, 10).screen.link
    assert state.screen.link is not None
    state.screen.link = state.screen.link._replace(uri=b"https://a\x1b\\\x1b[c\x07\xc2\x9bc", id=b"i\x1b]52;c;eA==\x07")

    terminal = Terminal(40, 10)
    terminal.listen()
    terminal.feed(encode_vt(state))

    assert not {effect.kind for effect in terminal.effects()} & _ACTS
    terminal.close()


def test_a_keyframe_of_a_full_screen_is_small() -> None:
    state = _show(b"".join(b"\x1b[%d;1H\x1b[3%dm" % (y, y % 8) + b"x" * 80 for y in range(1, 25)), 80, 24)

    assert len(encode_vt(state)) < 24 * (80 + 24) + 100
