"""Requests of REST and of MCP to a server."""

from __future__ import annotations

import http.client
import json
import time
from typing import cast

from benchmarks.family import CommandFailed

_TIMEOUT_S = 120
_IDLE_S = 2.0  # the server hangs up on who was silent for five


class Web:
    """Requests of one token over one connection."""

    def __init__(self, address: tuple[str, int], token: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
        self._used = 0.0
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }

    def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """What is answered."""
        data = None if body is None else json.dumps(body)
        if time.monotonic() - self._used > _IDLE_S:
            self._connection.close()  # the next request opens it again
        self._connection.request(method, path, body=data, headers=self._headers)
        response = self._connection.getresponse()
        answer = response.read().decode()
        self._used = time.monotonic()
        if response.status >= 400:
            raise CommandFailed(f"{path} was answered with {response.status}: {answer[:200]}")
        said = [line.removeprefix("data:") for line in answer.splitlines() if line.startswith(("data:", "{"))]
        return cast("dict[str, object]", json.loads(said[-1]))

    def call(self, tool: str, **arguments: object) -> dict[str, object]:
        """What a tool says."""
        params = {"name": tool, "arguments": arguments}
        answer = self.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        result = cast("dict[str, object]", answer["result"])
        if result.get("isError"):
            raise CommandFailed(f"{tool} failed: {result}")
        return cast("dict[str, object]", result["structuredContent"])

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
