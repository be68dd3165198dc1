"""The first prompt of an agent that takes none on its command line: typed, once, when it waits for one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from scrubjay.errors import KeeperGone, KeeperRefused, PodNotRunning
from scrubjay.runner.tended import Tended
from scrubjay.status.claims import SURE
from scrubjay.tape.record import Json

_ENTER_AFTER_S = 0.3  # programs that take a burst for a paste do not take an Enter in it for one
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_AUTHOR = "scrubjay"


def is_due(tended: Tended, status: Json) -> bool:
    """Whether the first prompt is to be typed now."""
    confidence = status.get("confidence")
    return (
        tended.pod.type_when_ready is not None
        and status.get("activity") == "idle"
        and isinstance(confidence, int | float)
        and confidence >= SURE
    )


async def type_first_prompt(tended: Tended) -> bool:
    """Type it, unless that was done; whether it was typed."""
    prompt = await asyncio.to_thread(tended.pod.claim_prompt)
    if prompt is None:
        return False
    typed = f"{_PASTE}{prompt}{_PASTE_END}" if "\n" in prompt else prompt
    with suppress(KeeperGone, KeeperRefused, PodNotRunning):  # it has ended meanwhile
        tended.link.send({"do": "write", "author": _AUTHOR}, typed.encode())
        await asyncio.sleep(_ENTER_AFTER_S)
        tended.link.send({"do": "write", "author": _AUTHOR}, b"\r")
    return True
