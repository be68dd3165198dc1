"""A name that was rebound to this machine does not reach the server."""

from __future__ import annotations

import asyncio

import pytest

from scrubjay.server.origins import Addresses, Origin, own_origins, parse_host
from tests.support.guarded_server import UPGRADE, GuardedServer, ask

pytestmark = pytest.mark.anyio


def _foreign(port: int) -> list[str]:
    return [
        f"evil.test:{port}",
        "evil.test",
        f"127.0.0.1.evil.test:{port}",
        "",
        "127.0.0.1",
        "localhost",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1:0{port}",
        f"127.0.0.1:{port}:{port}",
        f"127.0.0.1:{port}.evil.test",
        f"localhost.:{port}",
        f"127.0.0.1.:{port}",
        f"2130706433:{port}",
        f"0x7f000001:{port}",
        f"127.1:{port}",
        f"0.0.0.0:{port}",
        f"[::]:{port}",
        f"[::ffff:127.0.0.1]:{port}",
        "[::1]",
        f"[::1:{port}",
        f"::1:{port}",
        f"user@127.0.0.1:{port}",
        f"127.0.0.1:{port}, evil.test",
        f"evil.test\t127.0.0.1:{port}",
        "*",
        "x" * 300,
    ]


def _own(port: int) -> list[str]:
    return [f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", f"[::1]:{port}", f"[0:0:0:0:0:0:0:1]:{port}"]


@pytest.mark.parametrize("listener", ["127.0.0.1", "::1"])
async def test_s3_only_the_three_names_of_loopback_with_the_right_port_reach_the_server(
    guarded_server: GuardedServer, listener: str
) -> None:
    bearer = await guarded_server.bearer()

    async def status(host: str, path: str, *further: tuple[str, str]) -> int:
        connection = await asyncio.open_connection(listener, guarded_server.port)
        return (await ask(connection, "GET", path, [("Host", host), *further])).status

    for host in _own(guarded_server.port):
        assert await status(host, "/api/v1/pods", bearer) == 200, host
        assert await status(host, "/healthz") == 200, host
        assert await status(host, "/api/v1/flood", *UPGRADE, bearer) == 101, host
    for host in _foreign(guarded_server.port):
        assert await status(host, "/api/v1/pods", bearer) == 421, host
        assert await status(host, "/healthz") == 421, host
        assert await status(host, "/", bearer) == 421, host
        assert await status(host, "/api/v1/flood", *UPGRADE, bearer) == 421, host


async def test_s3_two_host_headers_or_none_reach_nothing(guarded_server: GuardedServer) -> None:
    bearer, own = await guarded_server.bearer(), ("Host", f"127.0.0.1:{guarded_server.port}")

    for hosts in ([own, own], [own, ("Host", "evil.test")], [("Host", "evil.test"), own], []):
        connection = await asyncio.open_connection("127.0.0.1", guarded_server.port)
        assert (await ask(connection, "GET", "/healthz", [*hosts, bearer])).status == 421, hosts


async def test_s3_what_a_proxy_would_add_changes_nothing(guarded_server: GuardedServer) -> None:
    forwarded = [
        ("X-Forwarded-Host", f"127.0.0.1:{guarded_server.port}"),
        ("Forwarded", f"host=127.0.0.1:{guarded_server.port}"),
    ]

    answer = await guarded_server.ask("GET", "/healthz", ("Host", "evil.test"), *forwarded)

    assert (answer.status, answer.code) == (421, "wrong_host")
    assert str(guarded_server.port) in answer.json["error"]["hint"]


def test_s3_further_names_are_taken_with_their_port_and_behind_a_proxy() -> None:
    addresses = Addresses(own_origins(8477, names=("Fleet.test",)))

    assert addresses.named("fleet.test:8477") == {Origin("http", "fleet.test", 8477)}
    assert addresses.named("fleet.test") == {Origin("https", "fleet.test", 443)}
    assert addresses.named("fleet.test:80") == frozenset()
    assert addresses.named("evil.test") == frozenset()


def test_s3_the_name_of_all_addresses_is_no_name() -> None:
    addresses = Addresses(own_origins(8477, host="0.0.0.0", tls=True))

    assert addresses.named("0.0.0.0:8477") == frozenset()
    assert addresses.named("localhost:8477") == {Origin("https", "localhost", 8477)}


def test_s3_hosts_are_parsed() -> None:
    assert parse_host("LocalHost:8477") == ("localhost", 8477)
    assert parse_host("[::1]:8477") == parse_host("[0:0::1]:8477") == ("::1", 8477)
    assert parse_host("localhost.") == ("localhost.", None)
    for raw in ("", ":8477", "a b", "localhost:", "localhost:65536", "[::1", "[g::1]", "[1.2.3.4]", "a/b", "a@b", "é"):
        assert parse_host(raw) is None, raw
