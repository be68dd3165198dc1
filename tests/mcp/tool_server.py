"""The whole server in the loop of a test, with tools that block and fail besides its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from unittest import mock

import httpx
from pydantic import Field

from scrubjay.cli import machinery
from scrubjay.cli.machinery import OpenServer, copied_tapes, open_server
from scrubjay.errors import PodNotRunning
from scrubjay.fleet.access import Role
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.mcp.endpoint import McpEndpoint, all_tools
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.server.tower import Tower
from scrubjay.settings import Settings
from scrubjay.tape.record import Json
from tests.support.catalogs import make_catalog
from tests.support.mcp_client import Raw, connected


@dataclass(slots=True)
class Waiting:
    """The calls of the tool that blocks."""

    begun: int = 0
    cancelled: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


def tools_of(waiting: Waiting) -> Iterable[Tool]:
    """The tools of the product, and those of the tests."""

    @tool(read_only=True)
    async def block(desk: Desk) -> Json:
        """Wait until the test goes on."""
        waiting.begun += 1
        try:
            await waiting.go_on.wait()
        except asyncio.CancelledError:
            waiting.cancelled += 1
            raise
        return {"who": desk.asker.name}

    @tool(read_only=True)
    async def blocked(_: Desk) -> Json:
        """Say how many calls have come to that."""
        return {"calls": waiting.begun, "cancelled": waiting.cancelled}

    @tool(destructive=True)
    async def fail(desk: Desk, how: Annotated[str, Field(description="In which way.", max_length=10)]) -> Json:
        """Do not succeed."""
        if how == "known":
            raise PodNotRunning("worker", "exited 1")
        if how == "odd":
            return {"path": "/tmp/\udcff", "desk": desk.asker.name}
        raise LookupError(f"sjt_secret {how}")

    return [*all_tools(), block, blocked, fail]


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A running server."""

    data: Path
    server: OpenServer
    waiting: Waiting
    endpoint: McpEndpoint

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url

    @property
    def tower(self) -> Tower:
        """Its inside."""
        return self.server.tower

    async def token(self, role: Role = "operator", name: str = "alice") -> str:
        """A new token."""
        return (await self.server.gate.credentials.create_token(role, name=name)).text

    @asynccontextmanager
    async def http(self, role: Role = "operator", name: str = "alice") -> AsyncGenerator[httpx.AsyncClient]:
        """Somebody new."""
        async with connected(self.url, await self.token(role, name)) as http:
            yield http

    @asynccontextmanager
    async def raw(
        self, version: str = "2025-06-18", *, role: Role = "operator", name: str = "alice"
    ) -> AsyncGenerator[Raw]:
        """A client that has begun."""
        async with self.http(role, name) as http:
            client = Raw(http, version)
            await client.open()
            yield client


@asynccontextmanager
async def open_tool_server(data: Path) -> AsyncGenerator[ToolServer]:
    """Serve while inside, as ``scrubjay server`` does."""
    settings, waiting = Settings(data=data, port=0), Waiting()
    made: list[McpEndpoint] = []

    def make(coordination: Coordination) -> McpEndpoint:
        made.append(McpEndpoint(coordination, lambda: tools_of(waiting)))
        return made[-1]

    make_catalog(data / machinery.CATALOG)
    with mock.patch.object(machinery, "McpEndpoint", make):
        async with open_server(settings, copied_tapes(settings)) as server:
            await server.serve()
            yield ToolServer(data, server, waiting, made[0])
