"""Rows as they settle: what a person could have read, each once."""

from __future__ import annotations

from scrubjay.screen.settle import AGAIN_AFTER_US, RESEMBLES_US, STANDS_US, Passage, SettledRow, Settling

SECOND = 1_000_000


def _look(settling: Settling, rows: list[str], at: int, offset: int, until: int | None = None) -> list[SettledRow]:
    settling.look(rows, at, offset, until=until)
    return list(settling.take())


def _scrolled(settling: Settling, rows: list[str], at: int, offset: int) -> list[SettledRow]:
    settling.scrolled(rows, at, Passage(offset, offset, 23, 24))
    return list(settling.take())


def _texts(rows: list[SettledRow]) -> list[str]:
    return [row.text for row in rows]


def test_a_row_that_stands_is_taken_with_its_place() -> None:
    taken = _look(Settling(), ["", "hello"], 5, 99)

    assert taken == [SettledRow(5, 99, 1, "hello")]


def test_a_redraw_of_the_same_text_is_not_taken_again_wherever_it_is_drawn() -> None:
    settling = Settling()
    _look(settling, ["alpha", "beta"], 1, 1)

    again = _look(settling, ["alpha", "beta"], SECOND, 2)
    moved = _look(settling, ["", "alpha", "beta"], 2 * SECOND, 3)

    assert again == []
    assert moved == []


def test_a_row_that_was_taken_while_it_stood_is_not_taken_again_when_it_scrolls_off() -> None:
    settling = Settling()
    _look(settling, ["alpha", "beta"], 1, 1)

    assert _scrolled(settling, ["alpha", "gamma"], 2, 2) == [SettledRow(2, 2, -1, "gamma")]


def test_lines_of_a_flood_are_taken_as_they_scroll_off() -> None:
    settling = Settling()

    taken = _scrolled(settling, [f"request {n}" for n in range(100)], 7, 8)

    assert _texts(taken) == [f"request {n}" for n in range(100)]


def test_the_same_line_is_news_again_after_a_minute() -> None:
    settling = Settling()
    first = _scrolled(settling, ["connection refused"], 0, 1)
    soon = _scrolled(settling, ["connection refused"], SECOND, 2)
    later = _scrolled(settling, ["connection refused"], AGAIN_AFTER_US, 3)

    assert [_texts(first), _texts(soon), _texts(later)] == [["connection refused"], [], ["connection refused"]]


def test_a_spinner_and_a_counter_are_taken_once() -> None:
    settling = Settling()
    taken: list[SettledRow] = []
    for second in range(30):
        row = f"{'⠋⠙⠹⠸'[second % 4]} Working… ({second}s)"
        taken += _look(settling, [row], second * SECOND, second, until=(second + 1) * SECOND)

    assert _texts(taken) == ["⠋ Working… (0s)"]


def test_a_counter_that_stops_is_taken_where_it_stands() -> None:
    settling = Settling()
    _look(settling, ["step 1 of 9"], 0, 1, until=SECOND)
    soon = _look(settling, ["step 2 of 9"], SECOND, 2, until=SECOND + STANDS_US)
    later = _look(settling, ["step 2 of 9"], SECOND + STANDS_US, 3, until=SECOND + RESEMBLES_US)

    assert soon == []
    assert _texts(later) == ["step 2 of 9"]


def test_an_answer_that_is_written_word_by_word_is_taken_when_it_stands() -> None:
    settling = Settling()
    taken: list[SettledRow] = []
    text = ""
    for n, word in enumerate(("I", "will", "look", "at", "the", "tests")):
        text = f"{text} {word}".strip()
        taken += _look(settling, [text], n * 200_000, n, until=(n + 1) * 200_000)
    taken += _look(settling, [text], 1_000_000, 9, until=3_000_000)

    assert _texts(taken) == ["I will look at the tests"]


def test_going_on_from_a_state_takes_nothing_twice() -> None:
    first = Settling()
    _look(first, ["alpha", "beta"], 1, 1)

    second = Settling(first.state())

    assert _look(second, ["alpha", "gamma"], 2, 2) == [SettledRow(2, 2, 1, "gamma")]
    assert _texts(_scrolled(second, ["alpha"], 3, 3)) == []


def test_blank_rows_are_never_taken() -> None:
    settling = Settling()

    assert _look(settling, ["", "   "], 1, 1) + _scrolled(settling, ["", ""], 2, 2) == []


def test_what_is_remembered_is_bounded() -> None:
    settling = Settling()
    for start in range(0, 50_000, 1000):
        _scrolled(settling, [f"line {n}" for n in range(start, start + 1000)], start, start)

    assert len(settling.state()) < 100_000
