"""Random terminal output that a program could write: every kind of state a terminal has, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable

_Make = Callable[[random.Random, int, int], str]

_WORDS = (
    "the quick fox",
    "ok",
    "x",
    "  ",
    "─── status ───",
    "naïve",
    "Ωμέγα",
    "▓▒░",
    "100 %",
    "a\tb",
    "日本語",
    "한글",
    "表",
)
_EMOJI = ("🚀", "✅", "👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "❤️", "👍🏽", "☀️", "1️⃣", "⚠", "🧑‍💻")
_JOINING = (
    "e\u0301",
    "\u0308",
    "\u200d",
    "\ufe0f",
    "\ufe0e",
    "\u20dd",
    "नमस्ते",
    "กำ",
    "\u200b",
    "\U0001f3fd",
    "🇩",
    "\u1160",
)
_PRIVATE_MODES = (1, 5, 6, 7, 8, 12, 25, 45, 66, 67, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016)
_OTHER_MODES = (1035, 1036, 1039, 1045, 1048, 2004, 2026, 2027, 2031, 2048)
_ANSI_MODES = (2, 4, 12, 20)


def random_stream(
    rng: random.Random, cols: int, rows: int, length: int, *, leave_out: frozenset[str] = frozenset()
) -> bytes:
    """``length`` bytes of output for a screen of that size; may end inside a sequence or a character.

    ``leave_out`` names the kinds of pieces that do not occur: those of ``KINDS``, and "interruption".
    """
    kinds = [kind for kind in KINDS if kind not in leave_out]
    weights = [KINDS[kind][1] for kind in kinds]
    stream = bytearray()
    while len(stream) < length:
        (kind,) = rng.choices(kinds, weights)
        piece = KINDS[kind][0](rng, cols, rows).encode()
        if rng.random() < 0.01 and "interruption" not in leave_out:  # another program goes on where one was killed
            piece = piece[: rng.randrange(len(piece) + 1)]
        stream += piece
    return bytes(stream[:length])


def _text(rng: random.Random, cols: int, rows: int) -> str:
    words = [rng.choice(_WORDS) for _ in range(rng.randrange(1, 5))]
    return " ".join(words) * rng.choice((1, 1, 1, 1, 3))


def _letters(rng: random.Random, cols: int, rows: int) -> str:
    """A run of the lengths at which something happens: up to the edge, and just past it."""
    return rng.choice("qxlkmjab#") * rng.choice((1, 3, cols - 1, cols, cols + 1))


def _emoji(rng: random.Random, cols: int, rows: int) -> str:
    return "".join([rng.choice(_EMOJI) for _ in range(rng.randrange(1, 4))])


def _joining(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("", "e", "a", "日", "👩")) + rng.choice(_JOINING)


def _control(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(
        ("\r\n", "\r\n", "\r\n", "\n", "\r", "\b", "\t", "\v", "\f", "\a", "\0", "\x05", "\x0e", "\x0f", "\x7f")
    )


def _c1(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("\x84", "\x85", "\x88", "\x8d", "\x9b31m", "\x9b2J", "\x9c", "\x80"))


def _sgr(rng: random.Random, cols: int, rows: int) -> str:
    return "\x1b[" + ";".join([_sgr_parameter(rng) for _ in range(rng.randrange(0, 4))]) + "m"


def _sgr_parameter(rng: random.Random) -> str:
    kind = rng.randrange(8)
    base = rng.choice((38, 48, 58))
    if kind == 0:
        return rng.choice(("4:0", "4:1", "4:2", "4:3", "4:4", "4:5"))
    if kind == 1:
        return f"{base};5;{rng.randrange(256)}"
    if kind == 2:
        return f"{base}:5:{rng.randrange(256)}"
    if kind == 3:
        return f"{base};2;{rng.randrange(256)};{rng.randrange(256)};{rng.randrange(256)}"
    if kind == 4:
        return f"{base}:2::{rng.randrange(256)}:{rng.randrange(256)}:{rng.randrange(256)}"
    if kind == 5:
        return str(rng.choice((0, 0, 0, 39, 49, 59, 22, 23, 24, 25, 27, 28, 29, 55)))
    if kind == 6:
        return str(rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 21, 53)))
    return str(rng.choice((30, 40, 90, 100)) + rng.randrange(8))


def _move(rng: random.Random, cols: int, rows: int) -> str:
    count = rng.choice(("", "0", "1", "2", "5", str(cols), "9999"))
    return rng.choice(
        (
            f"\x1b[{rng.randrange(rows + 2)};{rng.randrange(cols + 2)}{rng.choice('Hf')}",
            f"\x1b[{rng.randrange(1, rows + 1)};{cols}H",
            f"\x1b[{count}{rng.choice('ABCDEFGIZ`ade')}",
            rng.choice(("\x1b[H", "\x1bD", "\x1bE", "\x1bM", "\x1b[s", "\x1b[u")),
        )
    )


def _erase(rng: random.Random, cols: int, rows: int) -> str:
    count = rng.choice(("", "0", "1", "2", "7", str(cols)))
    return rng.choice(
        (
            f"\x1b[{rng.choice(('', '0', '1', '2', '3'))}{rng.choice(('J', 'K', '?J', '?K'))[-1]}",
            f"\x1b[?{rng.choice(('', '1', '2'))}{rng.choice('JK')}",
            f"\x1b[{count}X",
            rng.choice(("\x1b#8", "\x1b[2J\x1b[H")),
        )
    )


def _shift(rng: random.Random, cols: int, rows: int) -> str:
    """Insert, delete, scroll."""
    return f"\x1b[{rng.choice(('', '0', '1', '2', '9', str(rows)))}{rng.choice('@PLMST')}"


def _repeat(rng: random.Random, cols: int, rows: int) -> str:
    return f"{rng.choice(('', 'r', '表'))}\x1b[{rng.choice(('', '3', str(cols)))}b"


def _margins(rng: random.Random, cols: int, rows: int) -> str:
    top, bottom = sorted((rng.randrange(1, rows + 1), rng.randrange(1, rows + 2)))
    return rng.choice((f"\x1b[{top};{bottom}r", f"\x1b[{top};{bottom}r", "\x1b[r"))


def _side_margins(rng: random.Random, cols: int, rows: int) -> str:
    left, right = sorted((rng.randrange(1, cols + 1), rng.randrange(1, cols + 2)))
    return rng.choice((f"\x1b[?69h\x1b[{left};{right}s", "\x1b[?69l"))


def _tabs(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice((f"\x1b[{rng.randrange(1, cols + 1)}G\x1bH", "\x1b[g", "\x1b[3g", "\x1b[?5W", "\t\t"))


def _charset(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(
        (f"\x1b{rng.choice('()*+')}{rng.choice('0AB')}", "\x0e", "\x0f", "\x1bn", "\x1bo", "\x1bN", "\x1bO", "\x1b~")
    )


def _save(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("\x1b7", "\x1b8"))


def _mode(rng: random.Random, cols: int, rows: int) -> str:
    on = rng.choice("hl")
    kind = rng.randrange(4)
    if kind == 0:
        return f"\x1b[{rng.choice(_ANSI_MODES)}{on}"
    if kind == 1:
        return f"\x1b[?{rng.choice(_OTHER_MODES)}{on}"
    if kind == 2:
        return f"\x1b[?{rng.choice(_PRIVATE_MODES)};{rng.choice(_PRIVATE_MODES)}{on}"
    return f"\x1b[?{rng.choice(_PRIVATE_MODES)}{on}"


def _saved_mode(rng: random.Random, cols: int, rows: int) -> str:
    """Save the value of a mode, or restore it."""
    return f"\x1b[?{rng.choice(_PRIVATE_MODES + _OTHER_MODES)}{rng.choice('sr')}"


def _alternate(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("\x1b[?1049h", "\x1b[?1049l"))


def _old_alternate(rng: random.Random, cols: int, rows: int) -> str:
    """The same without saving the cursor, and without clearing."""
    return f"\x1b[?{rng.choice((47, 1047))}{rng.choice('hl')}"


def _link(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(
        (
            f"\x1b]8;;https://example.org/{rng.randrange(5)}\x1b\\",
            f"\x1b]8;id=l{rng.randrange(3)};https://example.org/{rng.randrange(3)}\a",
            "\x1b]8;;\a",
            "\x1b]8;;\x1b\\",
        )
    )


def _colours(rng: random.Random, cols: int, rows: int) -> str:
    colour = rng.choice((f"rgb:{rng.randrange(256):02x}/80/ff", f"#{rng.randrange(1 << 24):06x}"))
    return rng.choice(
        (
            f"\x1b]4;{rng.randrange(256)};{colour}\a",
            f"\x1b]{rng.choice((10, 11, 12))};{colour}\x1b\\",
            f"\x1b]{rng.choice((104, 110, 111, 112))}\a",
            f"\x1b]104;{rng.randrange(256)}\a",
        )
    )


def _report(rng: random.Random, cols: int, rows: int) -> str:
    """What is told to the terminal rather than shown: titles, directories, progress, clipboard, questions."""
    return rng.choice(
        (
            f"\x1b]{rng.choice((0, 1, 2))};title {rng.randrange(9)} ✓\a",
            f"\x1b]7;file:///home/{rng.randrange(9)}\x1b\\",
            f"\x1b]9;4;{rng.randrange(5)};{rng.randrange(101)}\a",
            "\x1b]9;finished\a",
            "\x1b]52;c;aGVsbG8=\a",
            "\x1b]22;pointer\a",
            f"\x1b[{rng.choice(('c', '>c', '5n', '6n', '?6n', '?25$p', '18t', '14t', '22;0t', '23;0t', '?u'))}",
        )
    )


def _prompt(rng: random.Random, cols: int, rows: int) -> str:
    return f"\x1b]133;{rng.choice(('A', 'B', 'C', 'D;0', 'P'))}\a"


def _string(rng: random.Random, cols: int, rows: int) -> str:
    """Sequences with a body, most of which draw nothing."""
    return rng.choice(
        (
            "\x1bP$qm\x1b\\",
            "\x1bP+q544e\x1b\\",
            "\x1bPq#0;2;0;0;0#0~~@@\x1b\\",
            "\x1b_Gi=1,a=q,f=24,s=1,v=1;AAAA\x1b\\",
            "\x1bXa string\x1b\\",
            "\x1b^a message\x1b\\",
            "\x1b]633;A\a",
            "\x1bPtmux;\x1b\x1b[31m\x1b\\",
        )
    )


def _keyboard(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("\x1b[>1u", "\x1b[<1u", "\x1b[=5;2u", "\x1b[>4;2m", "\x1b[>4m", "\x1b=", "\x1b>"))


def _cursor(rng: random.Random, cols: int, rows: int) -> str:
    return f"\x1b[{rng.randrange(7)} q"


def _protect(rng: random.Random, cols: int, rows: int) -> str:
    """Cells that an erase leaves alone."""
    return rng.choice(('\x1b[1"q', '\x1b[0"q', "\x1bV", "\x1bW"))


def _reset(rng: random.Random, cols: int, rows: int) -> str:
    return rng.choice(("\x1b[!p", "\x1b[!p", "\x1bc"))


def _broken(rng: random.Random, cols: int, rows: int) -> str:
    """What no terminal should stumble over."""
    return rng.choice(
        (
            "\x1b[38;2;1m",
            "\x1b[;;;H",
            "\x1b[999999999999A",
            "\x1b[?h",
            "\x18",
            "\x1a",
            "\x1b\x1b",
            "\x1b[1;2;3;4z",
            "\ufffd",
        )
    )


KINDS: dict[str, tuple[_Make, float]] = {
    "text": (_text, 20),
    "letters": (_letters, 6),
    "emoji": (_emoji, 4),
    "joining": (_joining, 4),
    "control": (_control, 14),
    "c1": (_c1, 0.5),
    "sgr": (_sgr, 14),
    "move": (_move, 12),
    "erase": (_erase, 5),
    "shift": (_shift, 5),
    "repeat": (_repeat, 0.7),
    "margins": (_margins, 2),
    "side margins": (_side_margins, 1),
    "tabs": (_tabs, 2),
    "charset": (_charset, 2),
    "save": (_save, 2),
    "mode": (_mode, 4),
    "saved mode": (_saved_mode, 0.5),
    "alternate": (_alternate, 1),
    "old alternate": (_old_alternate, 0.5),
    "link": (_link, 2),
    "colours": (_colours, 1.5),
    "report": (_report, 2),
    "prompt": (_prompt, 0.5),
    "string": (_string, 1),
    "keyboard": (_keyboard, 1),
    "cursor": (_cursor, 1),
    "protect": (_protect, 0.5),
    "reset": (_reset, 0.3),
    "broken": (_broken, 0.7),
}  #: what a stream is made of, and how often
