from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.replay.rows import BLOCK_ROWS, BadBlock, Block, Row, encode_rows
from tests.support.tables import every_row

_ROWS = st.builds(
    Row,
    at=st.integers(0, 1 << 60),
    offset=st.integers(0, 1 << 60),
    y=st.integers(-1, 5000),
    kind=st.sampled_from(["shown", "typed"]),
    text=st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])),
)


@given(st.lists(_ROWS, min_size=1, max_size=BLOCK_ROWS))
def test_rows_come_out_of_a_block_as_they_went_in(rows: list[Row]) -> None:
    block = Block(encode_rows(rows))

    assert [block[index] for index in range(len(block))] == rows
    assert block.text == "\n".join(row.text for row in rows)


def test_a_block_that_was_changed_anywhere_is_bad() -> None:
    data = encode_rows([Row(number, number * 7, 3, "shown", f"row {number}") for number in range(20)])

    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        try:
            block = Block(bytes(damaged))
        except BadBlock:
            continue
        assert block.text == Block(data).text  # what nothing depends on


@every_row("cut", [0, 1, 10, -1])
def test_a_block_that_ends_early_is_bad(cut: int) -> None:
    data = encode_rows([Row(1, 2, 3, "typed", "some text that was typed")])

    with pytest.raises(BadBlock):
        Block(data[:cut])
