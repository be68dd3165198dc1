"""How much one client may send, and how fast it may fail."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from starlette.types import Message, Receive

from scrubjay.server.refusals import Refused

if TYPE_CHECKING:
    from scrubjay.clock import Clock

HEAD_MAX_BYTES = 64 << 10  # request line and headers
HEAD_MAX_S = 10.0  # from a connection's first byte, or its opening, to the end of the headers
BODY_MAX_BYTES = 1 << 20  # where a route does not say otherwise
BODY_MAX_S = 60.0
REST_MAX_BYTES = 32 << 20  # of what was refused, read and dropped so that the refusal is seen
REST_MAX_S = 5.0
MESSAGE_MAX_BYTES = 1 << 20  # of a WebSocket
RUNNER_MESSAGE_MAX_BYTES = 64 << 20  # of a runner's: all its pods, or a screen with a colour for each letter
FRAGMENTS_MAX = 1024  # of one message; empty ones cost memory and count no bytes

_FAILURES_MAX = 20  # at once
_FAILURES_PER_S = 0.5  # forgiven
_ADDRESSES_MAX = 4096


class MeteredBody:
    """A request body that ends in a refusal when it is too large or too slow."""

    def __init__(self, receive: Receive, *, max_bytes: int) -> None:
        self._receive, self._max_bytes, self._left = receive, max_bytes, max_bytes
        self._until: float | None = None
        self._whole = False

    async def __call__(self) -> Message:
        """The next part of it."""
        if self._whole:
            return await self._receive()  # whether the client is still there
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + BODY_MAX_S
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "too_slow", f"the request did not arrive within {BODY_MAX_S:g} s") from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise too_large(self._max_bytes)
        self._whole = not message.get("more_body", False)
        return message


def too_large(max_bytes: int) -> Refused:
    """The refusal of a body above its limit."""
    return Refused(413, "too_large", f"the request is larger than {max_bytes} bytes")


class Failures:
    """How often each address has shown a bad credential of late.

    Secrets have 260 random bits, so nobody guesses one and good ones are never held up; this keeps a broken client from
    filling logs, and tells it to slow down. Addresses are forgotten when there are too many.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def note(self, address: str) -> int | None:
        """Count a failure; the seconds to wait if there were too many."""
        now_us = self._clock.monotonic_us()
        count, at_us = self._seen.pop(address, (0.0, now_us))
        count = max(0.0, count - (now_us - at_us) / 1e6 * _FAILURES_PER_S) + 1
        # Capped, or a flood would keep its address waiting for hours.
        self._seen[address] = (min(count, _FAILURES_MAX + 10.0), now_us)
        if len(self._seen) > _ADDRESSES_MAX:
            self._seen.popitem(last=False)
        over = count - _FAILURES_MAX
        return None if over <= 0 else max(1, round(over / _FAILURES_PER_S))
