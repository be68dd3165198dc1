"""A server with a door, on real sockets: the guard before a few routes of every kind.

Run as a program it serves until its standard input ends, for tests that look at the process.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from scrubjay.cli import machinery
from scrubjay.cli.machinery import CATALOG, SOCKET, copied_tapes
from scrubjay.clock import SystemClock
from scrubjay.errors import NoSuchPod, ScopeMissing, ScrubjayError
from scrubjay.fleet.access import Action, Principal, Role, Scope, may, scope_for
from scrubjay.ids import PodId, PodName, SessionId, new_pod_id
from scrubjay.server.access_table import ACCESS, PUBLIC, Access, AccessTable
from scrubjay.server.app import make_app as make_real_app
from scrubjay.server.credentials import cookie_name
from scrubjay.server.errors import code_of, status_of
from scrubjay.server.gate import Gate
from scrubjay.server.guard import Guard
from scrubjay.server.listeners import Listeners
from scrubjay.server.login import Login, login_link
from scrubjay.server.mcp.endpoint import McpEndpoint
from scrubjay.server.origins import Addresses, own_origins
from scrubjay.server.refusals import error_body, not_allowed
from scrubjay.server.rest.tokens import router as tokens_router
from scrubjay.server.web import serving
from scrubjay.settings import Settings
from scrubjay.store.database import Database
from scrubjay.store.pods import PodFacts, add_pod
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.status import Status
from tests.support.catalogs import make_catalog
from tests.support.conditions import DEADLINE_S

if TYPE_CHECKING:
    from scrubjay.clock import Clock

_REAL_ROUTES = (
    "/healthz",
    "/login",
    "/logout",
    "/api/v1/me",
    "/api/v1/logins",
    "/api/v1/tokens",
    "/api/v1/tokens/{token}",
)
TABLE: AccessTable = {
    **{key: ACCESS[key] for key in ACCESS if key[1] in _REAL_ROUTES},
    ("GET", "/"): Access(PUBLIC),
    ("GET", "/assets/{path}"): Access(PUBLIC),
    ("GET", "/api/v1/pods"): Access("look"),
    ("POST", "/api/v1/pods"): Access("run"),
    ("GET", "/api/v1/pods/{pod}"): Access("look", pod="pod"),
    ("GET", "/api/v1/pods/{pod}/forever"): Access("look", pod="pod"),
    ("POST", "/api/v1/upload"): Access("run", body_max_bytes=4 << 20),
    ("GET", "/api/v1/forever"): Access("look"),
    ("WEBSOCKET", "/api/v1/pods/{pod}/live"): Access("look", pod="pod"),
    ("WEBSOCKET", "/api/v1/flood"): Access("look"),
}


async def _text(_: Request) -> Response:
    return PlainTextResponse("fine")


async def _length(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def _forever(_: Request) -> Response:
    async def lines() -> AsyncGenerator[bytes]:
        while True:
            yield b"tick\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(lines())


async def _echo(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            said = message.get("text") or message.get("bytes") or ""
            await websocket.send_text(json.dumps({"heard": len(said)}))
    except WebSocketDisconnect:
        return


async def _flood(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_bytes(bytes(65536))
    except WebSocketDisconnect:
        return


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, ScrubjayError)
    return JSONResponse(error_body(code_of(error), str(error), error.hint), status_of(error))


def make_app(gate: Gate) -> FastAPI:
    """A few routes of every kind."""
    api = APIRouter(prefix="/api/v1")

    @api.get("/pods")
    async def pods() -> list[str]:  # pyright: ignore[reportUnusedFunction]
        return ["one"]

    @api.post("/pods")
    async def start(wanted: dict[str, Any]) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        return {"fields": len(wanted)}

    @api.get("/pods/{pod}")
    async def pod(pod: str) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {"pod": pod}

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.gate = gate
    app.add_exception_handler(ScrubjayError, _explain)
    app.include_router(api)
    app.include_router(tokens_router)
    app.router.routes += Login(gate).routes
    app.router.routes += [
        Route("/healthz", _text),
        Route("/", _text),
        Route("/forgotten", _text, methods=["GET", "POST"]),
        Route("/api/v1/upload", _length, methods=["POST"]),
        Route("/api/v1/forever", _forever),
        Route("/api/v1/pods/{pod}/forever", _forever),
        Mount("/assets", routes=[Route("/page.js", _text)]),
        WebSocketRoute("/api/v1/pods/{pod}/live", _echo),
        WebSocketRoute("/api/v1/flood", _flood),
        WebSocketRoute("/forgotten", _echo),
    ]
    return app


Granted = dict[tuple[Role, str], set[Scope]]
"""The scopes of a role on a pod."""


@dataclass(slots=True)
class GrantedPermits:
    """What tests have granted; here nobody knows a pod that nothing was granted on."""

    granted: Granted = field(default_factory=Granted)

    async def find(self, principal: Principal, action: Action, raw: str) -> PodId:
        """The pod of that very id, if they may do this to it."""
        pod = PodId(raw)
        if self.allows(principal, action, pod):
            return pod
        scope = scope_for(principal.role, action)
        if scope is None:
            raise not_allowed(principal.role)
        raise ScopeMissing(raw, scope) if (principal.role, raw) in self.granted else NoSuchPod(raw)

    def allows(self, principal: Principal, action: Action, pod: PodId) -> bool:
        """Whether they may do this to a pod as of now."""
        return may(principal, action, pod, scopes=self.granted.get((principal.role, pod), set()))


@dataclass(slots=True)
class GuardedServer:
    """The server, and what is needed to knock at it."""

    gate: Gate
    app: FastAPI
    database: Database
    port: int
    socket: Path
    granted: Granted = field(default_factory=Granted)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def bearer(self, role: Role = "operator", *, pod: str | None = None) -> tuple[str, str]:
        """A header with a new token."""
        return "Authorization", f"Bearer {await self.token(role, pod=pod)}"

    async def token(self, role: Role = "operator", *, pod: str | None = None, expires_us: int | None = None) -> str:
        """A new token."""
        return (await self.gate.credentials.create_token(role, name="test", pod=pod, expires_us=expires_us)).text

    async def cookie(self) -> tuple[str, str]:
        """A header with the cookie of a new browser."""
        code, _ = await self.gate.credentials.create_login()
        browser = await self.gate.credentials.log_in(code)
        assert browser is not None
        return "Cookie", f"{cookie_name(self.port)}={browser.cookie}"

    async def add_pod(self, name: str = "claude") -> PodId:
        """A pod in the catalog."""
        pod = new_pod_id()
        facts = PodFacts(
            id=pod,
            name=PodName(name),
            session=SessionId("s" * 26),
            runner="here",
            argv=("claude",),
            cwd="/",
            cols=80,
            rows=24,
            agent=None,
            repository=None,
            branch=None,
            worktree=None,
            imported=False,
            created_us=1,
        )
        wall_us = self.gate.clock.wall_us()
        status = Status(process="running", since_us=wall_us)
        await self.database.write(lambda connection: add_pod(connection, facts, status, wall_us=wall_us))
        return pod

    async def ask(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> Answer:
        """Send a request with exactly these headers, and ``Host`` if it is not among them."""
        given = list(headers)
        if not any(name.lower() == "host" for name, _ in headers):
            given.insert(0, ("Host", f"127.0.0.1:{self.port}"))
        return await ask(await asyncio.open_connection("127.0.0.1", self.port), method, path, given, body)

    async def ask_locally(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> Answer:
        """The same over the unix socket."""
        return await ask(await asyncio.open_unix_connection(self.socket), method, path, list(headers), body)

    async def knock(self, path: str, *headers: tuple[str, str]) -> Answer:
        """Ask for a WebSocket; 101 is a yes."""
        return await self.ask("GET", path, *UPGRADE, *headers)


UPGRADE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as it was sent."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        """The value of a header."""
        return next((value for found, value in self.headers if found == name), None)

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """What kind of error it is."""
        return self.json["error"]["code"] if self.status >= 400 else None


async def ask(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    method: str,
    path: str,
    headers: Sequence[tuple[str, str]],
    body: bytes = b"",
) -> Answer:
    """Send a request and read the response."""
    reader, writer = connection
    try:
        length = [("Content-Length", str(len(body)))] if body else []
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in [*headers, *length]), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        return await read_answer(reader, head=method == "HEAD")
    finally:
        await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Leave a connection, whatever is still in it."""
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def read_answer(reader: asyncio.StreamReader, *, head: bool = False) -> Answer:
    """One response of a connection."""
    async with asyncio.timeout(DEADLINE_S):
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        pairs = [line.partition(": ")[::2] for line in lines]
        headers = [(name.lower(), value) for name, value in pairs]
        length = next((int(value) for name, value in headers if name == "content-length"), 0)
        body = b"" if head else await reader.readexactly(length)
    return Answer(int(first.split(" ")[1]), headers, body)


@asynccontextmanager
async def open_guarded_server(data: Path, clock: Clock | None = None) -> AsyncGenerator[GuardedServer]:
    """Serve while inside."""
    listeners = Listeners()
    listeners.open_tcp("127.0.0.1", 0, tls=False)
    listeners.open_unix(data / "server.sock")
    port = listeners.port
    make_catalog(data / "catalog.db")
    database = await SqliteDatabase.open(data / "catalog.db")
    try:
        permits = GrantedPermits()
        gate = Gate(database, clock or SystemClock(), Addresses(own_origins(port)), permits)
        app = make_app(gate)
        async with serving(Guard(app, gate, table=TABLE), listeners):
            yield GuardedServer(gate, app, database, port, data / "server.sock", permits.granted)
    finally:
        await database.close()


@dataclass(frozen=True, slots=True)
class RealServer:
    """The whole server, without a runner."""

    guarded_server: GuardedServer
    app: FastAPI


@asynccontextmanager
async def open_server(data: Path) -> AsyncGenerator[RealServer]:
    """Serve while inside, as ``scrubjay up`` does."""
    settings = Settings(data=data, port=0)
    make_catalog(data / CATALOG)
    async with machinery.open_server(settings, copied_tapes(settings)) as server:
        await server.serve()
        port = int(server.url.rpartition(":")[2])
        app = make_real_app(server.coordination, server.gate, McpEndpoint(server.coordination))
        yield RealServer(GuardedServer(server.gate, app, server.tower.database, port, data / SOCKET), app)


async def _main(data: Path) -> None:
    async with open_guarded_server(data) as guarded_server:
        origins = guarded_server.gate.addresses.origins
        codes = [(await guarded_server.gate.credentials.create_login())[0] for _ in range(8)]
        told = {
            "port": guarded_server.port,
            "pod": await guarded_server.add_pod(),
            "token": await guarded_server.token(),
            "cookie": (await guarded_server.cookie())[1],
            "logins": [login_link(origins[number % 2], code) for number, code in enumerate(codes)],
        }
        print(json.dumps(told), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def free_socket() -> socket.socket:
    """A loopback socket of a port that is taken for as long as it is open."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1])))
