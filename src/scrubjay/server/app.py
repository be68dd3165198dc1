"""The application: every route of the server, behind its guard."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

import scrubjay
from scrubjay.errors import ScrubjayError
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.errors import code_of, status_of
from scrubjay.server.gate import Gate
from scrubjay.server.guard import Guard
from scrubjay.server.login import Login
from scrubjay.server.mcp.endpoint import METHODS, McpEndpoint
from scrubjay.server.metrics import Metrics
from scrubjay.server.refusals import error_body
from scrubjay.server.rest import (
    bindings,
    channels,
    checkpoints,
    fleet,
    handoffs,
    memories,
    passes,
    pods,
    recordings,
    sessions,
    tokens,
    topology,
    waits,
    worktrees,
)
from scrubjay.server.sockets.fleet import fleet as fleet_socket
from scrubjay.server.sockets.live import live_pod
from scrubjay.server.sockets.replay import replay
from scrubjay.server.sockets.runner import runner
from scrubjay.wire.messages import MCP_PATH

_PAGE = Path(__file__).parent / "page"
_REST = (
    pods,
    recordings,
    checkpoints,
    fleet,
    worktrees,
    tokens,
    passes,
    bindings,
    channels,
    waits,
    handoffs,
    topology,
    sessions,
    memories,
)


def make_app(coordination: Coordination, gate: Gate, mcp: McpEndpoint) -> FastAPI:
    """All routes; nobody has been checked yet."""
    app = FastAPI(
        title="Scrubjay",
        version=scrubjay.__version__,
        summary="Flight recorder and control tower for fleets of terminal agents",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
    )
    app.state.tower, app.state.coordination, app.state.gate = coordination.tower, coordination, gate
    app.state.metrics = Metrics(coordination.tower)
    # Not include_router: it builds every route a second time, 0.1 s at each start.
    app.router.routes += [
        *(route for room in _REST for route in room.router.routes),
        WebSocketRoute("/api/v1/pods/{pod}/live", live_pod),
        WebSocketRoute("/api/v1/pods/{pod}/replay", replay),
        WebSocketRoute("/api/v1/fleet", fleet_socket),
        WebSocketRoute("/api/v1/runner", runner),
        *Login(gate).routes,
        Route(MCP_PATH, mcp, methods=METHODS),  # not mounted: a POST would be sent on to /mcp/
    ]
    app.add_api_route("/healthz", _healthz, include_in_schema=False)
    app.add_api_route("/metrics", _metrics, include_in_schema=False)
    app.mount("/", StaticFiles(directory=_PAGE, html=True))
    app.add_exception_handler(ScrubjayError, _scrubjay_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)
    return app


def make_guarded_app(coordination: Coordination, gate: Gate, mcp: McpEndpoint) -> Guard:
    """The application as it is served."""
    return Guard(make_app(coordination, gate, mcp), gate)


async def _healthz() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


async def _metrics(request: Request) -> Response:
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.encode(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _scrubjay_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ScrubjayError)
    status = status_of(error)
    headers = {"Retry-After": "2"} if status == 503 else None
    return JSONResponse(error_body(code_of(error), str(error), error.hint), status, headers)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = f"{where}: {first['msg']}"[:500]
    return JSONResponse(error_body("bad_request", message, "/api/v1/openapi.json says what is taken"), 400)


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse(error_body("http_error", str(error.detail)), error.status_code)


async def _unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # What it was is in the log; it may hold what nobody else should see.
    return JSONResponse(error_body("internal_error", "something went wrong here", "the server's log says what"), 500)
