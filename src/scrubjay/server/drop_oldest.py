"""A queue that never makes anybody wait who puts something in."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class DropOldest(Generic[T]):
    """Holds the newest ``most``."""

    def __init__(self, most: int) -> None:
        self._items: deque[T] = deque(maxlen=most)
        self._some = asyncio.Event()

    def put(self, item: T) -> bool:
        """Add an item; whether another was dropped for it."""
        full = len(self._items) == self._items.maxlen
        self._items.append(item)
        self._some.set()
        return full

    async def get(self) -> T:
        """The oldest, waiting for it."""
        await self._some.wait()
        item = self._items.popleft()
        if not self._items:
            self._some.clear()
        return item

    def take_all(self) -> list[T]:
        """What is there now."""
        items = list(self._items)
        self._items.clear()
        self._some.clear()
        return items
