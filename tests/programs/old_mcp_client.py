"""A client made with the SDK of the generation before, told what to do line by line.

Run by the Python of a venv that has it: ``old_client.py http URL TOKEN`` or ``old_client.py stdio COMMAND…``. It
answers each line on standard input with one on standard output.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


@asynccontextmanager
async def _transport(kind, *words):
    if kind == "stdio":
        parameters = StdioServerParameters(command=words[0], args=list(words[1:]), env=dict(os.environ))
        async with stdio_client(parameters) as (reading, writing):
            yield reading, writing
    else:
        headers = {"Authorization": f"Bearer {words[1]}"}
        async with streamablehttp_client(words[0], headers=headers) as (reading, writing, _):
            yield reading, writing


async def _do(session, asked):
    if asked["do"] == "list":
        return [tool.name for tool in (await session.list_tools()).tools]
    result = await session.call_tool(asked["tool"], asked["arguments"])
    return result.structuredContent


async def _main() -> None:
    async with _transport(*sys.argv[1:]) as (reading, writing), ClientSession(reading, writing) as session:
        begun = await session.initialize()
        print(json.dumps({"version": begun.protocolVersion}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                said = {"said": await _do(session, json.loads(line))}
            except Exception as error:  # noqa: BLE001 - the test judges it
                said = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(said), flush=True)


asyncio.run(_main())
