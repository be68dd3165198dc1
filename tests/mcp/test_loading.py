"""The SDK costs most of a second: nobody pays for it before an agent comes, and then once."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest
from structlog.testing import capture_logs

import scrubjay
from scrubjay.server.mcp.endpoint import McpEndpoint
from scrubjay.server.mcp.toolbox import Tool
from tests.mcp.tool_server import ToolServer
from tests.support.mcp_client import MODERN_VERSION, Raw, hello

pytestmark = pytest.mark.anyio

_SOURCE = Path(scrubjay.__file__).parent


def _imports(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_one_module_knows_the_sdk() -> None:
    knows = [
        str(path.relative_to(_SOURCE))
        for path in _SOURCE.rglob("*.py")
        if re.search(r"import\b.*\bmcp|from\s+mcp", path.read_text())  # most need not be parsed
        and any(name.split(".")[0] in ("mcp", "mcp_types") for name in _imports(path))
    ]

    assert knows == ["server/mcp/protocol.py"]


def test_nothing_that_is_loaded_at_the_start_loads_the_sdk_or_the_tools() -> None:
    program = """
import importlib, json, sys

def is_unwanted(name):
    return name.split(".")[0] in ("mcp", "mcp_types") or name.startswith("scrubjay.server.mcp.") and "tools" in name

brought = {}
for module in ("scrubjay.cli.mcp_bridge", "scrubjay.server.app", "scrubjay.cli.machinery"):
    importlib.import_module(module)
    brought[module] = [name for name in sys.modules if is_unwanted(name)]
print(json.dumps(brought))
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {module: names for module, names in json.loads(done.stdout).items() if names} == {}


async def test_those_who_come_first_at_once_wait_for_the_same_loading(new_server: ToolServer) -> None:
    built = 0
    build = McpEndpoint._build  # pyright: ignore[reportPrivateUsage]

    def count(endpoint: McpEndpoint) -> object:
        nonlocal built
        built += 1
        return build(endpoint)

    with mock.patch.object(McpEndpoint, "_build", count):
        async with new_server.http() as http:
            modern, old = Raw(http, MODERN_VERSION), Raw(http, "2025-06-18")
            said = await asyncio.gather(*(modern.call("whoami") for _ in range(10)), old.open())

    assert built == 1
    assert said[0] == said[9]
    assert said[10]["protocolVersion"] == "2025-06-18"


async def test_an_installation_that_is_broken_breaks_only_this(new_server: ToolServer) -> None:
    def broken() -> Iterable[Tool]:
        raise ImportError("no module named mcp")

    with mock.patch.object(new_server.endpoint, "_tools", broken), capture_logs() as logged:
        async with new_server.http() as http:
            answers = [await Raw(http, "2025-06-18").post(hello()) for _ in range(2)]
            me = await http.get("/api/v1/me")

    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].json()["error"]["message"] == "The server cannot do this now"
    assert me.status_code == 200
    assert "mcp.not_loaded" in [line["event"] for line in logged]
