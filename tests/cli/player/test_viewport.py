from __future__ import annotations

from dataclasses import replace

from scrubjay.cli.player.viewport import Size, Viewport
from scrubjay.screen.picture import Cursor, Line, Picture, plain_picture

_WINDOW = Size(80, 22)


def _picture(
    x: int = 0, y: int = 0, *, cols: int = 120, rows: int = 40, history: int = 0, visible: bool = True
) -> Picture:
    cursor = Cursor(x, y, visible=visible, shape="block")
    return replace(plain_picture("", cols, rows), cursor=cursor, history=(Line(()),) * history)


def test_a_screen_that_fits_is_seen_from_its_corner() -> None:
    assert Viewport(5, 5).following(_picture(79, 21, cols=80, rows=22), _WINDOW) == Viewport(0, 0)


def test_the_cursor_is_kept_in_view() -> None:
    assert Viewport().following(_picture(100, 39), _WINDOW) == Viewport(21, 18)


def test_the_view_moves_no_more_than_it_must() -> None:
    assert Viewport(10, 10).following(_picture(50, 20), _WINDOW) == Viewport(10, 10)


def test_a_hidden_cursor_is_followed_by_row_alone() -> None:
    assert Viewport().following(_picture(119, 39, visible=False), _WINDOW) == Viewport(0, 18)


def test_a_view_that_a_person_moved_stays() -> None:
    held = Viewport().panned(8, 3, _picture(), _WINDOW)

    assert held.following(_picture(119, 39), _WINDOW) == Viewport(8, 3, held=True)


def test_panning_ends_at_the_edges_of_screen_and_history() -> None:
    picture = _picture(history=7)

    assert Viewport().panned(1000, 1000, picture, _WINDOW) == Viewport(40, 18, held=True)
    assert Viewport().panned(-1000, -1000, picture, _WINDOW) == Viewport(0, -7, held=True)


def test_a_held_view_moves_when_the_screen_shrinks_away_under_it() -> None:
    assert Viewport(40, 18, held=True).following(_picture(cols=90, rows=24), _WINDOW) == Viewport(10, 2, held=True)
