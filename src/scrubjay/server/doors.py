"""Which route a request comes to, and what it needs there; found as the router itself finds it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute, compile_path
from starlette.types import Scope

from scrubjay.server.access_table import PUBLIC, Access, AccessTable, Method

_ANY: tuple[Method, ...] = ("GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET")  # the last is no method of HTTP
_NEVER_PUBLIC = "/api/"  # also where files for everybody are mounted at the root


@dataclass(frozen=True, slots=True)
class Door:
    """One way in: a method and a template of paths."""

    method: Method
    template: str  #: such as ``/api/v1/pods/{pod}``
    pattern: re.Pattern[str]
    head: bool  #: whether HEAD is answered like GET


@dataclass(frozen=True, slots=True)
class Entry:
    """A request at its door."""

    door: Door
    access: Access
    parameters: dict[str, str]


def list_doors(routes: Sequence[BaseRoute]) -> list[Door]:
    """All doors, in the order in which they are tried. What is mounted is one door for each method."""
    return [door for context in iter_route_contexts(routes) for door in _doors_of(context)]


def unlisted(routes: Sequence[BaseRoute], table: AccessTable) -> list[str]:
    """The doors that the table does not know, for a test to name."""
    return [
        f"{door.method} {door.template}"
        for door in list_doors(routes)
        if (door.method, door.template) not in table and not _is_mounted(door, table)
    ]


def _is_mounted(door: Door, table: AccessTable) -> bool:
    # A mounted application takes every method; the table opens those it names and the others stay shut.
    return door.template.endswith("/{path}") and any((method, door.template) in table for method in _ANY)


def _doors_of(context: RouteContext) -> Iterable[Door]:
    route = context.original_route
    path = cast(str, context.path)
    methods: Sequence[Method] = _ANY
    head = True
    if isinstance(route, Mount):
        path += "/{path:path}"
    elif isinstance(route, WebSocketRoute):
        methods, head = _ANY[-1:], False
    elif isinstance(route, Route):
        named = context.methods or set(_ANY)
        methods = tuple([method for method in _ANY[:-1] if {method} & named])
        head = "HEAD" in named
    else:
        raise TypeError(f"the guard cannot tell where {route!r} leads")
    pattern, template, _ = compile_path(path)
    return [Door(method, template, pattern, head) for method in methods]


class Doors:
    """All doors of the server that are in the table; there is no other way in."""

    def __init__(self, routes: Sequence[BaseRoute], table: AccessTable) -> None:
        self._doors = list_doors(routes)
        self._table = table

    def find(self, scope: Scope) -> Entry | None:
        """The first door a request fits, as the router takes it; None if there is none or it is not listed."""
        method = _method(scope)
        for door in self._doors:
            if door.method != method or (scope.get("method") == "HEAD" and not door.head):
                continue
            if found := door.pattern.match(scope["path"]):
                access = self._table.get((door.method, door.template))
                if access is None or _is_too_public(access, scope["path"]):
                    return None
                return Entry(door, access, found.groupdict())
        return None

    def methods(self, scope: Scope) -> list[Method]:
        """What a path is open for, if anything."""
        path = cast(str, scope["path"])
        found: set[Method] = set()
        for door in self._doors:
            access = self._table.get((door.method, door.template))
            if access is not None and not _is_too_public(access, path) and door.pattern.match(path):
                found.add(door.method)
        return sorted(found)


def _is_too_public(access: Access, path: str) -> bool:
    return access.action == PUBLIC and path.startswith(_NEVER_PUBLIC)


def _method(scope: Scope) -> str:
    if scope["type"] == "websocket":
        return "WEBSOCKET"
    method = cast(str, scope["method"])
    return "GET" if method == "HEAD" else method
