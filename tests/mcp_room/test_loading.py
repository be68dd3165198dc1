"""The SDK costs most of a second: nobody pays for it before an agent comes, and then once."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest
from structlog.testing import capture_logs

import scrubjay
from mcp_room.house import House
from mcp_room.raw import MODERN_VERSION, Raw, hello
from scrubjay.server.mcp.endpoint import McpEndpoint
from scrubjay.server.mcp.toolbox import Tool

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
        if any(name.split(".")[0] in ("mcp", "mcp_types") for name in _imports(path))
    ]

    assert knows == ["server/mcp/protocol.py"]


@pytest.mark.parametrize("module", ["scrubjay.server.app", "scrubjay.cli.machinery", "scrubjay.cli.mcp_bridge"])
def test_nothing_that_is_loaded_at_the_start_loads_the_sdk_or_the_tools(module: str) -> None:
    program = f"import sys, {module}; print([n for n in sys.modules if n.split('.')[0] in ('mcp', 'mcp_types')])"
    program += "; print([n for n in sys.modules if n.startswith('scrubjay.server.mcp.') and 'tools' in n])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n[]\n"


async def test_those_who_come_first_at_once_wait_for_the_same_loading(new_house: House) -> None:
    built = 0
    build = McpEndpoint._build  # pyright: ignore[reportPrivateUsage]

    def count(endpoint: McpEndpoint) -> object:
        nonlocal built
        built += 1
        return build(endpoint)

    with mock.patch.object(McpEndpoint, "_build", count):
        async with new_house.http() as http:
            modern, old = Raw(http, MODERN_VERSION), Raw(http, "2025-06-18")
            said = await asyncio.gather(*(modern.call("whoami") for _ in range(10)), old.open())

    assert built == 1
    assert said[0] == said[9]
    assert said[10]["protocolVersion"] == "2025-06-18"


async def test_an_installation_that_is_broken_breaks_only_this(new_house: House) -> None:
    def broken() -> Iterable[Tool]:
        raise ImportError("no module named mcp")

    with mock.patch.object(new_house.endpoint, "_tools", broken), capture_logs() as logged:
        async with new_house.http() as http:
            answers = [await Raw(http, "2025-06-18").post(hello()) for _ in range(2)]
            me = await http.get("/api/v1/me")

    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].json()["error"]["message"] == "The server cannot do this now"
    assert me.status_code == 200
    assert "mcp.not_loaded" in [line["event"] for line in logged]
