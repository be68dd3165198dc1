"""Who has sent a request, over which connection and about which session.

Set where a request comes in, read where it is carried out: no argument of a tool and no field of a body says who
somebody is. It is one variable of the context, so whatever is started for a request is of that request.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import parse_qs

from starlette.types import Scope

from scrubjay.fleet.access import Principal
from scrubjay.fleet.sessions import Holder, pod_holder
from scrubjay.ids import WireSessionId

SESSION_HEADER, TAKEOVER_HEADER = "Scrubjay-Session", "Scrubjay-Takeover"
CONNECTION_HEADER, EPOCH_HEADER = "Scrubjay-Connection", "Scrubjay-Epoch"
SESSION_QUERY = "session"
SESSION_META, EPOCH_META = "dev.scrubjay/session", "dev.scrubjay/epoch"
"""The same in the ``_meta`` of a request of MCP."""

_NAMED_MAX = 200  # characters of what a client calls a session or itself: the rest is nobody's id
_EPOCH = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Somebody whom the guard has let in, and how they speak."""

    principal: Principal
    protocol: str = "rest"  #: or the version of MCP that the request is in
    connection: WireSessionId | None = None  #: of an MCP client that began with a handshake and names it
    client: str | None = None  #: what any other client calls its connection, so that two of one token are two
    session: str | None = None  #: the session that the connection was made for, as it was given
    takeover: bool = False  #: and whether it may be taken from whoever has it
    handle: str | None = None  #: the session that this request alone is about, as it was given
    epoch: int | None = None  #: the one somebody believes to have

    @property
    def holder(self) -> Holder:
        """Who holds a session that is opened or resumed by this request: the pod, or the connection."""
        whose = self.principal.id
        if self.principal.pod is not None:
            return pod_holder(self.principal.pod)
        if self.client is not None:  # before the other, which a client may have to begin anew
            return Holder(f"client:{whose}:{self.client}")
        if self.connection is not None:
            return Holder(f"wire:{whose}:{self.connection}")
        return Holder(f"principal:{whose}:{self.session or ''}")  # by what it asks for, if nothing else tells it


_CONTEXT: ContextVar[RequestContext] = ContextVar("scrubjay.request")


def current_context() -> RequestContext:
    """Who has sent the request that is being carried out, and how."""
    return _CONTEXT.get()


@contextmanager
def in_context(context: RequestContext) -> Generator[None]:
    """Carry out a request: all that is started inside is part of it."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def context_of(scope: Scope, principal: Principal) -> RequestContext:
    """What the head of a request says."""
    headers = cast(list[tuple[bytes, bytes]], scope["headers"])
    found = {name.lower(): value.decode("latin-1").strip() for name, value in headers}
    query = parse_qs(cast(bytes, scope.get("query_string", b"")).decode("latin-1"))
    session = found.get(SESSION_HEADER.lower().encode()) or next(iter(query.get(SESSION_QUERY, ())), None)
    epoch = found.get(EPOCH_HEADER.lower().encode(), "")
    return RequestContext(
        principal,
        client=_cut(found.get(CONNECTION_HEADER.lower().encode())),
        session=_cut(session),
        takeover=found.get(TAKEOVER_HEADER.lower().encode(), "").lower() in ("1", "true"),
        epoch=int(epoch) if _EPOCH.fullmatch(epoch) else None,
    )


def with_meta(context: RequestContext, meta: object) -> RequestContext:
    """The same with what the ``_meta`` of a request says."""
    if not isinstance(meta, dict):
        return context
    told = cast("dict[str, object]", meta)
    handle, epoch = told.get(SESSION_META), told.get(EPOCH_META)
    return replace(
        context,
        handle=_cut(handle) if isinstance(handle, str) else context.handle,
        epoch=epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else context.epoch,
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_NAMED_MAX]
