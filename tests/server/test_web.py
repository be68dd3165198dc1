"""The server on its sockets: how it begins, speaks TLS and ends."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from scrubjay.errors import BadSetting, ScrubjayError
from scrubjay.server.listeners import CALLER, Caller, Listeners
from scrubjay.server.web import Tls, serving
from tests.server.frames import RawSocket
from tests.support.conditions import until_asked
from tests.support.guarded_server import ask

pytestmark = pytest.mark.anyio


async def _who(request: Request) -> Response:
    caller: Caller = request.scope["state"][CALLER]
    return PlainTextResponse(f"{request.scope['scheme']} {caller.kind} {caller.address}")


async def _slow(request: Request) -> Response:
    """Answer once the server has begun to end."""
    port = request.url.port
    assert port is not None
    request.app.state.under_way.set()
    await until_asked(lambda: _refuses(port), "the server listens no more")
    return PlainTextResponse("done")


async def _refuses(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def _stay(websocket: WebSocket) -> None:
    await websocket.accept()
    while (await websocket.receive())["type"] != "websocket.disconnect":
        continue


_APP = Starlette(routes=[Route("/who", _who), Route("/slow", _slow), WebSocketRoute("/stay", _stay)])


@asynccontextmanager
async def _served(folder: Path, tls: Tls | None = None) -> AsyncGenerator[Listeners]:
    listeners = Listeners()
    listeners.open_tcp("127.0.0.1", 0, tls=tls is not None)
    listeners.open_unix(folder / "server.sock")
    async with serving(_APP, listeners, tls=tls):
        yield listeners


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    tls = Tls(folder / "cert.pem", folder / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"]
    subprocess.run(
        [*made, "-keyout", str(tls.key), "-out", str(tls.certificate)], check=True, capture_output=True, timeout=60
    )
    return tls


async def test_with_tls_tcp_is_encrypted_and_the_unix_socket_is_not(tmp_path: Path, certificate: Tls) -> None:
    trusting = ssl.create_default_context(cafile=certificate.certificate)
    async with _served(tmp_path, certificate) as listeners:
        encrypted = await asyncio.open_connection("localhost", listeners.port, ssl=trusting)
        over_tcp = await ask(encrypted, "GET", "/who", [("Host", "x"), ("Connection", "close")])
        local = await asyncio.open_unix_connection(tmp_path / "server.sock")
        over_unix = await ask(local, "GET", "/who", [("Host", "x")])
        plain = await asyncio.open_connection("127.0.0.1", listeners.port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(plain, "GET", "/who", [("Host", "x")])

    assert over_tcp.body.startswith(b"https tcp ")
    assert over_unix.body == b"http unix "


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nonsense")

    for path in (tmp_path / "bad.pem", tmp_path / "missing.pem"):
        listeners = Listeners()
        with pytest.raises(BadSetting, match="certificate"):
            async with serving(_APP, listeners, tls=Tls(path, path)):
                pass


async def test_on_the_way_out_requests_end_websockets_are_closed_and_the_sockets_are_gone(tmp_path: Path) -> None:
    async with _served(tmp_path) as listeners:
        port = listeners.port
        opened = await RawSocket.open(port, "/stay")
        _APP.state.under_way = asyncio.Event()
        slow = asyncio.create_task(
            ask(await asyncio.open_connection("127.0.0.1", port), "GET", "/slow", [("Host", f"x:{port}")])
        )
        await _APP.state.under_way.wait()

    assert (await slow).body == b"done"
    assert await opened.closed() == 1012
    await opened.hang_up()
    assert not (tmp_path / "server.sock").exists()
    assert await _refuses(port)


async def test_an_application_that_does_not_start_is_not_served(tmp_path: Path) -> None:
    @asynccontextmanager
    async def fail(_: Starlette) -> AsyncGenerator[None]:
        raise RuntimeError("no")
        yield

    listeners = Listeners()
    listeners.open_tcp("127.0.0.1", 0, tls=False)
    with pytest.raises(ScrubjayError, match="did not start"):
        async with serving(Starlette(lifespan=fail), listeners):
            pass
    listeners.close()


async def test_nothing_about_the_server_is_given_away_and_proxies_are_not_believed(tmp_path: Path) -> None:
    async with _served(tmp_path) as listeners:
        connection = await asyncio.open_connection("127.0.0.1", listeners.port)
        forged = [("Host", "x"), ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")]
        answer = await ask(connection, "GET", "/who", forged)

    assert answer.body == b"http tcp 127.0.0.1"
    assert {name for name, _ in answer.headers} == {"date", "content-length", "content-type"}
