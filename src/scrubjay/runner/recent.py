"""The newest bytes of one tape in memory, so that what was just recorded is not read from its files again. Pure."""

from __future__ import annotations

from collections import deque

RECENT_BYTES = 256 << 10


class RecentBytes:
    """A stretch of a tape that ends where the tape does."""

    def __init__(self, offset: int = 0) -> None:
        self._chunks: deque[bytes] = deque()
        self._first = self.end = offset  #: after the last byte

    def add(self, offset: int, data: bytes) -> None:
        """Bytes that follow; others begin anew."""
        if offset != self.end:
            self._chunks.clear()
            self._first = self.end = offset
        self._chunks.append(data)
        self.end += len(data)
        while self.end - self._first - len(self._chunks[0]) >= RECENT_BYTES:
            self._first += len(self._chunks.popleft())

    def read(self, offset: int, limit: int) -> bytes | None:
        """Up to ``limit`` bytes from an offset; None if they are not here."""
        if not self._first <= offset < self.end:
            return None
        if offset == self.end - len(self._chunks[-1]):
            return self._chunks[-1][:limit]  # nearly always: what has just arrived
        parts: list[bytes] = []
        position = self.end
        for chunk in reversed(self._chunks):  # what is wanted is near the end
            position -= len(chunk)
            if position <= offset:
                parts.append(chunk[offset - position :])
                break
            parts.append(chunk)
        return b"".join(reversed(parts))[:limit]
