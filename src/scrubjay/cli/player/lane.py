"""The one thread that may use the film, so that drawing and keys never wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

_Result = TypeVar("_Result")
_FAREWELL_S = 2.0  # for what is under way when the person leaves


class Lane:
    """Does one thing after another.

    The thread is a daemon: leaving the player does not wait for an export that takes minutes.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def do(self, job: Callable[[], _Result]) -> _Result:
        """What ``job`` returns or raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def settle(result: _Result | None, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # pyright: ignore[reportArgumentType]

        def run() -> None:
            try:
                outcome = (job(), None)
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(settle, *outcome)

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="film", daemon=True)
            self._thread.start()
        self._jobs.put(run)
        return await done

    def close(self) -> None:
        """Take no more jobs, and wait a little for the one under way."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
