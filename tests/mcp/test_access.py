"""Who may come to the endpoint, and what they are there."""

from __future__ import annotations

import httpx
import pytest

from scrubjay.fleet.access import Role
from scrubjay.server.guard import LOCAL
from tests.mcp.tool_server import ToolServer
from tests.support.mcp_client import MODERN_VERSION, Raw, connected, hello, whoami

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_nobody_comes_in_without_a_token(server: ToolServer, method: str) -> None:
    async with connected(server.url, None) as anonymous, connected(server.url, "sjt_" + "x" * 60) as forged:
        answers = [
            await http.request(method, "/mcp", json=hello(), headers={"Mcp-Session-Id": "a" * 26})
            for http in (anonymous, forged)
        ]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].headers["www-authenticate"] == 'Bearer realm="scrubjay"'


@pytest.mark.parametrize("role", ["operator", "viewer", "agent"])
@pytest.mark.parametrize("version", ["2025-06-18", MODERN_VERSION])
async def test_a_tool_knows_who_has_called_it(server: ToolServer, role: Role, version: str) -> None:
    async with server.raw(version, role=role, name="somebody") as client:
        who = await client.call("whoami")

    assert (who["name"], who["role"]) == ("somebody", role)
    assert "pod" not in who


async def test_a_runner_has_no_business_here(server: ToolServer) -> None:
    async with server.http("runner") as http:
        assert (await Raw(http, "2025-06-18").post(whoami())).status_code == 403


async def test_a_page_of_another_site_does_not_come_in(server: ToolServer) -> None:
    async with server.http() as http:
        answer = await Raw(http, "2025-06-18").post(whoami(), Origin="http://evil.example")

    assert answer.status_code == 403


async def test_the_same_user_needs_no_token_at_the_unix_socket(server: ToolServer) -> None:
    transport = httpx.AsyncHTTPTransport(uds=str(server.data / "server.sock"))
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
        who = await Raw(http, MODERN_VERSION).call("whoami")

    assert (who["name"], who["role"]) == (LOCAL.name, "operator")


async def test_it_is_found_at_once_without_being_sent_elsewhere(server: ToolServer) -> None:
    async with server.http() as http:
        answer = await http.post("/mcp", json=whoami(), follow_redirects=False)

    assert answer.status_code == 200
