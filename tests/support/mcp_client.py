"""The protocol with nothing in between: one version each, as its document has it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import httpx

from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S
from tests.support.http import FRESH

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
VERSIONS = (*HANDSHAKE_VERSIONS, MODERN_VERSION)

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
}
_ACCEPT = "application/json, text/event-stream"


def hello(version: str = "2025-06-18", **more: object) -> Json:
    """The first message of a client with a handshake."""
    client = {"name": "raw", "version": "0"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def whoami(request: object = 2) -> Json:
    """A call that anybody may make."""
    return {"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}


def modern(method: str, request: object = 3, **params: object) -> Json:
    """A request that says itself what it is in."""
    return {"jsonrpc": "2.0", "id": request, "method": method, "params": {**params, "_meta": dict(META)}}


def modern_headers(message: Json) -> dict[str, str]:
    """What goes with it."""
    headers = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": str(message["method"])}
    name = cast(Json, message["params"]).get("name")
    return headers | ({"Mcp-Name": str(name)} if name is not None else {})


def messages_of(response: httpx.Response) -> list[Json]:
    """What an answer says, in whichever form."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:")]
    return [response.json()] if response.content else []


def result_of(response: httpx.Response) -> Json:
    """What was asked for."""
    return cast(Json, messages_of(response)[-1]["result"])


class Raw:
    """A client of one version."""

    def __init__(self, http: httpx.AsyncClient, version: str) -> None:
        self.version, self._http = version, http
        self.session: str | None = None
        self._number = 10

    async def post(self, message: object, **headers: str) -> httpx.Response:
        """Send a message as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self._http.post("/mcp", content=content, headers=named)

    async def open(self) -> Json:
        """Begin, as this version does."""
        if self.version == MODERN_VERSION:
            return await self.ask("server/discover")
        response = await self.post(hello(self.version))
        assert response.status_code == 200, response.text
        self.session = response.headers["mcp-session-id"]
        begun = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **self._headers())
        assert (begun.status_code, begun.content) == (202, b"")
        return result_of(response)

    async def delete(self) -> httpx.Response:
        """End the session."""
        return await self._http.delete("/mcp", headers=self._headers())

    async def ask(self, method: str, **params: object) -> Json:
        """The result of a request."""
        self._number += 1
        number = self._number
        if self.version == MODERN_VERSION:
            message = modern(method, number, **params)
            response = await self.post(message, **modern_headers(message))
        else:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            response = await self.post(message, **self._headers())
        assert response.status_code == 200, (response.status_code, response.text)
        answer = messages_of(response)[-1]
        assert answer["id"] == number
        assert "error" not in answer, answer
        return cast(Json, answer["result"])

    def _headers(self) -> dict[str, str]:
        headers = {"Mcp-Session-Id": self.session} if self.session is not None else {}
        # Those before it was in the protocol do not send it.
        return headers if self.version < "2025-06-18" else headers | {"MCP-Protocol-Version": self.version}

    async def tools(self) -> list[str]:
        """The names of all tools."""
        listed = cast(list[Json], (await self.ask("tools/list"))["tools"])
        return [str(tool["name"]) for tool in listed]

    async def call(self, name: str, **arguments: object) -> Json:
        """What a tool says."""
        result = await self.ask("tools/call", name=name, arguments=arguments)
        content = cast(list[Json], result["content"])
        said = cast(Json, json.loads(str(content[0]["text"])))
        if self.version >= "2025-06-18":
            assert result["structuredContent"] == said
        return said


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncGenerator[httpx.AsyncClient]:
    """Somebody, known by a token."""
    headers = {"Accept": _ACCEPT, "Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=FRESH, timeout=DEADLINE_S, verify=False) as http:
        yield http
