"""Who calls a tool: set where a request comes in, read where it is carried out, and never an argument."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from scrubjay.fleet.access import Principal
from scrubjay.ids import WireSessionId


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whom the guard has let in, and how they speak."""

    principal: Principal
    protocol: str  #: the version of the protocol that the request is in
    connection: WireSessionId | None = None  #: of a client that began with a handshake and names it


_CALLER: ContextVar[Caller] = ContextVar("scrubjay.mcp.caller")


def current_caller() -> Caller:
    """Who has sent the request that is being carried out."""
    return _CALLER.get()


@contextmanager
def calling(caller: Caller) -> Generator[None]:
    """Carry out a request of somebody: all that is started inside is theirs."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)
