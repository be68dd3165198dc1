"""A runner whose answers cannot be relied on, after Temporal's fault injection.

What it is asked to type it may be told to fail at: without doing it, or after doing it, as when an answer gets lost; or
to do it and never answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal
from unittest import mock

from scrubjay.errors import KeeperRefused
from scrubjay.server.peer import ANSWER_WITHIN_S, Peer
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Request, Type

Fate = Literal["Done", "ExecuteAndTimeout", "Timeout", "Never"]
FAULTS: tuple[Fate, ...] = ("ExecuteAndTimeout", "Timeout")


@contextmanager
def faulty(fate_of: Callable[[Type], Fate]) -> Generator[None]:
    """Let something become of what is to be typed while inside."""
    ask = Peer.ask

    async def ask_faulty(peer: Peer, request: Request, *, timeout_s: float = ANSWER_WITHIN_S) -> Json:
        fate = fate_of(request) if isinstance(request, Type) else "Done"
        answer = await ask(peer, request, timeout_s=timeout_s) if fate != "Timeout" else {}
        if fate == "Never":
            await asyncio.Event().wait()
        if fate != "Done":
            raise KeeperRefused("the runner did not answer")
        return answer

    with mock.patch.object(Peer, "ask", ask_faulty):
        yield
