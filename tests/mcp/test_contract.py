"""Every generation of clients lists tools, calls them, and goes on as if nothing had happened after a kill -9."""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

import pytest

from scrubjay.server.guard import LOCAL
from scrubjay.tape.record import Json
from tests.mcp.clients import AnyClient, bridge, official, official_stdio, old, raw
from tests.mcp.up_process import Server
from tests.support.mcp_client import HANDSHAKE_VERSIONS, MODERN_VERSION, VERSIONS
from tests.support.tools import is_missing

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of client."""

    name: str
    versions: tuple[str, ...]
    open: Callable[[Server], AbstractAsyncContextManager[AnyClient]]
    who: str = "alice"
    needs: tuple[str, ...] = ()


_KINDS = [
    *(
        _Kind(f"raw {version}", (version,), lambda server, version=version: raw(server.url, server.token, version))
        for version in VERSIONS
    ),
    _Kind("SDK 2, modern", (MODERN_VERSION,), lambda server: official(server.url, server.token, "auto")),
    _Kind("SDK 2, handshake", HANDSHAKE_VERSIONS, lambda server: official(server.url, server.token, "legacy")),
    _Kind(
        "SDK 1",
        HANDSHAKE_VERSIONS,
        lambda server: old("http", f"{server.url}/mcp", server.token),
        needs=("old MCP client",),
    ),
    _Kind(
        "SDK 2, modern, stdio",
        (MODERN_VERSION,),
        lambda server: official_stdio(bridge(server.data), "auto"),
        LOCAL.name,
    ),
    _Kind(
        "SDK 2, handshake, stdio",
        HANDSHAKE_VERSIONS,
        lambda server: official_stdio(bridge(server.data), "legacy"),
        LOCAL.name,
    ),
    _Kind(
        "SDK 1, stdio",
        HANDSHAKE_VERSIONS,
        lambda server: old("stdio", *bridge(server.data)),
        LOCAL.name,
        ("old MCP client",),
    ),
]


@dataclass(slots=True)
class _Story:
    """What became of one client."""

    version: str = ""
    tools: list[str] = field(default_factory=list[str])
    before: Json = field(default_factory=dict[str, object])
    after: Json = field(default_factory=dict[str, object])
    tools_after: list[str] = field(default_factory=list[str])
    trouble: str | None = None


@pytest.fixture(scope="module")
async def stories(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[dict[str, _Story]]:
    """All kinds of clients at one server, which is killed and started again once for all of them."""
    with Server.open(tmp_path_factory.mktemp("contract")) as server:
        async with AsyncExitStack() as stack:
            told: dict[str, _Story] = {}
            clients: dict[str, AnyClient] = {}
            for kind in _KINDS:
                if any(map(is_missing, kind.needs)):
                    continue
                story = told[kind.name] = _Story()
                try:
                    client = clients[kind.name] = await stack.enter_async_context(kind.open(server))
                    story.version, story.tools = client.version, await client.tools()
                    story.before = await client.call("whoami")
                except Exception:  # noqa: BLE001 - the test of that client tells
                    story.trouble = traceback.format_exc()
            server.restart()
            for name, client in clients.items():
                try:
                    told[name].after, told[name].tools_after = await client.call("whoami"), await client.tools()
                except Exception:  # noqa: BLE001 - the test of that client tells
                    told[name].trouble = traceback.format_exc()
        yield told


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(tool) for tool in kind.needs]) for kind in _KINDS],
)
async def test_a_client_goes_on_when_the_server_was_killed_and_started_again(
    stories: dict[str, _Story], kind: _Kind
) -> None:
    story = stories[kind.name]

    assert story.trouble is None, story.trouble
    assert story.version in kind.versions
    assert {"whoami", "list_pods"} <= set(story.tools)
    assert story.before == story.after
    assert (story.before["name"], story.before["role"]) == (kind.who, "operator")
    assert story.tools_after == story.tools
