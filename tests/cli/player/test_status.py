from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest
from rich.cells import cell_len

from scrubjay.cli.player.status import Status, draw_status
from scrubjay.replay.instants import SECOND_US

_STATUS = Status(
    playing=True,
    speed=1.0,
    position=754_500_000,
    duration=3_723_000_000,
    wall_us=1_763_172_847 * SECOND_US,
    size="120x40",
    name="builder",
)


def _text(status: Status, width: int = 80) -> str:
    return "".join(part.text for part in draw_status(status, width, timezone=UTC))


def test_everything_fits_into_eighty_columns() -> None:
    shown = _text(_STATUS).rstrip()

    assert shown == "▶  1x  12:34.5 / 1:02:03  20%  2025-11-15 02:14:07  120x40  builder  ? help"


def test_a_pause_and_a_fraction_of_speed_are_shown() -> None:
    assert _text(replace(_STATUS, playing=False, speed=0.25)).startswith("❚❚ 0.25x  ")


def test_a_pod_that_is_followed_is_live_and_one_that_is_not_runs() -> None:
    assert "● live" in _text(replace(_STATUS, live=True, following=True))
    assert "○ running" in _text(replace(_STATUS, live=True))


def test_indexing_is_shown_with_its_share() -> None:
    assert "indexing 42%" in _text(replace(_STATUS, indexing=0.42))


def test_a_note_takes_the_place_of_what_matters_less() -> None:
    shown = _text(replace(_STATUS, notes=("screen unavailable: the terminal engine failed on what was shown",)))

    assert shown == "▶  1x  12:34.5 / 1:02:03  screen unavailable: the terminal engine failed on wha…"


def test_a_note_that_is_too_long_ends_in_dots() -> None:
    assert _text(replace(_STATUS, notes=("x" * 200,))).rstrip().endswith("xx…")


def test_notes_have_no_controls_and_no_line_breaks() -> None:
    shown = _text(replace(_STATUS, notes=("a\x1b]0;b\x07\nc\u202ed\x9be",)))

    assert shown.isprintable()


@pytest.mark.parametrize("note", ["", "a note 漢字 that is long enough to be cut in most windows"])
def test_the_line_is_as_wide_as_the_window(note: str) -> None:
    for width in range(1, 140):
        assert cell_len(_text(replace(_STATUS, notes=(note,)), width)) == width


def test_the_wall_clock_may_be_unknown() -> None:
    assert ":07" not in _text(replace(_STATUS, wall_us=None))


def test_a_recording_without_duration_has_no_share() -> None:
    assert "%" not in _text(replace(_STATUS, position=0, duration=0))
