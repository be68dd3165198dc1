"""Every pod that the server starts finds the server's tools, with a token of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from scrubjay.ids import PodId, new_pod_id, new_runner_id, parse_pod_id
from scrubjay.server import credentials, tower
from scrubjay.server.peer import Peer
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PROTOCOL, Answer, Ask, Hello, PodReport, Roster, Start, decode_from_server, encode
from tests.support.conditions import DEADLINE_S, until
from tests.support.in_process_up import InProcessUp, Onlooker
from tests.support.mcp_client import MODERN_VERSION, Raw, connected

pytestmark = pytest.mark.anyio


async def _run(up: InProcessUp, folder: Path, **more: object) -> tuple[str, dict[str, str]]:
    """A pod that the server starts, and the environment it finds."""
    written = folder / "environment"
    command = ["sh", "-c", f"env > '{written}.new'; mv '{written}.new' '{written}'; sleep 100"]
    pod = str((await up.post("/api/v1/pods", {"command": command, **more}))["id"])
    await until(written.exists, "the environment is written")
    return pod, _environment(written)


def _environment(written: Path) -> dict[str, str]:
    lines = written.read_text().splitlines()
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


async def _who(up: InProcessUp, token: str) -> httpx.Response:
    return await up.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


async def _pods_of_tokens(up: InProcessUp) -> set[str]:
    return {str(token["pod"]) for token in cast(list[Json], await up.get("/api/v1/tokens"))}


async def test_a_pod_finds_the_address_and_a_token_of_its_own(up: InProcessUp, tmp_path: Path) -> None:
    pod, environ = await _run(up, tmp_path)

    who = (await _who(up, environ["JAY_MCP_TOKEN"])).json()

    assert environ["JAY_MCP_URL"] == f"{up.server.url}/mcp"
    assert (who["role"], who["pod"]) == ("pod", pod)
    assert environ["SCRUBJAY_SET"].split() == ["JAY_MCP_TOKEN", "JAY_MCP_URL"]


async def test_an_agent_that_calls_before_its_pod_is_reported_is_answered_once_it_is(
    up: InProcessUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, reported = up.server.tower, asyncio.Event()
    take_reports, until_known = server.take_reports, server.until_known
    awaited: list[PodId] = []

    async def take_late(peer: Peer, changes: Sequence[PodReport | PodId]) -> None:
        await reported.wait()
        await take_reports(peer, changes)

    async def note(pod: PodId) -> None:
        awaited.append(pod)
        await until_known(pod)

    async def whoami(token: str) -> object:
        async with connected(up.server.url, token) as http:
            answer = await Raw(http, MODERN_VERSION).ask("tools/call", name="whoami", arguments={})
            return cast(Json, answer["structuredContent"]).get("name")

    monkeypatch.setattr(tower, "_HEARD_WITHIN_S", DEADLINE_S)
    monkeypatch.setattr(server, "take_reports", take_late)
    monkeypatch.setattr(server, "until_known", note)
    starting = asyncio.create_task(_run(up, tmp_path, name="early"))
    written = tmp_path / "environment"
    await until(written.exists, "the agent runs")
    asking = asyncio.create_task(whoami(_environment(written)["JAY_MCP_TOKEN"]))
    await until(lambda: asking.done() or len(awaited) == 2, "start and call wait for the report")
    reported.set()

    assert await asking == "early"
    await starting


async def test_the_token_is_not_on_the_tape_nor_in_the_pods_files(up: InProcessUp, tmp_path: Path) -> None:
    command = 'printf "%s\\n" "$JAY_MCP_TOKEN" "${#JAY_MCP_TOKEN} characters"; sleep 100'
    pod = str((await up.post("/api/v1/pods", {"command": ["sh", "-c", command], "cols": 120}))["id"])
    _, environ = await _run(up, tmp_path)

    async def shown() -> str:
        return (await up.http.get(f"/api/v1/pods/{pod}/screen", params={"format": "text"})).text

    async with asyncio.timeout(DEADLINE_S):
        while "characters" not in (screen := await shown()):
            await asyncio.sleep(0.01)

    assert f"{len(environ['JAY_MCP_TOKEN'])} characters" in screen
    assert "redacted" in screen
    for path in (up.settings.data / "pods" / pod).rglob("*"):
        assert not path.is_file() or b"sjt_" not in path.read_bytes(), path


async def test_a_token_ends_with_its_pod(up: InProcessUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "CACHE_S", 0.1)
    pod, environ = await _run(up, tmp_path)
    assert (await _who(up, environ["JAY_MCP_TOKEN"])).status_code == 200

    await up.post(f"/api/v1/pods/{pod}/stop", {"grace_s": 0})
    await until(lambda: up.server.tower.pods[parse_pod_id(pod)].over, "it has ended")

    assert pod not in await _pods_of_tokens(up)
    async with asyncio.timeout(DEADLINE_S):  # what the guard has seen it believes for a moment
        while (await _who(up, environ["JAY_MCP_TOKEN"])).status_code != 401:
            await asyncio.sleep(0.01)


async def test_a_start_that_fails_leaves_no_token(up: InProcessUp) -> None:
    before = await _pods_of_tokens(up)

    response = await up.http.post("/api/v1/pods", json={"command": ["there-is-no-such-program"]})

    assert response.status_code == 400
    assert await _pods_of_tokens(up) == before


async def test_who_wants_no_tools_gets_none(up: InProcessUp, tmp_path: Path) -> None:
    pod, environ = await _run(up, tmp_path, mcp=False)

    assert not [name for name in environ if name.startswith("JAY_")]
    assert pod not in await _pods_of_tokens(up)


async def test_a_pod_gets_its_own_token_even_if_another_is_asked_for(up: InProcessUp, tmp_path: Path) -> None:
    pod, environ = await _run(up, tmp_path, environment={"JAY_MCP_TOKEN": "mine", "JAY_MCP_URL": "http://elsewhere"})

    assert (await _who(up, environ["JAY_MCP_TOKEN"])).json()["pod"] == pod
    assert environ["JAY_MCP_URL"] == f"{up.server.url}/mcp"


async def test_a_runner_that_knows_nothing_of_passes_starts_pods_all_the_same(
    up: InProcessUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tower, "_HEARD_WITHIN_S", 0.1)  # the test does not report the pod
    async with _older_runner(up) as runner:
        body: Json = {"command": ["agent"], "runner": "older"}
        starting = asyncio.create_task(up.post("/api/v1/pods", body))
        ask = await _asked(runner)
        assert isinstance(ask.request, Start)
        assert ask.request.pod in await _pods_of_tokens(up)

        own = new_pod_id()
        await runner.say(encode(Answer(re=ask.id, result={"id": own, "name": "agent", "session": "s" * 26})))

        assert (await starting)["id"] == own
        assert ask.request.pod not in await _pods_of_tokens(up)


async def test_a_start_that_nobody_answers_may_still_come_to_a_pod_with_its_token(up: InProcessUp) -> None:
    async with _older_runner(up) as runner:
        starting = asyncio.create_task(up.http.post("/api/v1/pods", json={"command": ["agent"], "runner": "older"}))
        ask = await _asked(runner)
        assert isinstance(ask.request, Start)

    assert not (await starting).is_success
    assert ask.request.pod in await _pods_of_tokens(up)


@asynccontextmanager
async def _older_runner(up: InProcessUp) -> AsyncGenerator[Onlooker]:
    """A machine that the test speaks for."""
    async with up.look("/api/v1/runner", await up.token("runner")) as runner:
        hello = Hello(protocol=PROTOCOL, version="0", runner=new_runner_id(), name="older", host="older")
        await runner.say(encode(hello))
        await runner.say(encode(Roster(pods=())))
        peers = up.server.tower.peers
        await until(lambda: any(peer.name == "older" for peer in peers.values()), "it is known")
        yield runner


async def _asked(runner: Onlooker) -> Ask:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            message = await runner.connection.recv()
            assert isinstance(message, bytes)
            if isinstance(said := decode_from_server(message), Ask):
                return said
