"""What viewers may say."""

from __future__ import annotations

import pytest

from scrubjay.wire.viewer import SIDE_MAX, BadMessage, Resize, decode_from_viewer


@pytest.mark.parametrize(("cols", "rows"), [(SIDE_MAX + 1, 24), (80, 1 << 80), (-1, 24), (80, -(1 << 80))])
def test_a_size_that_no_terminal_can_have_is_no_message(cols: int, rows: int) -> None:
    with pytest.raises(BadMessage):
        decode_from_viewer(f'{{"type": "resize", "cols": {cols}, "rows": {rows}}}')


def test_a_size_that_only_the_runner_can_judge_is_one() -> None:
    assert decode_from_viewer('{"type": "resize", "cols": 65535, "rows": 0}') == Resize(cols=SIDE_MAX, rows=0)
