"""``/mcp``: requests of agents, from the guard to the tools.

Two eras of the protocol come here. The older one begins with a handshake and then names a session in each request.
The SDK would keep those in memory, and official clients do not survive their loss. Here a session is a row of the
catalog and each request is handled as if it were the only one: no client notices that the server was started again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import structlog
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from scrubjay.fleet.access import Principal
from scrubjay.ids import WireSessionId
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.guard import principal_of
from scrubjay.server.mcp.calls import Calls
from scrubjay.server.mcp.sessions import WireSessions
from scrubjay.server.request_context import current_context, in_context, with_meta
from scrubjay.tape.record import Json

if TYPE_CHECKING:
    from scrubjay.server.mcp.protocol import Protocol
    from scrubjay.server.mcp.toolbox import Tool

METHODS = ("GET", "POST", "DELETE")

_DRAIN_S = 1.0  # for the answers of calls that were ended with the server to be taken
_CLIENT_MAX = 200  # characters of what a client calls itself
_VERSION_HEADER, _SESSION_HEADER = b"mcp-protocol-version", b"mcp-session-id"
_INVALID_REQUEST, _UNAVAILABLE = -32600, -32000  # of JSON-RPC

log = structlog.get_logger()


def all_tools() -> Iterable[Tool]:
    """The tools of the server. Loading them is a part of what waits for the first agent."""
    from scrubjay.server.mcp import (
        binding_tools,
        channel_tools,
        fleet_tools,
        handoff_tools,
        memory_tools,
        session_tools,
        wait_tools,
    )

    return (
        *fleet_tools.TOOLS,
        *channel_tools.TOOLS,
        *wait_tools.TOOLS,
        *handoff_tools.TOOLS,
        *binding_tools.TOOLS,
        *session_tools.TOOLS,
        *memory_tools.TOOLS,
    )


class McpEndpoint:
    """The endpoint of one server, as an ASGI application; ``run`` goes on beside it."""

    def __init__(self, coordination: Coordination, tools: Callable[[], Iterable[Tool]] = all_tools) -> None:
        self._coordination, self._tools = coordination, tools
        self._sessions = WireSessions(coordination.tower.database, coordination.tower.clock)
        self._calls = Calls()
        self._wanted, self._settled = asyncio.Event(), asyncio.Event()
        self._protocol: Protocol | None = None
        self._requests: set[asyncio.Event] = set()

    def prepare(self) -> None:
        """Load the protocol, for an agent is about to come: one that must wait begins its first turn without tools."""
        self._wanted.set()

    async def run(self) -> None:
        """Load the protocol when somebody wants it, and be what its requests run in, until cancelled."""
        try:
            await self._wanted.wait()
            protocol = await self._load()
            if protocol is None:
                self._settled.set()
                await asyncio.Event().wait()
                return
            async with protocol.running():
                self._protocol = protocol
                self._settled.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self._protocol = None
                    await self._end()
        finally:
            self._protocol = None
            self._settled.set()

    async def _load(self) -> Protocol | None:
        try:
            return await asyncio.to_thread(self._build)
        except Exception:  # a broken installation: all else goes on, and who comes here is told
            log.exception("mcp.not_loaded")
            return None

    def _build(self) -> Protocol:
        from scrubjay.server.mcp.protocol import Protocol
        from scrubjay.server.mcp.toolbox import Toolbox

        return Protocol(Toolbox(self._coordination, self._tools()), self._calls)

    async def _end(self) -> None:
        """End the calls that are being carried out; each is answered."""
        await self._calls.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for request in list(self._requests):
                    await request.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard has let through."""
        principal = principal_of(scope)
        match scope["method"]:
            case "POST":
                answered = asyncio.Event()
                self._requests.add(answered)
                try:
                    await self._post(principal, scope, receive, send)
                finally:
                    self._requests.discard(answered)
                    answered.set()
            case "DELETE":
                await (await self._delete(principal, scope))(scope, receive, send)
            case _:  # there is no stream apart from answers: nothing is ever said without being asked
                response = _refusal(405, _INVALID_REQUEST, "Method not allowed", {"Allow": "POST, DELETE"})
                await response(scope, receive, send)

    async def _delete(self, principal: Principal, scope: Scope) -> Response:
        """A client says that it ends: whatever session it holds is free."""
        context, raw = current_context(), _header(scope, _SESSION_HEADER)
        if raw is None and context.client is None:
            return _refusal(400, _INVALID_REQUEST, "There is no session to end")
        if raw is not None:
            if not await self._sessions.close(principal, raw):
                return _no_session()
            context = replace(context, connection=WireSessionId(raw))
        await self._coordination.sessions.leave(context)
        return Response()

    async def _post(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        await self._settled.wait()
        protocol = self._protocol
        if protocol is None:
            response = _refusal(503, _UNAVAILABLE, "The server cannot do this now", {"Retry-After": "2"})
            await response(scope, receive, send)
            return
        request = await _Request.read(scope, receive)
        if request is not None:
            if principal.pod is not None:  # an agent may call before its runner has reported its pod
                await self._coordination.tower.until_known(principal.pod)
            await self._answer(protocol, principal, request, send)

    async def _answer(self, protocol: Protocol, principal: Principal, request: _Request, send: Send) -> None:
        from scrubjay.server.mcp.protocol import ASSUMED_VERSION, is_handshake, negotiate

        if not is_handshake(request.version):
            with in_context(replace(current_context(), protocol=cast(str, request.version))):
                await self._handle(protocol, request, send)
            return
        if request.session is None:
            hello = request.hello()
            if hello is not None:
                send = self._opening(principal, hello, negotiate(hello.get("protocolVersion")), send)
            with in_context(replace(current_context(), protocol=request.version or ASSUMED_VERSION)):
                await self._handle(protocol, request, send)
            return
        session = await self._sessions.find(principal, request.session)
        if session is None:
            await _no_session()(request.scope, request.receive, send)
            return
        with in_context(replace(current_context(), protocol=session.protocol, connection=session.id)):
            await self._handle(protocol, request, send)

    async def _handle(self, protocol: Protocol, request: _Request, send: Send) -> None:
        """Whoever waits for an answer is there, and holds what they hold."""
        with self._coordination.sessions.heartbeats.busy(current_context().holder):
            await protocol.handle(request.scope, request.receive, send)

    def _opening(self, principal: Principal, hello: Json, protocol: str, send: Send) -> Send:
        """Begin a protocol session when a handshake succeeds, and name it in the answer.

        A handshake may ask for the session it comes back to. What came of it, each later answer about it says.
        """
        context = current_context()
        wanted = with_meta(context, hello.get("_meta")).handle

        async def send_opening(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                session = await self._sessions.open(principal, client=_client(hello), protocol=protocol)
                message = _naming(message, session)
                if session is not None and wanted is not None:
                    with in_context(replace(context, connection=session)):
                        await self._coordination.sessions.come_back(principal, wanted)
            await send(message)

        return send_opening


class _Request:
    """A POST whose body has come, and can be looked at before the SDK reads it."""

    def __init__(self, scope: Scope, body: bytes, receive: Receive) -> None:
        self.scope, self._body, self._receive = scope, body, receive
        self._given = False
        self.version = _header(scope, _VERSION_HEADER)
        self.session = _header(scope, _SESSION_HEADER)

    @classmethod
    async def read(cls, scope: Scope, receive: Receive) -> _Request | None:
        """Take the body, which the guard has limited; None if the client has gone meanwhile."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if not message.get("more_body", False):
                return cls(scope, bytes(body), receive)

    async def receive(self) -> Message:
        """The body once more, then whether the client is still there."""
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    def hello(self) -> Json | None:
        """What a client says to begin with a handshake; None if it does not."""
        if b'"initialize"' not in self._body:
            return None
        try:
            message = json.loads(self._body)
            if message["method"] != "initialize":
                return None
            return cast(Json, dict(message["params"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def _header(scope: Scope, name: bytes) -> str | None:
    headers = cast(list[tuple[bytes, bytes]], scope["headers"])
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), None)


def _client(hello: Json) -> Json:
    """What a client calls itself."""
    told = hello.get("clientInfo")
    if not isinstance(told, dict):
        return {}
    fields = cast(Json, told)
    return {name: str(fields[name])[:_CLIENT_MAX] for name in ("name", "version") if name in fields}


def _naming(message: Message, session: WireSessionId | None) -> Message:
    if session is None:
        return message
    headers = cast(list[tuple[bytes, bytes]], message.get("headers", []))
    return {**message, "headers": [*headers, (_SESSION_HEADER, session.encode())]}


def _no_session() -> Response:
    # The same for one that never was and for another's. Clients begin anew when they see the status.
    return _refusal(404, _INVALID_REQUEST, "Session not found")


def _refusal(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(body, status, headers)
