"""Pages of other sites cannot make a browser that is logged in here do anything."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import scrubjay.server
from scrubjay.server.origins import Origin, parse_origin
from tests.support.guarded_server import GuardedServer

pytestmark = pytest.mark.anyio

_JSON = ("Content-Type", "application/json")


def _foreign(port: int) -> list[str]:
    return [
        "null",
        "",
        "https://evil.test",
        f"http://evil.test:{port}",
        f"http://127.0.0.1.evil.test:{port}",
        f"http://127.0.0.1:{port}.evil.test",
        f"http://127.0.0.1:{port}@evil.test",
        "http://localhost:1@evil.test",
        f"http://user@127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:80",
        f"http://127.0.0.1:{port + 1}",
        f"http://127.0.0.1:0{port}",
        f"http://127.0.0.1:{port}0",
        f"https://127.0.0.1:{port}",
        f"ws://127.0.0.1:{port}",
        f"file://127.0.0.1:{port}",
        f"HTTP://127.0.0.1:{port}",
        f"http://LOCALHOST:{port}",
        f"http://xn--localhost-9fb:{port}",
        f"http://127.0.0.1.:{port}",
        f"http://localhost.:{port}",
        f"http://2130706433:{port}",
        f"http://0x7f000001:{port}",
        f"http://127.1:{port}",
        f"http://[::ffff:127.0.0.1]:{port}",
        f"http://127.0.0.1:{port}/",
        f"http://127.0.0.1:{port} http://evil.test",
        f"http://127.0.0.1:{port},http://evil.test",
        # One of ours, and not the one that was called: a cookie of the one is not for the other.
        f"http://localhost:{port}",
        f"http://[::1]:{port}",
    ]


async def test_s2_a_websocket_of_a_logged_in_browser_needs_the_exact_origin(guarded_server: GuardedServer) -> None:
    cookie = await guarded_server.cookie()

    assert (await guarded_server.knock("/api/v1/flood", cookie, ("Origin", guarded_server.url))).status == 101
    for origin in _foreign(guarded_server.port):
        assert (await guarded_server.knock("/api/v1/flood", cookie, ("Origin", origin))).status == 403, origin
    absent = await guarded_server.knock("/api/v1/flood", cookie)
    assert (absent.status, absent.code) == (403, "no_origin")
    twice = await guarded_server.knock(
        "/api/v1/flood", cookie, ("Origin", guarded_server.url), ("Origin", "https://evil.test")
    )
    assert twice.status == 400


async def test_s2_nothing_is_changed_from_a_page_of_another_site(guarded_server: GuardedServer) -> None:
    cookie = await guarded_server.cookie()

    own = await guarded_server.ask("POST", "/api/v1/pods", cookie, _JSON, ("Origin", guarded_server.url), body=b"{}")
    assert own.status == 200
    for origin in _foreign(guarded_server.port):
        answer = await guarded_server.ask("POST", "/api/v1/pods", cookie, _JSON, ("Origin", origin), body=b"{}")
        assert answer.status == 403, origin
    assert (await guarded_server.ask("POST", "/api/v1/pods", cookie, _JSON, body=b"{}")).code == "no_origin"


async def test_s2_an_origin_of_another_site_is_refused_with_a_token_and_with_nothing_too(
    guarded_server: GuardedServer,
) -> None:
    bearer, evil = await guarded_server.bearer(), ("Origin", "https://evil.test")

    assert (await guarded_server.ask("GET", "/api/v1/pods", bearer, evil)).status == 403
    assert (await guarded_server.knock("/api/v1/flood", bearer, evil)).status == 403
    assert (await guarded_server.ask("GET", "/login?code=x", evil)).status == 403
    assert (await guarded_server.ask("GET", "/api/v1/pods", evil)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_s2_a_browser_that_says_another_site_made_it_call_is_refused(
    guarded_server: GuardedServer, site: str
) -> None:
    cookie, fetched = await guarded_server.cookie(), ("Sec-Fetch-Site", site)

    assert (await guarded_server.ask("GET", "/api/v1/pods", cookie, fetched)).code == "foreign_site"
    post = await guarded_server.ask(
        "POST", "/api/v1/pods", cookie, fetched, _JSON, ("Origin", guarded_server.url), body=b"{}"
    )
    assert post.code == "foreign_site"
    assert (
        await guarded_server.knock("/api/v1/flood", cookie, fetched, ("Origin", guarded_server.url))
    ).code == "foreign_site"
    assert (await guarded_server.ask("GET", "/", cookie, fetched)).status == 200


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_s2_each_name_of_the_server_is_an_origin_of_its_own(guarded_server: GuardedServer, name: str) -> None:
    cookie, host = await guarded_server.cookie(), f"{name}:{guarded_server.port}"

    answer = await guarded_server.knock("/api/v1/flood", ("Host", host), cookie, ("Origin", f"http://{host}"))

    assert answer.status == 101


async def test_s2_the_cookie_is_for_this_host_and_this_site_alone_and_no_script_sees_it(
    guarded_server: GuardedServer,
) -> None:
    code, _ = await guarded_server.gate.credentials.create_login()

    answer = await guarded_server.ask("GET", f"/login?code={code}")

    assert (answer.status, answer.header("location")) == (303, "/")
    value, *attributes = (answer.header("set-cookie") or "").split("; ")
    assert value.startswith(f"__Host-scrubjay-{guarded_server.port}=")
    assert set(attributes) == {"Max-Age=2592000", "Path=/", "Secure", "HttpOnly", "SameSite=Strict"}


def test_s2_origins_are_compared_as_tuples() -> None:
    assert parse_origin("https://fleet.test") == Origin("https", "fleet.test", 443)
    assert parse_origin("http://[::1]:8477") == Origin("http", "::1", 8477)

    folder = Path(scrubjay.server.__file__).parent
    for name in ("guard.py", "origins.py"):
        calls = [node for node in ast.walk(ast.parse((folder / name).read_text())) if isinstance(node, ast.Call)]
        named = [node.func.attr for node in calls if isinstance(node.func, ast.Attribute)]
        assert "endswith" not in named
        assert named.count("startswith") == (1 if name == "origins.py" else 0)  # of the bracket of an IPv6 address
