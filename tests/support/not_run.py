"""What is said at the end of the tests that did not run: why, and the one command that makes each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NoReturn

import pytest

from tests.support.tiers import TIER

_SEPARATOR = " — "
#: Which command runs what a marker takes out of ``make test``.
_ELSEWHERE = {
    "agents": "make test-agents",
    "alone": "make chaos",
    "chaos": "make chaos",
    "night": "make chaos TIER=night",
}


def do_not_run(why: str, *, remedy: str) -> NoReturn:
    """Skip the test that is about to run, and say how it would run."""
    pytest.skip(f"{why}{_SEPARATOR}{remedy}")


def count_elsewhere(items: Iterable[pytest.Item]) -> dict[str, int]:
    """How many of these tests each other command runs."""
    commands = (_command_for(item) for item in items)
    return dict(Counter(command for command in commands if command is not None))


def _command_for(item: pytest.Item) -> str | None:
    if TIER != "test" and item.get_closest_marker("alone") is not None:
        return None  # the second part of what runs
    return next((command for mark, command in _ELSEWHERE.items() if item.get_closest_marker(mark) is not None), None)


def describe(skipped: Iterable[pytest.TestReport], elsewhere: Mapping[str, int]) -> list[str]:
    """The lines that say what did not run."""
    reasons: dict[str, list[str]] = {}
    for report in skipped:
        reasons.setdefault(_reason(report), []).append(report.nodeid.partition("[")[0])
    lines: list[str] = []
    for reason, tests in sorted(reasons.items()):
        why, _, remedy = reason.partition(_SEPARATOR)
        lines.append(f"{len(tests)} x {why}" + (f": {remedy}" if remedy else ""))
        lines += [
            f"    {name}" + (f" x {times}" if times > 1 else "") for name, times in sorted(Counter(tests).items())
        ]
    return lines + [f"{count} x runs elsewhere: {command}" for command, count in sorted(elsewhere.items())]


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
