"""Wait for a condition, with a deadline that says "never" and not "late".

A busy machine may take a hundred times as long as an idle one, so a deadline here only ends a test that would wait
forever. A promise about time is asserted where nothing else runs, by a test marked ``alone``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

_Value = TypeVar("_Value")

DEADLINE_S = 90.0
_FIRST_PAUSE_S = 0.005  # between two looks
_LONGEST_PAUSE_S = 0.05  # after a second: each look takes processor time from other tests


def eventually(condition: Callable[[], _Value | None], what: str, *, within_s: float = DEADLINE_S) -> _Value:
    """Wait until ``condition`` returns something true, and return it; AssertionError after the deadline."""
    pauses = _pauses_s(what, within_s)
    while not (value := condition()):
        time.sleep(next(pauses))
    return value


async def until(condition: Callable[[], _Value | None], what: str, *, within_s: float = DEADLINE_S) -> _Value:
    """Wait like ``eventually`` while the event loop runs."""
    pauses = _pauses_s(what, within_s)
    while not (value := condition()):
        await asyncio.sleep(next(pauses))
    return value


async def until_asked(
    ask: Callable[[], Awaitable[_Value | None]], what: str, *, within_s: float = DEADLINE_S
) -> _Value:
    """Ask until the answer is something true, and return it; AssertionError after the deadline."""
    pauses = _pauses_s(what, within_s)
    while not (value := await ask()):
        await asyncio.sleep(next(pauses))
    return value


def _pauses_s(what: str, within_s: float) -> Generator[float]:
    deadline = time.monotonic() + within_s
    pause_s = _FIRST_PAUSE_S
    while True:
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        yield pause_s
        pause_s = min(1.05 * pause_s, _LONGEST_PAUSE_S)
