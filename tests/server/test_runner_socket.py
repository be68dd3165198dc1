"""A runner at the server's door: which ones it has, and what it makes of what they say."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection, connect

from scrubjay.errors import KeeperRefused
from scrubjay.ids import PodId, RunnerId, new_runner_id
from scrubjay.server.peer import Peer
from scrubjay.server.sockets.runner import OUTGOING_MAX_BYTES
from scrubjay.server.tower import Tower
from scrubjay.store.events import read_events
from scrubjay.store.runners import list_runners
from scrubjay.tape.record import Json
from scrubjay.wire.messages import (
    PROTOCOL,
    Ask,
    Fault,
    FromServer,
    Hello,
    Offer,
    PodChanged,
    PodGone,
    Refused,
    Roster,
    Type,
    Welcome,
    decode_from_server,
    encode,
)
from scrubjay.wire.messages import Answer as RunnerAnswer
from tests.support.conditions import until
from tests.support.guarded_server import Answer, RealServer
from tests.support.linked_runner import report_of

pytestmark = pytest.mark.anyio

_JSON = ("Content-Type", "application/json")


@asynccontextmanager
async def _join(
    server: RealServer, token: str, runner: RunnerId, *, max_queue: int = 16
) -> AsyncGenerator[tuple[ClientConnection, FromServer]]:
    """Say hello; the connection, and the first word of the server."""
    url = f"ws://127.0.0.1:{server.guarded_server.port}/api/v1/runner"
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(
        url, additional_headers=headers, compression=None, max_queue=max_queue, close_timeout=1
    ) as connection:
        hello = Hello(protocol=PROTOCOL, version="0", runner=runner, name="box", host="box")
        await connection.send(encode(hello))
        message = await asyncio.wait_for(connection.recv(), 10)
        assert isinstance(message, bytes)
        yield connection, decode_from_server(message)


async def _first_word(server: RealServer, token: str, runner: RunnerId) -> FromServer:
    async with _join(server, token, runner) as (_, word):
        return word


async def test_a_token_belongs_to_the_runner_that_used_it_first(server: RealServer) -> None:
    token, mine = await server.guarded_server.token("runner"), new_runner_id()
    assert isinstance(await _first_word(server, token, mine), Welcome)

    with capture_logs() as logs:
        refused = await _first_word(server, token, new_runner_id())

    assert isinstance(refused, Refused)
    assert "belongs to another runner" in refused.reason
    assert "token create --role runner" in refused.reason
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["runner.refused"]
    assert isinstance(await _first_word(server, token, mine), Welcome)
    bound = [event for event in await server.guarded_server.database.read(read_events) if event.kind == "token.bound"]
    assert [event.data["runner"] for event in bound] == [mine]


async def test_a_new_token_does_not_make_anybody_a_runner_that_has_one(server: RealServer) -> None:
    token, other, mine = (
        await server.guarded_server.token("runner"),
        await server.guarded_server.token("runner"),
        new_runner_id(),
    )
    assert isinstance(await _first_word(server, token, mine), Welcome)

    refused = await _first_word(server, other, mine)
    assert isinstance(refused, Refused)
    assert f"scrubjay token revoke {token.split('_')[1]}" in refused.reason

    await server.guarded_server.gate.credentials.revoke_token(token.split("_")[1])
    assert isinstance(await _first_word(server, other, mine), Welcome)


@pytest.mark.parametrize(
    "wanted",
    [
        {"command": ["cat", "\ud800"]},
        {"command": ["cat"], "cwd": "/\udfff"},
        {"command": ["cat"], "environment": {"A": "\ud800"}},
        {"command": ["cat"], "cols": 1 << 80},
        {"command": ["cat"], "rows": -(1 << 80)},
    ],
)
async def test_what_cannot_be_sent_to_a_runner_is_refused_and_its_link_stays(server: RealServer, wanted: Json) -> None:
    operator, runner = await server.guarded_server.bearer(), new_runner_id()

    async def start(wanted: Json) -> Answer:
        body = json.dumps(wanted | {"runner": runner}).encode()  # a runner of another test may not be gone yet
        return await server.guarded_server.ask("POST", "/api/v1/pods", operator, _JSON, body=body)

    async with _join(server, await server.guarded_server.token("runner"), runner) as (connection, _):
        refused = await start(wanted)
        assert (refused.status, refused.code) in ((400, "bad_input"), (400, "bad_request"))

        asking = asyncio.create_task(start({"command": ["true"]}))
        ask = await _asked(connection)
        fault = Fault(kinds=("StartFailed", "ScrubjayError"), message="not today")
        await connection.send(encode(RunnerAnswer(re=ask.id, fault=fault)))
        assert (await asking).json["error"]["message"] == "not today"


async def _asked(connection: ClientConnection) -> Ask:
    while True:
        message = await asyncio.wait_for(connection.recv(), 10)
        assert isinstance(message, bytes)
        if isinstance(said := decode_from_server(message), Ask):
            return said


async def test_a_runner_that_takes_nothing_is_not_typed_to_without_end(server: RealServer) -> None:
    tower, runner = server.app.state.tower, new_runner_id()
    assert isinstance(tower, Tower)
    keys = Type(pod="p" * 26, data=bytes(64 << 10), author="operator:ann")
    async with _join(server, await server.guarded_server.token("runner"), runner, max_queue=1) as (connection, _):
        peer, typed = tower.peers[runner], 0
        while _is_told(peer, keys):
            typed += 1
            assert typed * len(keys.data) < 4 * OUTGOING_MAX_BYTES
            await asyncio.sleep(0)

        for _ in range(typed):
            assert (await _asked(connection)).request == keys
        await until(lambda: _is_told(peer, keys), "there is room again")
        assert (await _asked(connection)).request == keys


def _is_told(peer: Peer, request: Type) -> bool:
    try:
        peer.tell(request)
    except KeeperRefused:
        return False
    return True


async def test_a_runner_that_takes_nothing_of_what_must_be_said_is_hung_up_on(server: RealServer) -> None:
    tower, runner = server.app.state.tower, new_runner_id()
    assert isinstance(tower, Tower)
    pods = tuple(f"{number:026d}" for number in range(20_000))
    with capture_logs():
        async with _join(server, await server.guarded_server.token("runner"), runner, max_queue=1):
            peer, said = tower.peers[runner], 0
            while runner in tower.peers:
                peer.watch(pods)
                said += 27 * len(pods)
                assert said < 8 * OUTGOING_MAX_BYTES
                await asyncio.sleep(0.001)
    [row] = [found for found in await server.guarded_server.database.read(list_runners) if found.id == runner]
    assert row.reason == "it has not taken 16 MiB that were said to it"


async def test_a_start_that_was_done_is_answered_though_its_runner_is_away(server: RealServer) -> None:
    operator, runner, pod = await server.guarded_server.bearer(), new_runner_id(), report_of()
    key = ("Idempotency-Key", "away")

    async def start() -> Answer:
        body = json.dumps({"command": ["cat"], "runner": runner}).encode()
        return await server.guarded_server.ask("POST", "/api/v1/pods", operator, key, _JSON, body=body)

    async with _join(server, await server.guarded_server.token("runner"), runner) as (connection, _):
        asking = asyncio.create_task(start())
        ask = await _asked(connection)
        result: Json = {"id": pod.id, "name": pod.name, "session": pod.session}
        await connection.send(encode(PodChanged(pod=pod)))
        await connection.send(encode(RunnerAnswer(re=ask.id, result=result)))
        first = await asking
    tower = server.app.state.tower
    await until(lambda: runner not in tower.peers, "the runner is gone")

    again = await start()

    assert (first.status, again.status) == (201, 201)
    assert first.json == again.json == result


async def test_a_runner_whose_name_for_a_pod_is_none_is_hung_up_on_without_an_outcry(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as logs:
        async with _join(server, await server.guarded_server.token("runner"), new_runner_id()) as (connection, _):
            await connection.send(encode(Offer(pod="../x")))
            await asyncio.wait_for(connection.wait_closed(), 10)
        await until(lambda: [entry for entry in logs if entry["event"] == "runner.connection_ended"], "it is noted")

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_runner_cannot_speak_of_the_pods_of_another(server: RealServer) -> None:
    tower, pod, thief = server.app.state.tower, report_of(), new_runner_id()
    assert isinstance(tower, Tower)
    async with (
        _join(server, await server.guarded_server.token("runner"), new_runner_id()) as (owner, _),
        _join(server, await server.guarded_server.token("runner"), thief) as (stranger, _),
    ):
        await owner.send(encode(Roster(pods=(pod,))))
        await until(lambda: pod.id in tower.pods, "the pod is in the fleet")

        with capture_logs() as logs:
            stolen = structs.replace(pod, name="stolen", process="lost")
            for message in (Roster(pods=(stolen,)), PodGone(pod=pod.id), Offer(pod=pod.id)):
                await stranger.send(encode(message))
            await until(lambda: sum(map(_is_of_foreign_pod, logs)) == 3, "each is noticed")

        known = tower.pods[PodId(pod.id)].report
        assert (known.name, known.process) == (pod.name, "running")


def _is_of_foreign_pod(entry: MutableMapping[str, Any]) -> bool:
    return entry["event"] == "runner.spoke_of_foreign_pod"


async def test_a_refusal_that_is_too_long_for_a_close_is_cut(server: RealServer) -> None:
    async with _join(server, await server.guarded_server.token("runner"), RunnerId("\u20ac" * 1000)) as (
        connection,
        word,
    ):
        await asyncio.wait_for(connection.wait_closed(), 10)

    assert isinstance(word, Refused)
    assert connection.close_code == 4409
    assert (connection.close_reason or "").startswith("'\u20ac\u20ac")
