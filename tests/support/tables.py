"""Tables of cases that one test checks.

A test of each row, as ``pytest.mark.parametrize`` makes it, costs some milliseconds in every worker before anything
runs. Where the rows are one statement, ``every_row`` makes one test of them, whose failure lists every row that is
wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, cast

import pytest

_Test = Callable[..., None]
_SHOWN_MAX = 300  #: characters of a row in the message


def every_row(names: str | Sequence[str], rows: Iterable[Sequence[object] | object]) -> Callable[[_Test], _Test]:
    """Call a test with every row, and fail with all rows that are wrong; other arguments are fixtures, as usual.

    Each row has a ``tmp_path`` of its own. All other fixtures are the same for all rows, so nothing that one row does
    to them may matter to the next.
    """
    columns = (names,) if isinstance(names, str) else tuple(names)
    table = list(rows)

    def decorate(test: _Test) -> _Test:
        signature = inspect.signature(test)

        @wraps(test)
        def check_every_row(**fixtures: Any) -> None:
            __tracebackhide__ = True
            assert table, "no row is checked"
            wrong: list[str] = []
            for number, row in enumerate(table):
                values = cast(Sequence[object], row) if len(columns) > 1 else (row,)
                try:
                    test(**_own_folder(fixtures, number), **dict(zip(columns, values, strict=True)))
                # Whatever is wrong with a row, the others are checked too.
                except (Exception, pytest.fail.Exception) as problem:  # noqa: BLE001
                    wrong.append(f"{_shown(row)}: {type(problem).__name__}: {problem}")
            if wrong:
                pytest.fail(f"{len(wrong)} of {len(table)} rows are wrong:\n" + "\n".join(wrong))

        fixtures = [given for name, given in signature.parameters.items() if name not in columns]
        setattr(check_every_row, "__signature__", signature.replace(parameters=fixtures))  # noqa: B010 - functions have no such field
        return check_every_row

    return decorate


def _own_folder(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    if "tmp_path" not in fixtures:
        return fixtures
    folder: Path = fixtures["tmp_path"] / str(number)
    folder.mkdir()
    return {**fixtures, "tmp_path": folder}


def _shown(row: object) -> str:
    shown = repr(row)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}…"
