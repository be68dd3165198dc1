"""Nobody comes to any route without a credential, and no route is forgotten."""

from __future__ import annotations

import re

import pytest
from fastapi import APIRouter

from scrubjay.server.access_table import ACCESS, PUBLIC
from scrubjay.server.doors import Door, list_doors, unlisted
from tests.support.guarded_server import TABLE, GuardedServer, RealServer

pytestmark = pytest.mark.anyio


def _path(door: Door) -> str:
    return re.sub(r"\{[^}]+\}", "a" * 26, door.template)


async def _reached(guarded_server: GuardedServer, doors: list[Door]) -> set[str]:
    """The doors through which somebody without a credential gets."""
    reached: set[str] = set()
    for door in doors:
        if door.method == "WEBSOCKET":
            answer = await guarded_server.knock(_path(door))
        else:
            answer = await guarded_server.ask(door.method, _path(door))
        if answer.status not in (401, 403):
            reached.add(f"{door.method} {door.template}")
    return reached


async def test_s1_anonymous_callers_reach_no_route_but_the_public_ones(guarded_server: GuardedServer) -> None:
    doors = list_doors(guarded_server.app.routes)

    reached = await _reached(guarded_server, doors)

    public = {f"{method} {template}" for (method, template), access in TABLE.items() if access.action == PUBLIC}
    assert len(doors) > 20
    assert reached == public == {"GET /", "GET /healthz", "GET /login", "GET /assets/{path}"}


async def test_s1_a_route_that_is_not_in_the_table_is_named(timed_guarded_server: GuardedServer) -> None:
    guarded_server = timed_guarded_server
    assert unlisted(guarded_server.app.routes, TABLE) == ["GET /forgotten", "POST /forgotten", "WEBSOCKET /forgotten"]

    router = APIRouter(prefix="/api/v1")

    @router.get("/secrets/{name}")
    async def secrets(name: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return name

    guarded_server.app.include_router(router)

    assert "GET /api/v1/secrets/{name}" in unlisted(guarded_server.app.routes, TABLE)
    assert (await guarded_server.ask("GET", "/api/v1/secrets/x", await guarded_server.bearer())).status == 404


async def test_s1_every_route_of_the_server_is_in_the_table_and_the_table_has_no_other(server: RealServer) -> None:
    listed = {f"{method} {template}" for method, template in ACCESS}
    there = {f"{door.method} {door.template}" for door in list_doors(server.app.routes)}

    assert unlisted(server.app.routes, ACCESS) == []
    assert listed <= there


async def test_s1_anonymous_callers_reach_nothing_of_the_server_but_its_page(server: RealServer) -> None:
    doors = list_doors(server.app.routes)

    reached = await _reached(server.guarded_server, doors)

    public = {f"{method} {template}" for (method, template), access in ACCESS.items() if access.action == PUBLIC}
    assert len(doors) > 40
    assert reached == public == {"GET /healthz", "GET /login", "GET /{path}"}


async def test_s1_what_is_not_there_is_not_public_either(server: RealServer) -> None:
    for path in (
        "/api/v1/nothing",
        "/api/v2/pods",
        "/api/v1/pods/x/input",
        "/api/v1/pods/",
        "/api/",
        "/api/v1/../pods",
    ):
        assert (await server.guarded_server.ask("GET", path)).status == 401, path
        assert (await server.guarded_server.knock(path)).status == 401, path
    for path in ("/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/page/../../app.py"):
        assert (await server.guarded_server.ask("GET", path)).status == 404, path
