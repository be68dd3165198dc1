"""Our screens beside those of xterm.js, which knows nothing of our engine but its table of widths.

docs/screen-differences.md explains every class of difference and says how often it occurs; it is checked here.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Literal

import pytest

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.picture import Style
from scrubjay.screen.snapshot import read_snapshot
from scrubjay.screen.vt import encode_vt
from tests.screen.xterm import LOOKS, Look, Row, Seen, Stream, choose_instants, join, judge
from tests.support.corpus import recordings
from tests.support.paths import DOCS
from tests.support.streams import random_stream
from tests.support.tables import every_row
from tests.support.tiers import sized

pytestmark = pytest.mark.needs("node", "npm packages")

_DOCS = DOCS / "screen-differences.md"
_ONE_OF = sized(8, 1, 1)  # recordings; the documented numbers are those of all
_MOST_DIFFERING = 0.005  # of the rows
_FRESH_LINE = re.compile(rb"\x1b\]133;A")
_VARIATION = str.maketrans("", "", "\ufe0e\ufe0f")

Way = Literal["whole", "rebuilt"]
_WAYS: tuple[Way, Way] = ("whole", "rebuilt")


@pytest.fixture(scope="module")
def looks() -> list[Look]:
    """Recordings at their instants."""
    return list(judge((stream, choose_instants(stream)) for stream in map(join, recordings(one_of=_ONE_OF))))


def test_recordings_look_as_in_xterm_js(looks: list[Look]) -> None:
    rows = {way: sum(len(look.ours.rows) for look in looks) for way in _WAYS}
    classes: Counter[tuple[str, Way]] = Counter()
    for look in looks:
        for way in _WAYS:
            classes.update((_explain(look, way, y), way) for y in _differing(look, way))

    assert len(looks) == LOOKS * -(-129 // _ONE_OF)
    for way in _WAYS:
        differing = sum(count for (_, of), count in classes.items() if of == way)
        assert differing <= _MOST_DIFFERING * rows[way]
    found = {name: (classes[name, "whole"], classes[name, "rebuilt"]) for name in {name for name, _ in classes}}
    if _ONE_OF == 1:
        assert found == _documented()
    assert found.keys() <= _documented().keys()


def test_every_screen_is_the_one_that_xterm_js_has_active(looks: list[Look]) -> None:
    for look in looks:
        assert look.ours.alternate == look.whole.alternate == look.rebuilt.alternate


def test_rows_that_wrapped_are_those_of_xterm_js(looks: list[Look]) -> None:
    for look in looks:
        assert look.rebuilt.wrapped in (look.ours.wrapped, look.whole.wrapped)


def test_a_keyframe_made_right_after_a_resize_is_exact() -> None:
    resized = [stream for stream in map(join, recordings()) if len(stream.sizes) > 1]

    looks = list(judge((stream, [(offset, offset) for offset, _, _ in stream.sizes[1:]]) for stream in resized))

    assert len(looks) == 6
    for look in looks:
        assert look.rebuilt.rows == look.ours.rows
        assert look.rebuilt.cursor == look.ours.cursor


# What came before a keyframe, and what comes after it that shows whether everything was rebuilt.
_STATES = {
    "text": (b"hello\r\nworld", b"!"),
    "styles": (b"\x1b[1;2;3;4;5;7;8;9;53;31;42mx", b"y\x1b[mz"),
    "underlines": (b"\x1b[4:2ma\x1b[4:3mb\x1b[4:4mc\x1b[4:5;58:2::1:2:3md\x1b[4;58:5:9me", b"f"),
    "colours": (b"\x1b[97;104ma\x1b[38;5;200;48;5;17mb\x1b[38;2;1;2;3;48;2;4;5;6mc", b"d"),
    "erased with a background": (b"\x1b[44m\x1b[2J\x1b[3;5H\x1b[46m\x1b[4Xab", b"\x1b[K"),
    "scrolled with a background": (b"\x1b[45m\x1b[10;1H\n\n", b"\n\x1b[Mx"),
    "about to wrap": (b"x" * 40, b"y"),
    "about to wrap behind a wide character": (b"x" * 38 + "日".encode(), b"y"),
    "about to wrap in another style": (b"x" * 40 + b"\x1b[31m", b"y"),
    "wrapped rows": (b"w" * 130, b"\x1b[3;1H\b"),
    "a wide character that did not fit": (b"x" * 39 + "日".encode(), "本".encode()),
    "a blank at the start of a wrapped row": (b"x" * 44 + b"\x1b[2;1H\x1b[X", b"\x1b[2;3Hz"),
    "a wrapped blank": (b"\x1b[44m" + b" " * 45, b"z"),
    "wide characters": ("日本語 한글 🚀✅".encode(), "表".encode()),
    "joined characters": ("e\u0301 a\u0308\u0323 ☀\ufe0f ".encode(), "o\u0302".encode()),
    "a character that another joins": (b"e", "\u0301!".encode()),
    "a wide character that another joins": ("日".encode(), "\u0308!".encode()),
    "a character at the edge that another joins": (b"x" * 40, "\u0301y".encode()),
    "cursor": (b"abc\x1b[7;13H", b"x"),
    "hidden cursor": (b"\x1b[?25l", b""),
    "saved cursor": (b"\x1b[5;6H\x1b[1;31m\x1b7\x1b[H\x1b[m", b"a\x1b8b"),
    "saved character set": (b"\x1b[5;6H\x1b(0\x1b7\x1b[H\x1b(B", b"q\x1b8q"),
    "insert mode": (b"abc\x1b[4h\x1b[1;2H", b"xy"),
    "insert mode about to wrap": (b"x" * 40 + b"\x1b[4h", b"y"),
    "no wrapping": (b"\x1b[?7l" + b"x" * 50, b"yz"),
    "wrapping backwards": (b"\x1b[?45h" + b"x" * 41, b"\b\b\bz"),
    "newline mode": (b"\x1b[20h\x1b[3;5H", b"a\nb"),
    "margins": (b"\x1b[3;7r\x1b[7;1H", b"a\nb\nc"),
    "origin": (b"\x1b[3;7r\x1b[?6h\x1b[2;2H", b"a\x1b[Hb\x1b[99;99Hc"),
    "tab stops": (b"\x1b[3g\x1b[5G\x1bH\x1b[17G\x1bH\r", b"\ta\tb\tc"),
    "line drawing": (b"\x1b(0lqqk", b"x\x1b(Bx"),
    "line drawing in G1": (b"\x1b)0\x0elqk", b"x\x0fx"),
    "line drawing in G2": (b"\x1b*0\x1bn", b"x"),
    "pounds": (b"\x1b(A", b"#"),
    "alternate screen": (b"below\x1b[31m\x1b[?1049h\x1b[Habove\x1b[44m", b"x\x1b[?1049ly"),
    "alternate screen 1047": (b"below\x1b[?1047h\x1b[3;3Habove", b"x\x1b[?1047ly"),
    "alternate screen with a background": (b"a\x1b[44m\x1b[?1049h\x1b[2J", b"x\x1b[?1049l\x1b[J"),
    "alternate screen with tab stops": (b"\x1b[3g\x1b[5G\x1bH\r\x1b[?1049h\x1b[3g\x1b[7G\x1bH\r", b"\tx"),
    "alternate screen and saved cursors": (
        b"\x1b[2;2H\x1b7\x1b[?47h\x1b[5;5H\x1b[4m\x1b7\x1b[m",
        b"\x1b8x\x1b[?47l\x1b8y",
    ),
    "left alternate screen": (b"a\x1b[?1049hb\x1b[?1049lc", b"d"),
    "links": (
        b"\x1b]8;id=q;http://a.b/c\x1b\\linked\x1b]8;;\x1b\\ not \x1b]8;;http://d\x07again",
        b"more\x1b]8;;\x07x",
    ),
    "unfinished escape": (b"x\x1b", b"[31mQ"),
    "unfinished style": (b"abc\x1b[38;2;1", b";2;3mZZ"),
    "unfinished colon": (b"\x1b[4:", b"3mU"),
    "unfinished cursor shape": (b"\x1b[5 ", b"qx"),
    "unfinished title": (b"abc\x1b]2;half a ti", b"tle\x07d"),
    "unfinished terminator": (b"\x1b]2;t\x1b", b"\\x"),
    "unfinished link": (b"\x1b]8;id=x;http://exa", b"mple\x07link"),
    "unfinished clipboard": (b"\x1b]52;c;aGVsb", b"G8=\x07x"),
    "unfinished question": (b"\x1bP$q", b"m\x1b\\x"),
    "unfinished image": (b"\x1b_Gi=1,a=t,f=24,s=1,v=1;AA", b"AA\x1b\\x"),
    "unfinished string": (b"\x1bXabc", b"def\x1b\\Z"),
    "half a character": (b"ab\xf0\x9f\x91", b"\x8d!"),
    "two thirds of a character": (b"\xe2\x80", b"\xa6!"),
}


def _of(name: str) -> tuple[Stream, list[tuple[int, int]]]:
    before, after = _STATES[name]
    end = len(before) + len(after)
    return Stream(name, before + after, ((0, 40, 10),)), [(len(before), len(before)), (end, len(before))]


@pytest.fixture(scope="module")
def states() -> dict[str, list[Look]]:
    """Each state right at the keyframe, and after what follows it."""
    looks = judge(map(_of, _STATES))
    return {name: [next(looks), next(looks)] for name in _STATES}


@every_row("name", _STATES)
def test_a_keyframe_rebuilds(name: str, states: dict[str, list[Look]]) -> None:
    for look in states[name]:
        assert look.rebuilt == look.whole
        assert look.rebuilt.rows == look.ours.rows


@every_row("name", _STATES)
def test_a_keyframe_asks_nothing(name: str, states: dict[str, list[Look]]) -> None:
    assert not any(look.replies for look in states[name])


def test_a_used_xterm_js_is_made_fresh() -> None:
    shown, probe = b"one\r\ntwo", b"\x1b[3;3Ha\nb\tc\x1b8d"
    terminal = Terminal(40, 10)
    terminal.feed(shown)
    snapshot = terminal.snapshot(history=False)
    terminal.close()
    assert snapshot is not None
    state = b"\x1b[20h\x1b[4h\x1b[3;5r\x1b[?6h\x1b[3g\x1b[31m\x1b7\x1b(0\x1b[?1049hx\x1b[?25l"
    used = state + encode_vt(read_snapshot(snapshot))
    sizes = ((0, 40, 10),)
    instants = [(len(shown + used + probe), len(shown))]

    once, again = judge(
        [
            (Stream("once", shown + probe, sizes), [(len(shown + probe), len(shown))]),
            (Stream("again", shown + used + probe, sizes), instants),
        ]
    )

    assert again.rebuilt == once.rebuilt


# Not in xterm.js: margins left and right, clusters, and characters that a character set cannot show as wide blanks.
# Nor do terminals agree on how a sequence ends that is broken off by letters.
_NOT_THERE = frozenset({"side margins", "mode", "saved mode", "charset", "interruption"})


def test_any_screen_is_rebuilt_in_xterm_js() -> None:
    rng = random.Random("any screen")
    streams: list[Stream] = []
    for number in range(sized(60, 300, 5000)):
        cols, rows = rng.choice(((80, 24), (20, 6), (132, 43), (5, 3)))
        data = random_stream(rng, cols, rows, rng.choice((100, 1000, 3000)), leave_out=_NOT_THERE)
        streams.append(Stream(f"random {number}", data, ((0, cols, rows),)))

    # Not all bytes: xterm.js 6.0 throws an exception at some of them.
    looks = judge(((stream, [(len(stream.data), len(stream.data))]) for stream in streams), whole=False)

    for look in looks:
        assert look.rebuilt.rows == look.ours.rows, look.stream.name
        assert look.rebuilt.cursor == look.ours.cursor, look.stream.name
        assert look.rebuilt.alternate == look.ours.alternate
        assert not look.replies


def _differing(look: Look, way: Way) -> set[int]:
    """The rows that are not the same; a cursor that is elsewhere counts as the row where ours is."""
    theirs: Seen = getattr(look, way)
    rows = {y for y, (ours, seen) in enumerate(zip(look.ours.rows, theirs.rows, strict=True)) if ours != seen}
    return rows if theirs.cursor == look.ours.cursor else rows | {look.ours.cursor[1]}


def _explain(look: Look, way: Way, y: int) -> str:
    """The class of a difference; there is none that is not known."""
    theirs: Seen = getattr(look, way)
    ours, seen = look.ours.rows[y], theirs.rows[y]
    since = look.start if way == "rebuilt" else 0
    if _FRESH_LINE.search(look.stream.data, since, look.at):
        return "fresh line"
    if way == "whole" and look.stream.last_resize(look.at) and look.rebuilt.rows[y] == ours:
        return "resize"
    if theirs.cursor == look.ours.cursor:
        if ours.text != seen.text and _without_variation(ours) == _without_variation(seen):
            return "variation selector"
        if ours.text[:-1] == seen.text[:-1] and _without_last(ours) == _without_last(seen):
            return "edge"
    pytest.fail(f"{look.stream.name} at {look.at}, row {y}, {way}: {ours} is shown as {seen}")


def _without_variation(row: Row) -> Row:
    return row._replace(text=row.text.translate(_VARIATION))


def _without_last(row: Row) -> list[tuple[Style, str | None]]:
    """The looks of every cell but the last."""
    return [(run.style, run.link) for run in row.runs for _ in range(run.cells)][:-1]


def _documented() -> dict[str, tuple[int, int]]:
    table = re.findall(r"^\| \*\*(.+?)\*\* \| ([\d,]+) \| ([\d,]+) \|", _DOCS.read_text(), re.MULTILINE)
    return {name: (int(whole.replace(",", "")), int(rebuilt.replace(",", ""))) for name, whole, rebuilt in table}
