"""What a program asks is found in its output, however that is cut, and what asks nothing is known to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.queries import CallWatch, Queries
from tests.support.streams import random_stream
from tests.support.tables import every_row
from tests.support.tiers import sized

_STREAM = b"a\x1b[?6nb\x1b[?25;1004;2004hc\x1b[?1004hd\x1b[?10041h\x1b[6n\x1b[?66n\x1b[?1004l"


@given(cuts=st.lists(st.integers(0, len(_STREAM)), max_size=12))
def test_any_portions_are_cut_at_the_same_places(cuts: list[int]) -> None:
    queries, found = Queries(), list[str]()
    ends = [*sorted(cuts), len(_STREAM)]
    shown = b""

    for start, end in zip([0, *ends], ends, strict=False):
        for part, query in queries.cut(_STREAM[start:end]):
            shown += part
            if query is not None:
                found.append(f"{query} {len(shown)}")

    assert shown == _STREAM
    asked = [("position", b"?6n"), ("focus", b"2004h"), ("focus", b"c\x1b[?1004h")]
    assert found == [f"{query} {_STREAM.index(end) + len(end)}" for query, end in asked]


def test_a_part_that_asks_is_nothing_but_the_question() -> None:
    assert Queries().cut(b"one\x1b[?6ntwo") == [(b"one", None), (b"\x1b[?6n", "position"), (b"two", None)]


@every_row(
    "drawing",
    [
        b"plain text\r\n",
        b"\x1b[31mred\x1b[m",
        b"\x1b[2J\x1b[H\x1b[10;20H\x1b[K\x1b[3A\x1b[1S",
        b"\x1b[?25l\x1b[?2026h\x1b[?2026l\x1b[?1049h",
        b"\x1b[s\x1b[5 q\x1b[!p\x1b7\x1b8\x1b(B",
    ],
)
def test_what_is_only_drawn_calls_for_nothing(drawing: bytes) -> None:
    watch = CallWatch()
    watch.feed(b"x\x1b[m")

    assert not watch.feed(drawing)
    assert not any(watch.feed(bytes([byte])) for byte in drawing)


def test_no_effect_of_any_output_goes_unnoticed() -> None:
    for number in range(sized(60, 300, 5000)):
        rng = random.Random(f"calls {number}")
        stream = random_stream(rng, 40, 10, rng.randrange(2000))
        terminal, watch = Terminal(40, 10), CallWatch()
        terminal.listen(answering=True)
        position = 0
        while position < len(stream):
            portion = stream[position : position + rng.choice((1, 2, 5, 50, 500))]
            position += len(portion)
            terminal.feed(portion)
            calls = watch.feed(portion)
            effects = terminal.effects()
            assert calls or not effects, (number, portion, effects)
        terminal.close()


def test_the_same_is_answered_however_it_is_cut() -> None:
    for number in range(sized(30, 100, 2000)):
        rng = random.Random(f"answers {number}")
        stream = random_stream(rng, 40, 10, rng.randrange(2000)) + b"\x1b\\\x1b[?6n\x1b[?1004l\x1b[?1004h\x1b[c"
        at_once, bit_by_bit = Terminal(40, 10), Terminal(40, 10)
        for terminal in (at_once, bit_by_bit):
            terminal.listen(answering=True)
        at_once.feed(stream)
        for byte in stream:
            bit_by_bit.feed(bytes([byte]))

        assert at_once.effects() == bit_by_bit.effects(), number
        at_once.close()
        bit_by_bit.close()
