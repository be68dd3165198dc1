"""Whatever is sent to the endpoint is answered: soon, as an error of the client, and it goes on."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.tape.record import Json
from tests.mcp.tool_server import ToolServer
from tests.support.mcp_client import MODERN_VERSION, Raw, hello, messages_of, modern, modern_headers, whoami
from tests.support.tiers import sized

pytestmark = pytest.mark.anyio

_MODERN = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
_ERAS: dict[str, dict[str, str]] = {
    "no version": {},
    "handshake": {"MCP-Protocol-Version": "2025-06-18"},
    "modern": _MODERN,
}
_CALL = modern("tools/call", name="whoami", arguments={})


def _nested(depth: int, *, closed: bool = True) -> bytes:
    return b"[" * depth + (b"]" * depth if closed else b"")


def _bodies() -> dict[str, bytes]:
    deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{"x":%s}}}'
    return {
        "nothing": b"",
        "no JSON": b"hello",
        "half of it": b'{"jsonrpc": "2.0", "id": 1, "meth',
        "no UTF-8": b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}',
        "NUL": b"\x00" * 100,
        "a surrogate": b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/list"}',
        "a number": b"5",
        "null": b"null",
        "a huge number": b"1" * 100_000,
        "a batch": json.dumps([whoami(1), whoami(2)]).encode(),
        "an empty batch": b"[]",
        "a bomb": _nested(500_000),
        "a bomb that does not end": _nested(500_000, closed=False),
        "a bomb as an argument": deep % _nested(200_000),
        "deep, but not too deep to be read": deep % _nested(150),
        "another protocol": b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
        "no method": b'{"jsonrpc": "2.0", "id": 1}',
        "a method that is a number": b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        "a method there is not": b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        "an id that is a list": b'{"jsonrpc": "2.0", "id": [1], "method": "tools/list"}',
        "parameters that are a list": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}',
        "no tool": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}',
        "a tool that is a number": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}',
        "arguments that are text": json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": "x"}}
        ).encode(),
        "a handshake without anything": b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}',
        "a handshake with a list": b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}',
        "a handshake in a batch": json.dumps([hello()]).encode(),
        "a handshake in a bomb": b'{"method": "initialize", "params": ' + _nested(200_000) + b"}",
        "an answer to nothing": b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    }


async def _send(http: httpx.AsyncClient, body: bytes, headers: dict[str, str]) -> httpx.Response:
    return await http.post("/mcp", content=body, headers=headers)


def _is_error(answer: httpx.Response) -> bool:
    """Whether it says that the client is wrong; it never is the server."""
    if 400 <= answer.status_code < 500:
        return True
    if answer.status_code == 202:  # taken note of: a notification, or the answer to a question that was not asked
        return not answer.content
    messages: list[Json] = messages_of(answer)
    return answer.status_code == 200 and any(
        "error" in message or 'isError": true' in json.dumps(message) for message in messages
    )


async def test_a_body_that_makes_no_sense_is_the_clients_mistake(server: ToolServer) -> None:
    believed: dict[tuple[str, str], object] = {}
    async with server.http() as http:
        client = Raw(http, MODERN_VERSION)
        for name, body in _bodies().items():
            for era, headers in _ERAS.items():
                answer = await _send(http, body, headers)
                after = await client.call("whoami")
                if not _is_error(answer) or "Traceback" in answer.text or after["name"] != "alice":
                    believed[name, era] = (answer.status_code, answer.text[:500], after)

    assert believed == {}


async def test_headers_that_make_no_sense_are_the_clients_mistake(server: ToolServer) -> None:
    cases: list[tuple[dict[str, str], set[int]]] = [
        ({"Content-Type": "text/plain"}, {400, 415}),
        ({"Content-Type": ""}, {400, 415}),
        ({"Accept": "text/html"}, {406}),
        ({"MCP-Protocol-Version": "2077-01-01"}, {400}),
        ({"MCP-Protocol-Version": "\x7f"}, {400}),
        ({**_MODERN, "Mcp-Method": "tools/list"}, {400}),
        ({**_MODERN, "Mcp-Name": "list_pods"}, {400}),
        ({**_MODERN, "MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": "x" * 1000}, {404}),
    ]
    async with server.http() as http:
        answers = [await _send(http, json.dumps(_CALL).encode(), headers) for headers, _ in cases]

    wrong = [
        (headers, answer.status_code, answer.text)
        for (headers, statuses), answer in zip(cases, answers, strict=True)
        if answer.status_code not in statuses
    ]
    assert wrong == []


@pytest.mark.parametrize("headers", _ERAS.values(), ids=_ERAS)
async def test_a_body_of_10_mib_is_refused(server: ToolServer, headers: dict[str, str]) -> None:
    body = json.dumps({**_CALL, "params": {"name": "whoami", "arguments": {"x": "y" * (10 << 20)}}}).encode()

    async def in_pieces() -> object:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    async with server.http() as http:
        whole = await _send(http, body, headers)
        pieces = await http.post("/mcp", content=in_pieces(), headers=headers)  # pyright: ignore[reportArgumentType]

    assert whole.status_code == pieces.status_code == 413


async def test_a_body_of_nearly_1_mib_is_taken(server: ToolServer) -> None:
    async with server.http() as http:
        client = Raw(http, MODERN_VERSION)
        message = modern("tools/call", name="fail", arguments={"how": "x" * 1_000_000})

        answer = await client.post(message, **modern_headers(message))

    assert answer.status_code == 200
    assert len(answer.content) < 2000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
_METHODS = st.sampled_from(
    ["tools/call", "tools/list", "initialize", "ping", "server/discover", "notifications/cancelled", "logging/setLevel"]
)
_MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | _JSON, "method": _METHODS | _JSON},
    optional={
        "id": st.integers() | st.text() | _JSON,
        "params": _JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.just("whoami") | _JSON,
                "arguments": _JSON,
                "_meta": _JSON,
                "requestId": _JSON,
                "protocolVersion": _JSON,
                "clientInfo": _JSON,
            },
        ),
    },
)


async def test_no_message_whatever_it_holds_is_the_servers_mistake(new_server: ToolServer) -> None:
    loop = asyncio.get_running_loop()
    async with new_server.http() as http:

        @settings(max_examples=sized(40, 200, 5000))
        @given(_JSON | _MESSAGES, st.sampled_from(list(_ERAS.values())))
        def check(message: object, headers: dict[str, str]) -> None:
            sending = _send(http, json.dumps(message).encode(), headers)
            answer = asyncio.run_coroutine_threadsafe(sending, loop).result()
            assert answer.status_code < 500, answer.text
            assert "internal_error" not in answer.text

        await asyncio.to_thread(check)
        assert (await Raw(http, MODERN_VERSION).call("whoami"))["name"] == "alice"
