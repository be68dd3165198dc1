from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from scrubjay.cli.player.text import TITLE_MAX, fit, inert, short

_ACTS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@given(st.text())
def test_nothing_that_acts_or_hides_is_left(text: str) -> None:
    assert not {category(character) for character in inert(text)} & _ACTS


@given(st.text(max_size=60), st.integers(1, 60))
def test_text_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert cell_len(fit(text, cells)) == cells


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("plain", 5, "plain"),
        ("漢字", 4, "漢字"),
        ("e\u0301", 1, "e\u0301"),
        ("⚠\ufe0f hot", 6, "⚠  hot"),  # the sign was given two columns
        ("⚠\ufe0f hot", 5, "⚠ hot"),  # or one
        ("👍🏽", 2, "👍"),
        ("👨\u200d👩\u200d👧 x", 4, "👨 x"),  # joined to one
        ("👨\u200d👩\u200d👧", 6, "👨👩👧"),  # or each on its own
        ("🇩🇪", 2, "DE"),
        ("a\u202eb", 2, "ab"),
        ("x\U000e0041y", 2, "xy"),
        ("a\x1b[31mb", 7, "a [31mb"),
        ("a\x9b6n", 4, "a 6n"),
        ("tail", 6, "tail  "),
        ("too long", 3, "too"),
    ],
)
def test_text_is_drawn_the_way_every_terminal_counts_it(text: str, cells: int, shown: str) -> None:
    assert fit(text, cells) == shown


def test_labels_are_one_line_of_bounded_length() -> None:
    assert short("a\n\tb\x00 c") == "a b c"
    assert len(short("x" * (1 << 20))) == TITLE_MAX
