"""Wait for a condition, with a deadline that says "never" and not "late".

A busy machine may take a hundred times as long as an idle one, so a deadline here only ends a test that would wait
forever. A promise about time is asserted where nothing else runs, by a test marked ``alone``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_Value = TypeVar("_Value")

DEADLINE_S = 90.0
_POLL_S = 0.005


def eventually(condition: Callable[[], _Value | None], what: str, *, within_s: float = DEADLINE_S) -> _Value:
    """Wait until ``condition`` returns something true, and return it; AssertionError after the deadline."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(_POLL_S)
    return value


async def until(condition: Callable[[], _Value | None], what: str, *, within_s: float = DEADLINE_S) -> _Value:
    """Wait like ``eventually`` while the event loop runs."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(_POLL_S)
    return value


async def until_asked(
    ask: Callable[[], Awaitable[_Value | None]], what: str, *, within_s: float = DEADLINE_S
) -> _Value:
    """Ask until the answer is something true, and return it; AssertionError after the deadline."""
    deadline = time.monotonic() + within_s
    while not (value := await ask()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(_POLL_S)
    return value
