"""What viewers may say, and are told."""

from __future__ import annotations

import json

import pytest

from scrubjay.wire.viewer import SIDE_MAX, BadMessage, Change, Resize, decode_from_viewer, encode
from tests.support.tables import every_row


@every_row(("cols", "rows"), [(SIDE_MAX + 1, 24), (80, 1 << 80), (-1, 24), (80, -(1 << 80))])
def test_a_size_that_no_terminal_can_have_is_no_message(cols: int, rows: int) -> None:
    with pytest.raises(BadMessage):
        decode_from_viewer(f'{{"type": "resize", "cols": {cols}, "rows": {rows}}}')


def test_a_size_that_only_the_runner_can_judge_is_one() -> None:
    assert decode_from_viewer('{"type": "resize", "cols": 65535, "rows": 0}') == Resize(cols=SIDE_MAX, rows=0)


def test_half_a_character_in_a_change_is_told_as_an_escape() -> None:
    change = Change(number=1, wall_us=2, kind="pod.started", pod=None, data={"branch": "caf\udce9"})

    assert json.loads(encode(change))["data"] == {"branch": "caf\udce9"}
    assert encode(change).isascii()
