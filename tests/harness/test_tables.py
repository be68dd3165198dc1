"""A table of cases is one test that names every row that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables import every_row


def test_every_row_is_checked_and_all_that_are_wrong_are_named() -> None:
    seen: list[int] = []

    @every_row(("number", "square"), [(1, 1), (2, 5), (3, 9), (4, 15)])
    def check(number: int, square: int) -> None:
        seen.append(number)
        assert number**2 == square

    with pytest.raises(pytest.fail.Exception) as failed:
        check()

    assert seen == [1, 2, 3, 4]
    first, *wrong = str(failed.value).splitlines()
    assert first == "2 of 4 rows are wrong:"
    assert [line.partition(":")[0] for line in wrong if line.startswith("(")] == ["(2, 5)", "(4, 15)"]


def test_what_a_row_fails_to_raise_is_wrong_too() -> None:
    @every_row("text", ["1", "one"])
    def check(text: str) -> None:
        with pytest.raises(ValueError):
            int(text)

    with pytest.raises(pytest.fail.Exception, match=r"1 of 2 rows are wrong:\n'1': Failed: DID NOT RAISE"):
        check()


def test_a_table_without_a_row_is_a_failure() -> None:
    @every_row("text", [])
    def check(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(AssertionError, match="no row is checked"):
        check()


_folders: list[Path] = []


@every_row("name", ["one", "two"])
@every_row("again", [1, 2])
def test_each_row_has_a_folder_of_its_own(tmp_path: Path, name: str, again: int) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text(f"{name} {again}")
    assert tmp_path not in _folders
    _folders.append(tmp_path)
