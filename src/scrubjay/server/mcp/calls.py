"""The calls of tools that are being carried out: each can be ended, alone or all of them with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TypeVar

from scrubjay.errors import ScrubjayError

_T = TypeVar("_T")

CallKey = tuple[str, str | int]
"""A connection, and what its client calls the request."""

FINISH_S = 0.5  # for those that are nearly done when the server ends; one that waits for something else will not be


class CallCancelled(ScrubjayError):
    """Whoever called a tool does not want the answer any more."""

    def __init__(self) -> None:
        super().__init__("the call was cancelled")


class ServerEnding(ScrubjayError):
    """The server is being shut down, and a call with it."""

    def __init__(self) -> None:
        super().__init__("the server is being shut down", hint="call again in a few seconds, when it is back")


@dataclass(slots=True, eq=False)
class _Running:
    task: asyncio.Task[object]
    ended_by: ScrubjayError | None = None

    def end(self, reason: ScrubjayError) -> None:
        if self.ended_by is None:
            self.ended_by = reason
            self.task.cancel()


class Calls:
    """All calls of one server."""

    def __init__(self) -> None:
        self._running: set[_Running] = set()
        self._by_key: dict[CallKey, _Running] = {}
        self._closed = False

    async def carry_out(self, work: Coroutine[object, object, _T], key: CallKey | None = None) -> _T:
        """Do something that can be ended; CallCancelled or ServerEnding if it was.

        It is cancelled as well when whoever waits for it is.
        """
        if self._closed:
            work.close()
            raise ServerEnding
        task = asyncio.create_task(work)
        running = _Running(task)
        self._running.add(running)
        if key is not None:
            self._by_key[key] = running
        try:
            return await task
        except asyncio.CancelledError:
            if running.ended_by is None or _is_cancelled():
                raise
            raise running.ended_by from None
        finally:
            self._running.discard(running)
            if key is not None and self._by_key.get(key) is running:
                del self._by_key[key]

    def cancel(self, key: CallKey) -> None:
        """End a call, if it is still being carried out."""
        running = self._by_key.get(key)
        if running is not None:
            running.end(CallCancelled())

    async def close(self) -> None:
        """Take no more, let those finish that can in a moment, and end the others."""
        self._closed = True
        tasks = [running.task for running in self._running]
        if tasks:
            await asyncio.wait(tasks, timeout=FINISH_S)
        for running in list(self._running):
            running.end(ServerEnding())


def _is_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
