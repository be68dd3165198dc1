"""What the engine's snapshots say, read without the engine."""

from __future__ import annotations

import random

import pytest

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.picture import DEFAULT, PLAIN, Attribute, Cursor, Line, Span, Style, rgb
from scrubjay.screen.snapshot import BadSnapshot, Link, Snapshot, cut_history, read_picture, read_size, read_snapshot
from tests.support.streams import random_stream
from tests.support.tables import every_row
from tests.support.tiers import sized

_COLS, _ROWS = 40, 10


def _snapshot(data: str | bytes, cols: int = _COLS, rows: int = _ROWS) -> bytes:
    terminal = Terminal(cols, rows)
    terminal.feed(data.encode() if isinstance(data, str) else data)
    snapshot = terminal.snapshot(history=True)
    terminal.close()
    assert snapshot is not None
    return snapshot


def _read(data: str | bytes, cols: int = _COLS, rows: int = _ROWS) -> Snapshot:
    return read_snapshot(_snapshot(data, cols, rows), history=1 << 30)


def _line(data: str | bytes, y: int = 0) -> Line:
    return _read(data).picture().lines[y]


def _style(sgr: str) -> Style:
    """What a character looks like after a sequence."""
    (span,) = _line(f"\x1b[{sgr}mx").spans
    assert (span.text, span.cells) == ("x", 1)
    return span.style


# Text.


def test_text_is_read_row_by_row() -> None:
    picture = _read("hello\r\nworld").picture()

    assert picture.text == "hello\nworld"
    assert picture.lines[0] == Line((Span("hello", 5),))
    assert picture.lines[2] == Line(())
    assert (picture.cols, picture.rows, len(picture.lines)) == (_COLS, _ROWS, _ROWS)


def test_cells_that_were_never_written_are_blanks_where_something_follows() -> None:
    assert _line("\x1b[5Gx\x1b[9Gy") == Line((Span("    x   y", 9),))


@every_row("character", ["é", "─", "日", "한", "🚀", "\U000e0021"])
def test_a_character_of_any_plane_is_itself(character: str) -> None:
    assert _line(f"a{character}b").text == f"a{character}b"


def test_a_wide_character_takes_two_cells() -> None:
    assert _line("日本x").spans == (Span("日本x", 5),)


def test_characters_that_join_stay_with_theirs() -> None:
    assert _line("e\u0301a\u0308\u0323!").spans == (Span("e\u0301a\u0308\u0323!", 3),)


def test_a_cluster_takes_the_cells_of_one_character_where_the_program_asked_for_it() -> None:
    assert _line("\x1b[?2027h👩‍👩‍👧🇩🇪❤️").spans == (Span("👩‍👩‍👧🇩🇪❤️", 6),)


def test_without_that_every_part_takes_its_own() -> None:
    assert _line("👩‍👩").spans == (Span("👩‍👩", 4),)


def test_a_long_line_continues_in_the_next_row() -> None:
    lines = _read("w" * (2 * _COLS + 5)).picture().lines

    assert [line.wrapped for line in lines[:4]] == [True, True, False, False]
    assert lines[2].text == "wwwww"


def test_a_wide_character_that_does_not_fit_leaves_a_blank() -> None:
    lines = _read("x" * (_COLS - 1) + "日").picture().lines

    assert lines[0] == Line((Span("x" * (_COLS - 1) + " ", _COLS),), wrapped=True)
    assert lines[1].text == "日"


@every_row("screen", ["\x1b[?1049h", "\x1b[?7l"])
@every_row("margins", ["", "\x1b[3;8r\x1b[?6h", "\x1b[?69h\x1b[5;30s\x1b[3;8r\x1b[?6h"])
def test_a_wide_character_that_a_narrower_screen_cuts_in_half_is_blank(screen: str, margins: str) -> None:
    terminal = Terminal(_COLS, _ROWS)
    terminal.feed(f"{screen}one\r\n{'x' * 20}日 cut\x1b[9;20H日 whole{margins}\x1b[4;6H\x1b[1m".encode())
    before = read_snapshot(terminal.snapshot(history=True) or b"").picture()
    terminal.resize(21, _ROWS)
    after = read_snapshot(terminal.snapshot(history=True) or b"").picture()
    terminal.feed(b"z")
    typed = read_snapshot(terminal.snapshot(history=True) or b"").picture()
    terminal.close()

    assert [line.text for line in after.lines[:2]] == ["one", "x" * 20]
    assert after.lines[8].text == before.lines[8].text[:20]
    assert (after.cursor, after.modes) == (before.cursor, before.modes)
    bold = [span for line in typed.lines for span in line.spans if span.style.attributes == Attribute.BOLD]
    assert [span.text for span in bold] == ["z"]


def test_no_control_character_is_ever_part_of_a_text() -> None:
    assert _line("a\x7fb").text == "a b"


def test_a_row_says_what_its_line_says_however_it_is_asked() -> None:
    rng = random.Random(11)
    for _ in range(sized(30, 100, 2000)):
        state = _read(random_stream(rng, _COLS, _ROWS, 2000))
        for row in (*state.screen.rows, *state.screen.history):
            assert row.text().rstrip() == row.line().text
            assert row.line() == row.draw()


def test_line_drawing_is_read_as_what_it_draws() -> None:
    assert _line("\x1b(0lqqk\x1b(Blqqk").text == "┌──┐lqqk"
    assert _line("\x1b)0\x0elqk\x0flqk").text == "┌─┐lqk"


def test_alignment_fills_the_screen() -> None:
    assert _read("\x1b#8").picture().text == "\n".join(["E" * _COLS] * _ROWS)


# Styles.


@every_row(
    ("sgr", "attribute"),
    [
        ("1", Attribute.BOLD),
        ("2", Attribute.FAINT),
        ("3", Attribute.ITALIC),
        ("5", Attribute.BLINK),
        ("7", Attribute.INVERSE),
        ("8", Attribute.INVISIBLE),
        ("9", Attribute.STRIKETHROUGH),
        ("53", Attribute.OVERLINE),
        ("1;3;9", Attribute.BOLD | Attribute.ITALIC | Attribute.STRIKETHROUGH),
        ("1;22", Attribute(0)),
    ],
)
def test_attributes(sgr: str, attribute: Attribute) -> None:
    assert _style(sgr) == Style(attributes=attribute)


@every_row(("sgr", "kind"), [("4", 1), ("4:1", 1), ("21", 2), ("4:3", 3), ("4:4", 4), ("4:5", 5), ("4;24", 0)])
def test_underlines(sgr: str, kind: int) -> None:
    assert _style(sgr) == Style(underline=kind)


@every_row(
    ("sgr", "style"),
    [
        ("31", Style(fg=1)),
        ("42", Style(bg=2)),
        ("97;103", Style(fg=15, bg=11)),
        ("38;5;200;48;5;17", Style(fg=200, bg=17)),
        ("38;2;1;2;3", Style(fg=rgb(1, 2, 3))),
        ("48:2::4:5:6", Style(bg=rgb(4, 5, 6))),
        ("4;58:5:9", Style(underline=1, underline_colour=9)),
        ("4:3;58:2::7:8:9", Style(underline=3, underline_colour=rgb(7, 8, 9))),
        ("31;42;39;49", PLAIN),
    ],
)
def test_colours(sgr: str, style: Style) -> None:
    assert _style(sgr) == style


def test_spans_end_where_the_look_changes() -> None:
    assert _line("\x1b[31mab\x1b[1mc\x1b[md").spans == (
        Span("ab", 2, Style(fg=1)),
        Span("c", 1, Style(fg=1, attributes=Attribute.BOLD)),
        Span("d", 1),
    )


@pytest.mark.parametrize(("sgr", "bg"), [("44", 4), ("48;2;1;2;3", rgb(1, 2, 3))])
def test_erased_cells_have_the_background_they_were_erased_with(sgr: str, bg: int) -> None:
    assert _line(f"ab\x1b[{sgr}m\x1b[K").spans == (Span("ab", 2), Span(" " * (_COLS - 2), _COLS - 2, Style(bg=bg)))


def test_blanks_at_the_end_of_a_row_are_left_out_unless_they_show_something() -> None:
    assert _line("ab    ").text == "ab"
    assert _line("ab\x1b[4m  ").spans == (Span("ab", 2), Span("  ", 2, Style(underline=1)))


# Links.


def test_links_with_and_without_an_id() -> None:
    data = "\x1b]8;id=q;http://a\x07one\x1b]8;;\x07 \x1b]8;;http://b\x1b\\two\x1b]8;;\x1b\\!"

    assert _line(data).spans == (
        Span("one", 3, link="http://a"),
        Span(" ", 1),
        Span("two", 3, link="http://b"),
        Span("!", 1),
    )


def test_a_link_that_is_still_open() -> None:
    assert _read("\x1b]8;id=q;http://a.b/c\x07linked").screen.link == Link(b"q", b"http://a.b/c")
    assert _read("\x1b]8;;http://a.b/c\x07linked").screen.link == Link(None, b"http://a.b/c")
    assert _read("\x1b]8;;http://a.b/c\x07linked\x1b]8;;\x07").screen.link is None


def test_a_link_that_is_not_text() -> None:
    assert _line(b"\x1b]8;;http://\xff\xfe\x07x").spans[0].link == "http://\ufffd\ufffd"


# The cursor.


def test_the_cursor_is_where_the_next_character_goes() -> None:
    assert _read("abc\x1b[7;13H").picture().cursor == Cursor(12, 6, visible=True, shape="block")


def test_a_hidden_cursor() -> None:
    assert not _read("\x1b[?25l").picture().cursor.visible


@every_row(
    ("number", "shape"), [(1, "block"), (2, "block"), (3, "underline"), (4, "underline"), (5, "bar"), (6, "bar")]
)
def test_the_shape_of_the_cursor(number: int, shape: str) -> None:
    state = _read(f"\x1b[{number} q")

    assert state.picture().cursor.shape == shape
    assert not state.cursor_is_default
    assert state.has_mode(12) == bool(number % 2)


@pytest.mark.parametrize("end", ["x", "日"])
def test_a_cursor_about_to_wrap_stays_in_the_last_column(end: str) -> None:
    width = 1 if end == "x" else 2
    state = _read("x" * (_COLS - width) + end)

    assert state.picture().cursor[:2] == (_COLS - 1, 0)
    assert state.screen.cursor_flags & 1


def test_a_saved_cursor() -> None:
    saved = _read("\x1b[5;6H\x1b[1;31m\x1b(0\x1b7\x1b[H\x1b[m\x1b(B").screen.saved

    assert saved is not None
    assert (saved.x, saved.y, saved.flags) == (5, 4, 0)
    assert saved.style[0:2] == b"\x01\x01"
    assert saved.charsets & 3 == 3


def test_a_cursor_that_was_not_saved() -> None:
    assert _read("x").screen.saved is None


def test_what_is_written_next_looks_like_this() -> None:
    state = _read("\x1b[31m")

    assert any(state.screen.pen)
    assert not any(_read("\x1b[31m\x1b[m").screen.pen)


# The terminal.


def test_titles() -> None:
    assert _read("\x1b]2;A title ✓\x07").picture().title == "A title ✓"
    assert _read("\x1b]0;one\x07\x1b]2;two\x1b\\").picture().title == "two"


def test_the_directory() -> None:
    assert _read("\x1b]7;file:///home/x\x07").picture().cwd == "file:///home/x"


def test_colours_of_the_palette_that_the_program_changed() -> None:
    picture = _read("\x1b]4;1;rgb:12/34/56\x07\x1b]4;200;#abcdef\x07\x1b]4;3;#111111\x07\x1b]104;3\x07").picture()

    assert picture.palette == {1: rgb(0x12, 0x34, 0x56), 200: rgb(0xAB, 0xCD, 0xEF)}


def test_default_colours_that_the_program_changed() -> None:
    state = _read("\x1b]10;#112233\x07\x1b]11;#445566\x07\x1b]12;#778899\x07")

    assert (state.picture().fg, state.picture().bg) == (rgb(0x11, 0x22, 0x33), rgb(0x44, 0x55, 0x66))
    assert state.cursor_colour == rgb(0x77, 0x88, 0x99)
    assert (_read("").fg, _read("").bg, _read("").cursor_colour) == (DEFAULT, DEFAULT, DEFAULT)


@every_row(
    "number",
    [1, 5, 6, 45, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1045, 2004, 2026, 2027, 2031, 2048],
)
def test_private_modes(number: int) -> None:
    state = _read(f"\x1b[?{number}h")

    assert state.has_mode(number)
    assert number in state.picture().modes
    assert not _read(f"\x1b[?{number}h\x1b[?{number}l").has_mode(number)


def test_modes_that_are_on_from_the_start() -> None:
    assert {7, 25} <= _read("").picture().modes
    assert not {7, 25} & _read("\x1b[?7l\x1b[?25l").picture().modes


@pytest.mark.parametrize("number", [4, 20])
def test_ansi_modes(number: int) -> None:
    assert _read(f"\x1b[{number}h").has_mode(number, ansi=True)
    assert not _read("").has_mode(number, ansi=True)


def test_margins() -> None:
    assert (_read("").top, _read("").bottom) == (0, _ROWS - 1)
    assert (_read("\x1b[3;7r").top, _read("\x1b[3;7r").bottom) == (2, 6)


def test_tab_stops() -> None:
    tabs = _read("\x1b[3g\x1b[5G\x1bH\x1b[17G\x1bH\r").tabs

    assert [x for x in range(_COLS) if tabs[x // 8] >> x % 8 & 1] == [4, 16]


@every_row(
    ("data", "slot", "in_use"),
    [("\x1b(0", 0, 0), ("\x1b)0\x0e", 1, 1), ("\x1b*0\x1bn", 2, 2), ("\x1b+0\x1bo", 3, 3)],
)
def test_character_sets(data: str, slot: int, in_use: int) -> None:
    charsets = _read(data).screen.charsets

    assert charsets >> 2 * slot & 3 == 3
    assert charsets >> 8 & 3 == in_use


# The other screen, and what scrolled off.


@every_row("number", [47, 1047, 1049])
def test_the_screen_below_the_alternate_one_is_kept(number: int) -> None:
    state = _read(f"below\x1b[?{number}h\x1b[2J\x1b[Habove")

    assert state.picture().alternate
    assert state.picture().text == "above"
    assert "".join(line.text for line in (row.line() for row in state.screens[0].rows)) == "below"


def test_a_screen_that_was_left_is_not_shown() -> None:
    picture = _read("p\x1b[?1049hALT\x1b[?1049lq").picture()

    assert not picture.alternate
    assert picture.text == "pq"


def test_what_scrolled_off_is_there_as_far_as_it_is_asked_for() -> None:
    snapshot = _snapshot("\r\n".join(f"line {number}" for number in range(500)))

    assert read_picture(snapshot).history == ()
    assert [line.text for line in read_picture(snapshot, history=3).history] == ["line 487", "line 488", "line 489"]
    assert [line.text for line in read_picture(snapshot, history=10_000).history] == [
        f"line {number}" for number in range(490)
    ]


def test_what_scrolled_off_keeps_its_looks() -> None:
    data = "".join(f"\x1b[38;5;{n % 256}m\x1b]8;;http://l/{n}\x07line {n}\x1b]8;;\x07\r\n" for n in range(2000))

    lines = read_picture(_snapshot(data), history=10_000).history

    assert lines[-1].spans == (Span("line 1990", 9, Style(fg=1990 % 256), "http://l/1990"),)
    assert lines[0].spans == (Span("line 0", 6, Style(fg=0), "http://l/0"),)


def test_a_snapshot_without_history_shows_the_same_screen() -> None:
    snapshot = _snapshot("\r\n".join(f"line {number}" for number in range(500)))
    screen = cut_history(snapshot)

    assert len(screen) < len(snapshot)
    assert read_picture(screen) == read_picture(snapshot)


def test_the_size_is_known_without_reading_the_rest() -> None:
    assert read_size(_snapshot("x", 123, 45)) == (123, 45)


# Unfinished sequences.


@every_row(
    "unfinished",
    [
        b"\x1b",
        b"\x1b[",
        b"\x1b[38;2;1",
        b"\x1b[4:",
        b"\x1b[5 ",
        b"\x1b]2;half a ti",
        b"\x1b]8;id=x;http://exa",
        b"\x1b]52;c;aGVsb",
        b"\x1bP$q",
        b"\x1b_Gi=1,a=T,f=24,s=1,v=1;AA",
        b"\x1bXabc",
        b"\xf0\x9f\x91",
        b"\xe6\x97",
    ],
)
def test_an_unfinished_sequence_is_kept_as_it_came(unfinished: bytes) -> None:
    state = _read(b"ab" + unfinished)

    assert state.continuation == unfinished
    assert state.picture().text == "ab"


def test_nothing_is_unfinished_at_the_end_of_a_sequence() -> None:
    assert _read("ab\x1b[31m").continuation == b""


# What is not a snapshot.


def _rich_snapshot() -> bytes:
    stream = random_stream(random.Random("rich"), 30, 6, 3000) + "e\u0301 日 \x1b]8;;http://a\x07l\x1b[31".encode()
    return _snapshot(stream + b"\r\n" * 40 + stream, 30, 6)


def test_every_truncation_is_bad() -> None:
    snapshot = _rich_snapshot()
    ready = len(cut_history(snapshot))

    for cut in range(len(snapshot)):
        if cut == ready:
            continue  # that is a snapshot without history
        with pytest.raises(BadSnapshot):
            read_picture(snapshot[:cut], history=1000)


def test_a_screen_is_read_without_what_comes_after_it() -> None:
    snapshot = _rich_snapshot()
    ready = len(cut_history(snapshot))

    for cut in range(ready, len(snapshot), 97):
        assert read_picture(snapshot[:cut]) == read_picture(snapshot)


@every_row("garbage", [b"", b"GHOSTSNP", b"GHOSTSNP\x01\x00", b"GHOSTSNP\x02\x00" + bytes(100), bytes(1000), b"x" * 50])
def test_garbage_is_bad(garbage: bytes) -> None:
    for read in (read_snapshot, read_picture, read_size, cut_history):
        with pytest.raises(BadSnapshot):
            read(garbage)


def test_a_damaged_snapshot_is_read_or_bad_and_nothing_else() -> None:
    whole = _rich_snapshot()
    rng = random.Random("damage")
    bad = 0
    for _ in range(sized(600, 3000, 100_000)):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 5))):
            at = rng.randrange(10, len(damaged))
            damaged[at] = rng.choice((0, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            at = rng.randrange(10, len(damaged))
            del damaged[at : at + rng.randrange(1, 20)]
        try:
            read_picture(bytes(damaged), history=1000)
        except BadSnapshot:
            bad += 1
    assert bad
