from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.cli.player.timeline import Look, Signs, column_of, draw_timeline, time_of
from scrubjay.replay.frame import Idle, Mark, Timeline


def _timeline(
    density: tuple[float, ...], *, marks: tuple[int, ...] = (), idle: tuple[Idle, ...] = (), seams: tuple[int, ...] = ()
) -> Timeline:
    return Timeline(1000, density, tuple(Mark(time, "", "") for time in marks), idle, seams)


def _text(timeline: Timeline, signs: Signs, width: int = 10, rows: int = 1) -> list[str]:
    return ["".join(cell.character for cell in row) for row in draw_timeline(timeline, signs, width, rows=rows)]


def test_activity_is_drawn_as_blocks_of_its_height() -> None:
    timeline = _timeline((0.0, 0.01, 0.13, 0.3, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0))

    assert _text(timeline, Signs(0), rows=2)[1] == "·▁▂▃▄▅▆▇██"


def test_one_row_shows_the_place_and_the_signs_in_the_activity() -> None:
    timeline = _timeline((1.0,) * 10, marks=(250,), seams=(600,))

    assert _text(timeline, Signs(450, cut_from=100, cut_to=850, hits=(700,))) == ["█[◆█┃█┊•]█"]


def test_two_rows_show_the_signs_above() -> None:
    timeline = _timeline((1.0,) * 10, marks=(250,), seams=(600,))

    assert _text(timeline, Signs(450), rows=2) == ["  ◆ ▼ ┊   ", "██████┊███"]


def test_two_rows_say_how_long_there_was_nobody_between_two_tapes() -> None:
    timeline = replace(_timeline((1.0,) * 10, seams=(250, 900, 950)), away=(11_000_000_000, 5_000_000, 300))

    wide, narrow = (_text(timeline, Signs(0), width=width, rows=2) for width in (40, 20))

    assert wide == ["▼         ┊ nobody for 3h3m         ┊ ┊ ", "██████████┊█████████████████████████┊█┊█"]
    assert narrow[0] == "▼    ┊3h3m        ┊┊"


def test_a_gap_of_which_nothing_is_known_has_no_length() -> None:
    timeline = replace(_timeline((1.0,) * 10, seams=(500,)), away=(None,))

    assert _text(timeline, Signs(0), width=20, rows=2)[0] == "▼         ┊         "


def test_what_is_behind_looks_different_from_what_is_ahead() -> None:
    (row,) = draw_timeline(_timeline((1.0,) * 10), Signs(450), 10, rows=1)

    assert [cell.look for cell in row] == [Look.PLAYED] * 4 + [Look.HEAD] + [Look.AHEAD] * 5


def test_idle_stretches_are_dimmed() -> None:
    timeline = _timeline((1.0,) * 3 + (0.0,) * 4 + (1.0,) * 3, idle=(Idle(290, 710),))

    row = draw_timeline(timeline, Signs(999), 10, rows=2)[1]

    assert "".join(cell.character for cell in row) == "███····███"
    assert [column for column, cell in enumerate(row) if cell.look is Look.IDLE] == [3, 4, 5, 6]


def test_a_mark_is_never_hidden_by_a_seam_or_a_hit() -> None:
    timeline = _timeline((1.0,) * 10, marks=(550,), seams=(550,))

    assert _text(timeline, Signs(0, hits=(550,)))[0][5] == "◆"


@pytest.mark.parametrize("width", [0, 1, 2, 200])
@pytest.mark.parametrize("rows", [1, 2])
def test_any_width_is_filled(width: int, rows: int) -> None:
    timeline = _timeline((0.5,) * 80, marks=(0, 1000), idle=(Idle(0, 1000),), seams=(500,))

    assert [len(row) for row in _text(timeline, Signs(1000), width, rows)] == [width] * rows


def test_a_recording_without_duration_can_be_drawn() -> None:
    assert _text(Timeline(0, (), (), (), ()), Signs(0), 5) == ["┃····"]


@given(duration=st.integers(1, 10**12), width=st.integers(1, 500), share=st.floats(0, 1))
def test_pointing_at_a_column_leads_to_that_column(duration: int, width: int, share: float) -> None:
    column = min(width - 1, int(share * width))

    found = column_of(time_of(column, duration, width), duration, width)

    # A column shorter than a microsecond has no instant of its own.
    assert found == column or duration < 2 * width


def test_the_ends_of_the_line_are_the_ends_of_the_recording() -> None:
    assert time_of(0, 1000, 80) == 0
    assert time_of(79, 1000, 80) == 1000
