"""Nobody comes to any route without a credential, and no route is forgotten."""

from __future__ import annotations

import re

import pytest
from fastapi import APIRouter

from scrubjay.server.access_table import ACCESS, PUBLIC
from scrubjay.server.doors import Door, list_doors, unlisted
from server.house import TABLE, House, RealServer

pytestmark = pytest.mark.anyio


def _path(door: Door) -> str:
    return re.sub(r"\{[^}]+\}", "a" * 26, door.template)


async def _reached(house: House, doors: list[Door]) -> set[str]:
    """The doors through which somebody without a credential gets."""
    reached: set[str] = set()
    for door in doors:
        if door.method == "WEBSOCKET":
            answer = await house.knock(_path(door))
        else:
            answer = await house.ask(door.method, _path(door))
        if answer.status not in (401, 403):
            reached.add(f"{door.method} {door.template}")
    return reached


async def test_s1_anonymous_callers_reach_no_route_but_the_public_ones(house: House) -> None:
    doors = list_doors(house.app.routes)

    reached = await _reached(house, doors)

    public = {f"{method} {template}" for (method, template), access in TABLE.items() if access.action == PUBLIC}
    assert len(doors) > 20
    assert reached == public == {"GET /", "GET /healthz", "GET /login", "GET /assets/{path}"}


async def test_s1_a_route_that_is_not_in_the_table_is_named(timed_house: House) -> None:
    house = timed_house
    assert unlisted(house.app.routes, TABLE) == ["GET /forgotten", "POST /forgotten", "WEBSOCKET /forgotten"]

    router = APIRouter(prefix="/api/v1")

    @router.get("/secrets/{name}")
    async def secrets(name: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return name

    house.app.include_router(router)

    assert "GET /api/v1/secrets/{name}" in unlisted(house.app.routes, TABLE)
    assert (await house.ask("GET", "/api/v1/secrets/x", await house.bearer())).status == 404


async def test_s1_every_route_of_the_server_is_in_the_table_and_the_table_has_no_other(server: RealServer) -> None:
    listed = {f"{method} {template}" for method, template in ACCESS}
    there = {f"{door.method} {door.template}" for door in list_doors(server.app.routes)}

    assert unlisted(server.app.routes, ACCESS) == []
    assert listed <= there


async def test_s1_anonymous_callers_reach_nothing_of_the_server_but_its_page(server: RealServer) -> None:
    doors = list_doors(server.app.routes)

    reached = await _reached(server.house, doors)

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
        assert (await server.house.ask("GET", path)).status == 401, path
        assert (await server.house.knock(path)).status == 401, path
    for path in ("/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/page/../../app.py"):
        assert (await server.house.ask("GET", path)).status == 404, path
