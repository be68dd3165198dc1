"""Rows as they settle: what a person could have read, each once."""

from __future__ import annotations

from scrubjay.screen.engine import ChangedRow
from scrubjay.screen.settle import AGAIN_AFTER_US, RESEMBLES_US, STANDS_US, Passage, SettledRow, Settling

SECOND = 1_000_000


def _rows(*texts: str) -> list[ChangedRow]:
    return [ChangedRow(y, y, text) for y, text in enumerate(texts)]


def _passage(offset: int) -> Passage:
    return Passage(offset, offset, 23, 24)


def _texts(rows: list[SettledRow]) -> list[str]:
    return [row.text for row in rows]


def test_a_row_that_stands_is_taken_with_its_place() -> None:
    taken = Settling().look(_rows("", "hello"), 5, 99)

    assert taken == [SettledRow(5, 99, 1, "hello")]


def test_a_redraw_of_the_same_text_is_not_taken_again_wherever_it_is_drawn() -> None:
    settling = Settling()
    settling.look(_rows("alpha", "beta"), 1, 1)

    again = settling.look(_rows("alpha", "beta"), SECOND, 2)
    moved = settling.look(_rows("", "alpha", "beta"), 2 * SECOND, 3)

    assert again == []
    assert moved == []


def test_a_row_that_was_taken_while_it_stood_is_not_taken_again_when_it_scrolls_off() -> None:
    settling = Settling()
    settling.look(_rows("alpha", "beta"), 1, 1)

    assert settling.scrolled(["alpha", "gamma"], 2, _passage(2)) == [SettledRow(2, 2, -1, "gamma")]


def test_lines_of_a_flood_are_taken_as_they_scroll_off() -> None:
    settling = Settling()

    taken = settling.scrolled([f"request {n}" for n in range(100)], 7, _passage(8))

    assert _texts(taken) == [f"request {n}" for n in range(100)]


def test_the_same_line_is_news_again_after_a_minute() -> None:
    settling = Settling()
    first = settling.scrolled(["connection refused"], 0, _passage(1))
    soon = settling.scrolled(["connection refused"], SECOND, _passage(2))
    later = settling.scrolled(["connection refused"], AGAIN_AFTER_US, _passage(3))

    assert [_texts(first), _texts(soon), _texts(later)] == [["connection refused"], [], ["connection refused"]]


def test_a_spinner_and_a_counter_are_taken_once() -> None:
    settling = Settling()
    taken: list[SettledRow] = []
    for second in range(30):
        row = f"{'⠋⠙⠹⠸'[second % 4]} Working… ({second}s)"
        taken += settling.look(_rows(row), second * SECOND, second, until=(second + 1) * SECOND)

    assert _texts(taken) == ["⠋ Working… (0s)"]


def test_a_counter_that_stops_is_taken_where_it_stands() -> None:
    settling = Settling()
    settling.look(_rows("step 1 of 9"), 0, 1, until=SECOND)
    soon = settling.look(_rows("step 2 of 9"), SECOND, 2, until=SECOND + STANDS_US)
    later = settling.look([], SECOND + STANDS_US, 3, until=SECOND + RESEMBLES_US)

    assert soon == []
    assert _texts(later) == ["step 2 of 9"]


def test_an_answer_that_is_written_word_by_word_is_taken_when_it_stands() -> None:
    settling = Settling()
    taken: list[SettledRow] = []
    text = ""
    for n, word in enumerate(("I", "will", "look", "at", "the", "tests")):
        text = f"{text} {word}".strip()
        taken += settling.look(_rows(text), n * 200_000, n, until=(n + 1) * 200_000)
    taken += settling.look([], 1_000_000, 9, until=3_000_000)

    assert _texts(taken) == ["I will look at the tests"]


def test_going_on_from_a_state_takes_nothing_twice() -> None:
    first = Settling()
    first.look(_rows("alpha", "beta"), 1, 1)

    second = Settling(first.state())

    assert second.look(_rows("alpha", "gamma"), 2, 2) == [SettledRow(2, 2, 1, "gamma")]
    assert _texts(second.scrolled(["alpha"], 3, _passage(3))) == []


def test_blank_rows_are_never_taken() -> None:
    settling = Settling()

    assert settling.look(_rows("", "   "), 1, 1) + settling.scrolled(["", ""], 2, _passage(2)) == []


def test_what_is_remembered_is_bounded() -> None:
    settling = Settling()
    for start in range(0, 50_000, 1000):
        settling.scrolled([f"line {n}" for n in range(start, start + 1000)], start, _passage(start))

    assert len(settling.state()) < 100_000
