"""The one door of the server: nothing reaches a route that did not come through here.

Plain ASGI, so that it stands before WebSockets as it stands before HTTP. In this order: the name the server was called
by, the page that calls, a secret in the address, who calls, and whether they may do this. Then it counts what comes in,
adds the headers every response has, and closes what is open when somebody may no longer be here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qsl

import structlog
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from scrubjay.errors import CatalogError, ScrubjayError
from scrubjay.fleet.access import Action, Principal, may
from scrubjay.ids import PodId
from scrubjay.server.access_table import ACCESS, PUBLIC, AccessTable
from scrubjay.server.credentials import cookie_name, read_cookies
from scrubjay.server.doors import Doors, Entry
from scrubjay.server.errors import code_of, status_of
from scrubjay.server.gate import Gate
from scrubjay.server.limits import HEAD_MAX_BYTES, MeteredBody, too_large
from scrubjay.server.listeners import CALLER, Caller
from scrubjay.server.open_connections import OpenConnection
from scrubjay.server.origins import Origin, parse_origin
from scrubjay.server.refusals import Refused, not_allowed, refuse, secured
from scrubjay.server.request_context import context_of, in_context
from scrubjay.settings import user_name

PRINCIPAL = "scrubjay.principal"
"""Where a route finds in its scope who has come; None on a public one."""
ORIGIN = "scrubjay.origin"
"""Where a route finds in its scope by which origin of the server it was reached; None over the unix socket."""
POD = "scrubjay.pod"
"""Where a route about a pod finds in its scope which one: names do not mean the same to everybody."""
LOCAL = Principal("local", "operator", user_name() or "local")
"""Whoever comes by the unix socket: the user who runs the server."""
_CONNECTION = "scrubjay.connection"

RECHECK_S = 2.0  # how often those who have something open are looked up again

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_SECRET_PARAMETERS = frozenset({"token", "access_token", "api_key", "apikey", "authorization"})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Admitted:
    principal: Principal | None
    pod: PodId | None
    origin: Origin | None
    entry: Entry
    caller: Caller

    def needs(self) -> list[tuple[Action, PodId]]:
        """What must stay allowed while the answer lasts."""
        action = self.entry.access.action
        return [] if self.pod is None or action == PUBLIC else [(action, self.pod)]


class Guard:
    """The application behind its door."""

    def __init__(self, app: Starlette, gate: Gate, *, table: AccessTable = ACCESS) -> None:
        self._app, self._gate = app, gate
        self._doors = Doors(app.routes, table)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        match scope["type"]:
            case "http" | "websocket":
                await self._handle(scope, receive, send)
            case "lifespan":
                await self._live(scope, receive, send)
            case other:
                raise NotImplementedError(f"the guard does not know {other!r}")

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            await self._app(scope, receive, send)
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self) -> None:
        """Close what belongs to an ended credential or right, whoever has ended it, the clock included."""
        while True:
            await asyncio.sleep(RECHECK_S)
            await self._gate.close_lapsed()
            for principal in self._gate.connections.principals():
                try:
                    if not await self._gate.credentials.still_good(principal):
                        await self._gate.put_out(principal.id, reason="ended")
                except CatalogError:
                    break  # nothing can be said now; those who come new are refused meanwhile
                except Exception:  # whatever it is, nobody else may stay for it
                    log.exception("guard.not_rechecked", principal=principal.id)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            admitted = await self._admit(scope)
        except Refused as refused:
            await refuse(refused, scope, receive, send)
            return
        scope[PRINCIPAL], scope[POD], scope[ORIGIN] = admitted.principal, admitted.pod, admitted.origin
        if scope["type"] == "websocket":
            await self._websocket(admitted, scope, receive, send)
        else:
            await self._http(admitted, scope, receive, send)

    async def _websocket(self, admitted: _Admitted, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_secured(message: Message) -> None:
            if message["type"] == "websocket.http.response.start":
                message = {**message, "headers": secured(list(message.get("headers", [])))}
            await send(message)

        if admitted.principal is None:
            await self._app(scope, receive, send_secured)
            return
        connection = OpenConnection(admitted.principal, send_secured, admitted.caller.abort, websocket=True)
        connection.needs += admitted.needs()
        scope[_CONNECTION] = connection
        with self._gate.connections.holding(connection):
            await self._app(scope, receive, connection.send)

    async def _http(self, admitted: _Admitted, scope: Scope, receive: Receive, send: Send) -> None:
        body = MeteredBody(receive, max_bytes=admitted.entry.access.body_max_bytes)
        answer = _Answer(send)

        async def receive_metered() -> Message:
            try:
                return await body()
            except Refused as refused:
                await answer.refuse(refused, scope, receive, admitted.caller)
                raise

        if admitted.principal is None:
            await answer.of(self._app, scope, receive_metered)
            return
        connection = OpenConnection(admitted.principal, send, admitted.caller.abort, websocket=False)
        connection.needs += admitted.needs()
        with self._gate.connections.holding(connection), in_context(context_of(scope, admitted.principal)):
            await answer.of(self._app, scope, receive_metered)

    async def _admit(self, scope: Scope) -> _Admitted:
        headers = _Headers(scope)
        caller = _caller(scope)
        own = self._named(headers, caller)
        calling = _calling_page(headers, own)
        _check_address(scope)
        entry = self._doors.find(scope)
        public = entry is not None and entry.access.action == PUBLIC
        principal = None if public else await self._identify(scope, headers, own, calling, caller)
        if entry is None:
            raise self._nowhere(scope)
        pod = None if principal is None else await self._check_access(principal, entry)
        _check_length(headers, entry)
        return _Admitted(principal, pod, _reached(own, caller), entry, caller)

    def _named(self, headers: _Headers, caller: Caller) -> frozenset[Origin]:
        """The origins of ours that a request is for."""
        if caller.kind == "unix":
            return frozenset(self._gate.addresses.origins)
        hosts = headers.all("host")
        own = self._gate.addresses.named(hosts[0]) if len(hosts) == 1 else frozenset[Origin]()
        if not own:
            known = ", ".join(str(origin) for origin in self._gate.addresses.origins[:3])
            raise Refused(
                421, "wrong_host", "this server does not answer to that name", hint=f"use {known}, or add it to names"
            )
        return own

    async def _identify(
        self, scope: Scope, headers: _Headers, own: frozenset[Origin], calling: Origin | None, caller: Caller
    ) -> Principal:
        token = _bearer(headers)
        cookies = [value for origin in own for value in read_cookies(headers.all("cookie"), cookie_name(origin.port))]
        if token is not None and cookies:
            raise Refused(
                400, "two_credentials", "a request shows a token and a cookie", hint="send one of the two, not both"
            )
        try:
            if token is not None:
                principal = await self._gate.credentials.check_token(token)
            elif cookies:
                principal = await self._gate.credentials.check_cookie(cookies[0]) if len(set(cookies)) == 1 else None
                if principal is not None:
                    _check_same_site(scope, headers, calling)
            elif caller.kind == "unix":
                return LOCAL
            else:
                raise _unknown_caller("no_credential", "who are you? this server lets nobody in without a token")
        except CatalogError as error:
            raise Refused(
                503, "unavailable", "the catalog cannot be read", hint=error.hint, headers={"Retry-After": "2"}
            ) from error
        if principal is None:
            raise self._bad_credential(caller)
        return principal

    async def _check_access(self, principal: Principal, entry: Entry) -> PodId | None:
        """Refuse who may not do this; the pod it is about, if it is about one."""
        action = entry.access.action
        assert action != PUBLIC
        if entry.access.pod is None:
            if not may(principal, action):
                raise not_allowed(principal.role)
            return None
        try:
            return await self._gate.permits.find(principal, action, entry.parameters[entry.access.pod])
        except ScrubjayError as error:
            raise Refused(status_of(error), code_of(error), str(error), hint=error.hint) from error

    def _bad_credential(self, caller: Caller) -> Refused:
        wait_s = self._gate.failures.note(caller.address)
        if wait_s is not None:
            return too_many(wait_s)
        log.warning("guard.refused", address=caller.address, reason="bad_credential")
        return _unknown_caller("bad_credential", "that token or login is not good, or not any more")

    def _nowhere(self, scope: Scope) -> Refused:
        methods = self._doors.methods(scope) if scope["type"] == "http" else []
        if methods == ["WEBSOCKET"]:
            return Refused(426, "websocket_only", "there is only a WebSocket here", headers={"Upgrade": "websocket"})
        if methods:
            allowed = ", ".join(method for method in methods if method != "WEBSOCKET")
            return Refused(405, "wrong_method", f"there is only {allowed} here", headers={"Allow": allowed})
        return Refused(404, "not_found", "there is nothing here", hint="/api/v1/openapi.json lists what there is")


def principal_of(scope: Scope) -> Principal:
    """Who has come to a route that is not public."""
    principal = scope[PRINCIPAL]
    assert isinstance(principal, Principal)
    return principal


def pod_of(scope: Scope) -> PodId:
    """The pod that a route is about."""
    pod = scope[POD]
    assert isinstance(pod, str)
    return PodId(pod)


def need_while_open(scope: Scope, action: Action, pod: PodId) -> None:
    """Have a WebSocket closed when its owner may not do this any more."""
    connection = scope[_CONNECTION]
    assert isinstance(connection, OpenConnection)
    connection.needs.append((action, pod))


def too_many(wait_s: int) -> Refused:
    """The refusal of who fails again and again."""
    return Refused(
        429,
        "too_many_failures",
        f"too many bad tokens or logins from there, wait {wait_s} s",
        headers={"Retry-After": str(wait_s), "Connection": "close"},
    )


class _Headers:
    """The headers of a request, each as often as it came."""

    def __init__(self, scope: Scope) -> None:
        raw = cast(list[tuple[bytes, bytes]], scope["headers"])
        if sum(len(name) + len(value) for name, value in raw) > HEAD_MAX_BYTES:
            raise Refused(431, "too_large", f"the head of a request is limited to {HEAD_MAX_BYTES} bytes")
        self._found: Mapping[str, list[str]] = {}
        for name, value in raw:
            self._found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())

    def all(self, name: str) -> list[str]:
        return self._found.get(name, [])

    def one(self, name: str) -> str | None:
        values = self.all(name)
        if len(values) > 1:
            raise Refused(400, "repeated_header", f"the header {name} came more than once")
        return values[0] if values else None


class _Answer:
    """The response to one request, with the headers every response has."""

    def __init__(self, send: Send) -> None:
        self._send_raw = send
        self._started = False
        self._refused = False

    async def of(self, app: Starlette, scope: Scope, receive: Receive) -> None:
        """Let the application answer."""
        try:
            await app(scope, receive, self.send)
        except Refused:
            if not self._refused:
                raise

    async def send(self, message: Message) -> None:
        """Send for the application, unless its request has been refused meanwhile."""
        if self._refused:
            return
        if message["type"] == "http.response.start":
            self._started = True
            message = {**message, "headers": secured(list(message.get("headers", [])))}
        await self._send_raw(message)

    async def refuse(self, refused: Refused, scope: Scope, receive: Receive, caller: Caller) -> None:
        """Answer in the application's place; once it has begun, only hanging up is left."""
        self._refused = True
        if self._started:
            caller.abort()
            return
        await refuse(refused, scope, receive, self._send_raw)


def _caller(scope: Scope) -> Caller:
    state = cast(dict[str, object], scope.get("state") or {})
    caller = state.get(CALLER)
    if isinstance(caller, Caller):
        return caller
    client = scope.get("client")
    return Caller("tcp", client[0] if client else "", lambda: None)


def _calling_page(headers: _Headers, own: frozenset[Origin]) -> Origin | None:
    """The page of ours that calls; None if none does. Any other page is refused."""
    raw = headers.one("origin")
    if raw is None:
        return None
    calling = parse_origin(raw)
    if calling is None or calling not in own:
        raise Refused(403, "foreign_origin", "pages of other sites may not call this server")
    return calling


def _check_address(scope: Scope) -> None:
    query = cast(bytes, scope.get("query_string", b"")).decode("latin-1")
    names = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
    if "sjt_" in query or names & _SECRET_PARAMETERS:
        raise Refused(
            400,
            "token_in_address",
            "a token does not belong in an address, where logs and histories keep it",
            hint="send it as 'Authorization: Bearer …', and revoke it, for it may have been seen",
        )


def _bearer(headers: _Headers) -> str | None:
    raw = headers.one("authorization")
    if raw is None:
        return None
    scheme, _, token = raw.partition(" ")
    if scheme.lower() != "bearer":
        raise _unknown_caller("bad_credential", "only 'Authorization: Bearer …' is understood")
    return token.strip()


def _check_same_site(scope: Scope, headers: _Headers, calling: Origin | None) -> None:
    """Refuse what another page may have made a logged-in browser send."""
    if headers.one("sec-fetch-site") in ("cross-site", "same-site"):
        raise Refused(403, "foreign_site", "pages of other sites may not use your login")
    changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
    if changes and calling is None:
        raise Refused(403, "no_origin", "a browser says where a call comes from, and this one does not")


def _check_length(headers: _Headers, entry: Entry) -> None:
    raw = headers.one("content-length")
    if raw is not None and raw.isascii() and raw.isdigit() and int(raw[:20]) > entry.access.body_max_bytes:
        raise too_large(entry.access.body_max_bytes)


def _reached(own: frozenset[Origin], caller: Caller) -> Origin | None:
    return None if caller.kind == "unix" else min(own, key=lambda origin: origin.scheme)


def _unknown_caller(code: str, message: str) -> Refused:
    return Refused(
        401,
        code,
        message,
        hint="'scrubjay token create' makes a token for 'Authorization: Bearer', 'scrubjay login' a link for a browser",
        headers={"WWW-Authenticate": 'Bearer realm="scrubjay"'},
    )
