"""Clients of every kind, made alike: each has a version, lists tools and calls one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol, cast

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S
from tests.support.mcp_client import Raw, connected
from tests.support.paths import PROGRAMS
from tests.support.tools import OLD_MCP_PYTHON

_OLD_CLIENT = PROGRAMS / "old_mcp_client.py"

Mode = Literal["auto", "legacy"]


class AnyClient(Protocol):
    """A client that has begun."""

    @property
    def version(self) -> str:
        """The version of the protocol it speaks."""
        ...

    async def tools(self) -> list[str]:
        """The names of all tools."""
        ...

    async def call(self, name: str, **arguments: object) -> Json:
        """What a tool says."""
        ...


class _Official:
    """Made with the SDK of today."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def version(self) -> str:
        return str(self._client.protocol_version)

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, name: str, **arguments: object) -> Json:
        result = await self._client.call_tool(name, arguments)
        assert not result.is_error, result
        return cast(Json, result.structured_content)


class _Old:
    """Made with the SDK of the generation before, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, version: str) -> None:
        self._process, self.version = process, version

    async def tools(self) -> list[str]:
        return cast(list[str], await self._ask({"do": "list"}))

    async def call(self, name: str, **arguments: object) -> Json:
        return cast(Json, await self._ask({"do": "call", "tool": name, "arguments": arguments}))

    async def _ask(self, asked: Json) -> object:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        answer = await read_line(self._process)
        assert "said" in answer, answer
        return answer["said"]


async def read_line(process: asyncio.subprocess.Process) -> Json:
    """The next thing that a process says."""
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
    assert line, "it has ended"
    return cast(Json, json.loads(line))


@asynccontextmanager
async def raw(url: str, token: str, version: str) -> AsyncGenerator[AnyClient]:
    """One of a certain version."""
    async with connected(url, token) as http:
        client = Raw(http, version)
        await client.open()
        yield client


@asynccontextmanager
async def official(url: str, token: str, mode: Mode) -> AsyncGenerator[AnyClient]:
    """The official one."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S, verify=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield _Official(client)


@asynccontextmanager
async def official_stdio(command: Sequence[str], mode: Mode) -> AsyncGenerator[AnyClient]:
    """The official one, with a server that it starts itself."""
    parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
    async with Client(parameters, mode=mode) as client:
        yield _Official(client)


@asynccontextmanager
async def old(*words: str) -> AsyncGenerator[AnyClient]:
    """The official one before that."""
    # Python's own variables are for our Python, not for theirs.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = await asyncio.create_subprocess_exec(
        OLD_MCP_PYTHON,
        _OLD_CLIENT,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environ,
    )
    try:
        yield _Old(process, str((await read_line(process))["version"]))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), DEADLINE_S)


def bridge(data: Path, **constants: float) -> list[str]:
    """The command that an agent is told to start; with constants of ``scrubjay.cli.mcp_bridge`` that are to differ."""
    if not constants:
        return [sys.executable, "-P", "-m", "scrubjay", "--data", str(data), "mcp"]
    changes = "; ".join(f"mcp_bridge.{name} = {value}" for name, value in constants.items())
    program = f"import sys; from scrubjay.cli import main, mcp_bridge; {changes}; sys.exit(main())"
    return [sys.executable, "-P", "-c", program, "--data", str(data), "mcp"]
