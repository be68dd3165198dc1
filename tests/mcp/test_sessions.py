"""What an older client names in each request is good for its owner alone, for 30 days, and across restarts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import Connection, func, select

from scrubjay.errors import CatalogUnavailable
from scrubjay.fleet.access import Principal
from scrubjay.ids import new_wire_session_id
from scrubjay.server.mcp.sessions import WireSessions
from scrubjay.store import schema
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.wire_sessions import OWN_MAX, add_wire_session
from tests.mcp.tool_server import ToolServer, open_tool_server
from tests.support.fake_clock import FakeClock
from tests.support.mcp_client import (
    HANDSHAKE_VERSIONS,
    Raw,
    connected,
    hello,
    modern,
    modern_headers,
    result_of,
    whoami,
)

pytestmark = pytest.mark.anyio

_DAY_S = 24 * 3600
_ALICE = Principal("token:alice", "operator", "alice")


async def test_a_session_is_minted_when_a_client_begins_and_only_then(server: ToolServer) -> None:
    async with server.http() as http:
        client = Raw(http, "2025-06-18")

        begun = await client.post(hello())
        called = await client.post(whoami(), Mcp_Session_Id=begun.headers["mcp-session-id"])
        message = modern("tools/call", name="whoami", arguments={})
        modern_call = await client.post(message, **modern_headers(message))

    assert len(begun.headers["mcp-session-id"]) == 26
    assert called.status_code == modern_call.status_code == 200
    assert "mcp-session-id" not in called.headers
    assert "mcp-session-id" not in modern_call.headers


async def test_anothers_session_and_one_that_never_was_are_the_same_nothing(server: ToolServer) -> None:
    async with server.raw(name="alice") as alice, server.http(name="bob") as http:
        bob = Raw(http, "2025-06-18")
        assert alice.session is not None

        answers = [
            await bob.post(whoami(), Mcp_Session_Id=session)
            for session in (alice.session, new_wire_session_id(), "nonsense", alice.session.upper())
        ]
        ended = await http.delete("/mcp", headers={"Mcp-Session-Id": alice.session})
        still = await alice.call("whoami")

    nothing = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}
    assert [(answer.status_code, answer.json()) for answer in (*answers, ended)] == [(404, nothing)] * 5
    assert len({tuple(sorted(answer.headers.keys())) for answer in answers}) == 1
    assert still["name"] == "alice"


async def test_who_ends_a_session_has_it_no_more(server: ToolServer) -> None:
    async with server.raw() as client, server.http() as http:
        assert client.session is not None

        first = await client.delete()
        second = await client.delete()
        after = await client.post(whoami(), Mcp_Session_Id=client.session)
        without = await http.delete("/mcp")

    assert (first.status_code, first.content) == (200, b"")
    assert second.status_code == after.status_code == 404
    assert without.status_code == 400


async def test_there_is_no_stream_apart_from_answers(server: ToolServer) -> None:
    async with server.http() as http:
        answer = await http.get("/mcp")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST, DELETE"


async def test_a_client_that_names_no_session_is_served_too(server: ToolServer) -> None:
    async with server.http() as http:
        client = Raw(http, "2025-06-18")

        answer = await client.post(whoami())

    assert answer.status_code == 200
    assert result_of(answer)["isError"] is False


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_client_that_never_says_again_what_was_agreed_on_is_served(server: ToolServer, version: str) -> None:
    async with server.http() as http:
        client = Raw(http, version)
        begun = await client.post(hello(version))

        answer = await client.post(whoami(), Mcp_Session_Id=begun.headers["mcp-session-id"])

    assert result_of(begun)["protocolVersion"] == version
    assert result_of(answer)["isError"] is False


async def test_a_version_nobody_knows_becomes_the_newest_with_a_handshake(server: ToolServer) -> None:
    async with server.http() as http:
        answer = await Raw(http, "").post(hello("1999-01-01"))

    assert result_of(answer)["protocolVersion"] == "2025-11-25"


async def test_sessions_survive_a_server_and_are_their_owners_in_the_next(tmp_path: Path) -> None:
    async with open_tool_server(tmp_path) as before, before.http() as http:
        token = str(http.headers["authorization"]).removeprefix("Bearer ")
        session = (await Raw(http, "2025-06-18").post(hello())).headers["mcp-session-id"]
    async with open_tool_server(tmp_path) as after:
        async with connected(after.url, token) as http:
            own = await Raw(http, "2025-06-18").post(whoami(), Mcp_Session_Id=session)
        async with after.http(name="bob") as http:
            others = await Raw(http, "2025-06-18").post(whoami(), Mcp_Session_Id=session)

    assert (own.status_code, others.status_code) == (200, 404)


async def test_a_catalog_that_takes_nothing_keeps_nobody_from_beginning(new_server: ToolServer) -> None:
    full = CatalogUnavailable("catalog.sqlite", "no space left on the device")
    async with new_server.http() as http:
        client = Raw(http, "2025-06-18")
        with mock.patch.object(new_server.tower.database, "write", side_effect=full):
            begun = await client.post(hello())
        called = await client.post(whoami())

    assert begun.status_code == called.status_code == 200
    assert "mcp-session-id" not in begun.headers


async def test_the_name_of_a_client_is_kept_but_not_all_it_says(server: ToolServer) -> None:
    long = "x" * 10_000
    async with server.http() as http:
        begun = await Raw(http, "").post(hello(clientInfo={"name": long, "version": 3, "more": long}))
    session = begun.headers["mcp-session-id"]

    def kept(connection: Connection) -> object:
        return connection.execute(
            select(schema.wire_session.c.client).where(schema.wire_session.c.id == session)
        ).scalar_one()

    # A version that is no text is refused by the protocol, and the session that was begun is none that anybody knows.
    assert await server.tower.database.read(kept) == {"name": "x" * 200, "version": "3"}


def _count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(schema.wire_session)).scalar_one()


@asynccontextmanager
async def _sessions(data: Path, clock: FakeClock) -> AsyncGenerator[tuple[WireSessions, SqliteDatabase]]:
    database = await SqliteDatabase.open(data / "catalog.sqlite")
    try:
        yield WireSessions(database, clock), database
    finally:
        await database.close()


class TestTime:
    """What time does to sessions."""

    async def test_one_that_is_used_once_in_30_days_lives_on(self, tmp_path: Path) -> None:
        clock = FakeClock()
        async with _sessions(tmp_path, clock) as (sessions, _):
            session = await sessions.open(_ALICE, client={}, protocol="2025-06-18")
            assert session is not None

            for _ in range(4):
                clock.advance(29 * _DAY_S)
                assert await sessions.find(_ALICE, session) is not None
            clock.advance(30 * _DAY_S)
            assert await sessions.find(_ALICE, session) is None

    async def test_old_ones_are_forgotten_when_a_new_one_begins(self, tmp_path: Path) -> None:
        clock = FakeClock()
        async with _sessions(tmp_path, clock) as (sessions, database):
            await sessions.open(_ALICE, client={}, protocol="2025-06-18")
            clock.advance(31 * _DAY_S)

            await sessions.open(_ALICE, client={}, protocol="2025-06-18")

            assert await database.read(_count) == 1

    async def test_that_one_is_used_is_written_at_most_once_a_minute(self, tmp_path: Path) -> None:
        clock = FakeClock()
        async with _sessions(tmp_path, clock) as (sessions, database):
            session = await sessions.open(_ALICE, client={}, protocol="2025-06-18")
            assert session is not None
            with mock.patch.object(database, "write", wraps=database.write) as write:
                for _ in range(180):
                    clock.advance(1)
                    await sessions.find(_ALICE, session)

        assert write.call_count == 3

    async def test_a_client_that_begins_anew_with_each_call_fills_no_disk(self, tmp_path: Path) -> None:
        clock = FakeClock()
        async with _sessions(tmp_path, clock) as (sessions, database):
            bob = Principal("token:bob", "agent", "bob")
            first = await sessions.open(_ALICE, client={}, protocol="2025-06-18")
            his = await sessions.open(bob, client={}, protocol="2025-06-18")
            assert first is not None
            assert his is not None

            def flood(connection: Connection) -> None:
                for _ in range(OWN_MAX):
                    clock.advance(0.001)
                    add_wire_session(
                        connection,
                        id=new_wire_session_id(),
                        principal=_ALICE.id,
                        client={},
                        protocol="2025-06-18",
                        wall_us=clock.wall_us(),
                    )

            await database.write(flood)

            assert await database.read(_count) == OWN_MAX + 1
            assert await sessions.find(_ALICE, first) is None
            assert await sessions.find(bob, his) is not None
