"""An agent that speaks MCP as it is told to: the same calls a real one makes, without a model to think of them.

Stand-alone: ``python -I -S caller.py ORDERS RESULTS``. ORDERS is a file that grows by lines of JSON, each
``{"tool": …, "arguments": {…}}``; RESULTS gets a line for each, in order. What is cut off is asked again with the same
arguments until it is answered, as an agent does whose call has failed.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

_VERSION = "2025-06-18"
_POLL_S, _AGAIN_S, _GIVE_UP_S = 0.01, 0.05, 90.0
_TIMEOUT_S = 120.0


class Caller:
    """One client with a handshake."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        self._host, self._port, self._path = str(address.hostname), address.port, address.path
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        self._number = 0

    def open(self) -> None:
        client = {"name": "caller", "version": "1"}
        params: dict[str, object] = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client}
        self._persistently("initialize", params)
        self._headers["MCP-Protocol-Version"] = _VERSION

    def call(self, tool: str, arguments: dict[str, object]) -> dict[str, object]:
        answer = self._persistently("tools/call", {"name": tool, "arguments": arguments})
        result = answer["result"]
        return {"failed": bool(result.get("isError")), "tries": answer["tries"], "answer": result["structuredContent"]}

    def _persistently(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        deadline = time.monotonic() + _GIVE_UP_S
        tries = 0
        while True:
            tries += 1
            try:
                return self._ask(method, params) | {"tries": tries}
            except (OSError, http.client.HTTPException, ValueError) as error:
                if time.monotonic() > deadline:
                    raise
                print(f"once more: {error}", flush=True)
                time.sleep(_AGAIN_S)

    def _ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        self._number += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status != 200:
            raise OSError(f"{response.status}: {text[:200]}")
        if session := response.headers.get("Mcp-Session-Id"):
            self._headers["Mcp-Session-Id"] = session
        said = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()] or [text]
        answer = json.loads(said[-1])
        if "result" not in answer:
            raise OSError(str(answer.get("error")))
        return answer


def _orders(path: str) -> Iterator[dict[str, Any]]:
    done = 0
    while True:
        with open(path) as file:
            lines = [line for line in file.read().split("\n")[:-1] if line]
        yield from map(json.loads, lines[done:])
        done = len(lines)
        time.sleep(_POLL_S)


def main() -> None:
    orders, results = sys.argv[1:]
    caller = Caller(os.environ["JAY_MCP_URL"], os.environ["JAY_MCP_TOKEN"])
    caller.open()
    for order in _orders(orders):
        print(f"{order['tool']} {json.dumps(order['arguments'])[:60]}", flush=True)
        result = caller.call(order["tool"], order["arguments"])
        with open(results, "a") as file:
            file.write(json.dumps(result) + "\n")
        print("failed" if result["failed"] else "done", flush=True)


if __name__ == "__main__":
    main()
