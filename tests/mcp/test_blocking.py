"""Calls that take long: they are kept open, end with whoever made them, and hold up no end of the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from scrubjay.server import credentials, guard
from scrubjay.server.web import GRACE_S
from scrubjay.tape.record import Json
from tests.mcp.tool_server import ToolServer, open_tool_server
from tests.support.conditions import DEADLINE_S, until
from tests.support.mcp_client import MODERN_VERSION, Raw, modern, modern_headers

pytestmark = pytest.mark.anyio

_ERAS = ("2025-06-18", MODERN_VERSION)


def _block(version: str, session: str | None) -> tuple[Json, dict[str, str]]:
    if version == MODERN_VERSION:
        message = modern("tools/call", 7, name="block", arguments={})
        return message, modern_headers(message)
    params: Json = {"name": "block", "arguments": {}}
    assert session is not None
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}, {"Mcp-Session-Id": session}


@asynccontextmanager
async def _blocked(
    server: ToolServer, client: Raw, http: httpx.AsyncClient
) -> AsyncGenerator[asyncio.Task[httpx.Response]]:
    """A call that waits."""
    message, headers = _block(client.version, client.session)
    before = server.waiting.begun
    calling = asyncio.create_task(http.post("/mcp", json=message, headers=headers))
    await until(lambda: server.waiting.begun > before, "the call has begun")
    yield calling
    calling.cancel()
    await asyncio.wait([calling])


@pytest.mark.parametrize("version", _ERAS)
async def test_a_call_that_blocks_is_kept_open_until_it_is_answered(
    new_server: ToolServer, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_server.http() as http:
        client = Raw(http, version)
        await client.open()
        # Both of these are 15 s: with them a call may take any time, with proxies in between that wait for 60.
        monkeypatch.setattr("mcp.server._streamable_http_modern._SSE_PING_INTERVAL", 0.05)
        monkeypatch.setattr("sse_starlette.sse.EventSourceResponse.DEFAULT_PING_INTERVAL", 0.05)
        message, headers = _block(version, client.session)
        comments: list[str] = []
        async with http.stream("POST", "/mcp", json=message, headers=headers) as response:
            lines = response.aiter_lines()
            async for line in lines:
                comments += [line] if line.startswith(":") else []
                if len(comments) == 5:
                    break
            assert new_server.waiting.cancelled == 0
            new_server.waiting.go_on.set()
            answers = [json.loads(line[5:]) async for line in lines if line.startswith("data:")]

    assert response.headers["content-type"].startswith("text/event-stream")
    assert answers[-1]["result"]["structuredContent"] == {"who": "alice"}


@pytest.mark.parametrize("version", _ERAS)
async def test_a_call_ends_when_its_client_hangs_up(new_server: ToolServer, version: str) -> None:
    async with new_server.http() as http:
        client = Raw(http, version)
        await client.open()
        async with _blocked(new_server, client, http) as calling:
            calling.cancel()

            await until(lambda: new_server.waiting.cancelled == 1, "the call is cancelled")
        who = await client.call("whoami")

    assert who["name"] == "alice"


@pytest.fixture
def hurried_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that looks every moment, not every two seconds, whether tokens are still good."""
    monkeypatch.setattr(guard, "RECHECK_S", 0.02)
    monkeypatch.setattr(credentials, "CACHE_S", 0.02)


@pytest.mark.parametrize("version", _ERAS)
@pytest.mark.usefixtures("hurried_guard")
async def test_a_call_ends_when_its_token_is_revoked(new_server: ToolServer, version: str) -> None:
    async with new_server.http("agent", "mallory") as http:
        client = Raw(http, version)
        await client.open()
        async with _blocked(new_server, client, http):
            tokens = await new_server.server.gate.credentials.list_tokens()
            [mallory] = [token.id for token in tokens if token.name == "mallory"]

            assert await new_server.server.gate.credentials.revoke_token(mallory)

            await until(lambda: new_server.waiting.cancelled == 1, "the call is cancelled")


async def test_a_client_with_a_handshake_cancels_its_own_calls_and_no_others(new_server: ToolServer) -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    async with new_server.http() as http, new_server.raw(name="bob") as bob:
        client = Raw(http, "2025-06-18")
        await client.open()
        assert client.session is not None
        assert bob.session is not None
        async with _blocked(new_server, client, http) as calling:
            await bob.post(cancelled, Mcp_Session_Id=bob.session)
            await bob.post(cancelled, Mcp_Session_Id=client.session)
            await bob.call("whoami")
            assert new_server.waiting.cancelled == 0

            await client.post(cancelled, Mcp_Session_Id=client.session)

            answer = await asyncio.wait_for(calling, DEADLINE_S)
    assert new_server.waiting.cancelled == 1
    assert "the call was cancelled" in answer.text


async def test_a_server_that_ends_answers_calls_that_block_and_is_gone_soon(
    tmp_path: Path, promised: Callable[[float], float]
) -> None:
    async with AsyncExitStack() as clients:
        async with open_tool_server(tmp_path) as server:
            http = await clients.enter_async_context(server.http())
            old, new = Raw(http, "2025-06-18"), Raw(http, MODERN_VERSION)
            await old.open()
            calls = [_block(client.version, client.session) for client in (old, new) * 5]
            tasks = [asyncio.create_task(http.post("/mcp", json=call, headers=headers)) for call, headers in calls]
            await until(lambda: server.waiting.begun == len(tasks), "all calls block")
            began = time.monotonic()
        took_s = time.monotonic() - began
        answers = await asyncio.gather(*tasks)

    assert all("the server is being shut down" in answer.text for answer in answers)
    assert took_s <= promised(GRACE_S)
