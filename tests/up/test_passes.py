"""Every pod that the server starts finds the server's tools, with a token of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from chaos.machine import until
from scrubjay.ids import new_pod_id, new_runner_id, parse_pod_id
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PROTOCOL, Answer, Ask, Hello, Roster, Start, decode_from_server, encode
from up.machine import Machine, Onlooker

pytestmark = pytest.mark.anyio


async def _run(machine: Machine, folder: Path, **more: object) -> tuple[str, dict[str, str]]:
    """A pod that the server starts, and the environment it finds."""
    written = folder / "environment"
    command = ["sh", "-c", f"env > '{written}.new'; mv '{written}.new' '{written}'; sleep 100"]
    pod = str((await machine.post("/api/v1/pods", {"command": command, **more}))["id"])
    await until(written.exists, "the environment is written")
    lines = written.read_text().splitlines()
    return pod, {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


async def _who(machine: Machine, token: str) -> httpx.Response:
    return await machine.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


async def _pods_of_tokens(machine: Machine) -> set[str]:
    return {str(token["pod"]) for token in cast(list[Json], await machine.get("/api/v1/tokens"))}


async def test_a_pod_finds_the_address_and_a_token_of_its_own(machine: Machine, tmp_path: Path) -> None:
    pod, environ = await _run(machine, tmp_path)

    who = (await _who(machine, environ["JAY_MCP_TOKEN"])).json()

    assert environ["JAY_MCP_URL"] == f"{machine.server.url}/mcp"
    assert (who["role"], who["pod"]) == ("pod", pod)
    assert environ["SCRUBJAY_SET"].split() == ["JAY_MCP_TOKEN", "JAY_MCP_URL"]


async def test_the_token_is_not_on_the_tape_nor_in_the_pods_files(machine: Machine, tmp_path: Path) -> None:
    command = 'printf "%s\\n" "$JAY_MCP_TOKEN" "${#JAY_MCP_TOKEN} characters"; sleep 100'
    pod = str((await machine.post("/api/v1/pods", {"command": ["sh", "-c", command], "cols": 120}))["id"])
    _, environ = await _run(machine, tmp_path)

    async def shown() -> str:
        return (await machine.http.get(f"/api/v1/pods/{pod}/screen", params={"format": "text"})).text

    screen = await shown()
    deadline = asyncio.get_running_loop().time() + 10
    while "characters" not in screen and asyncio.get_running_loop().time() < deadline:
        screen = await shown()

    assert f"{len(environ['JAY_MCP_TOKEN'])} characters" in screen
    assert "redacted" in screen
    for path in (machine.settings.data / "pods" / pod).rglob("*"):
        assert not path.is_file() or b"sjt_" not in path.read_bytes(), path


async def test_a_token_ends_with_its_pod(machine: Machine, tmp_path: Path) -> None:
    pod, environ = await _run(machine, tmp_path)
    assert (await _who(machine, environ["JAY_MCP_TOKEN"])).status_code == 200

    await machine.post(f"/api/v1/pods/{pod}/stop", {"grace_s": 0})
    await until(lambda: machine.server.tower.pods[parse_pod_id(pod)].over, "it has ended")

    assert pod not in await _pods_of_tokens(machine)
    deadline = asyncio.get_running_loop().time() + 5  # what the guard has seen it believes for a moment
    while (await _who(machine, environ["JAY_MCP_TOKEN"])).status_code != 401:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.1)


async def test_a_start_that_fails_leaves_no_token(machine: Machine) -> None:
    before = await _pods_of_tokens(machine)

    response = await machine.http.post("/api/v1/pods", json={"command": ["there-is-no-such-program"]})

    assert response.status_code == 400
    assert await _pods_of_tokens(machine) == before


async def test_who_wants_no_tools_gets_none(machine: Machine, tmp_path: Path) -> None:
    pod, environ = await _run(machine, tmp_path, mcp=False)

    assert not [name for name in environ if name.startswith("JAY_")]
    assert pod not in await _pods_of_tokens(machine)


async def test_a_pod_gets_its_own_token_even_if_another_is_asked_for(machine: Machine, tmp_path: Path) -> None:
    pod, environ = await _run(
        machine, tmp_path, environment={"JAY_MCP_TOKEN": "mine", "JAY_MCP_URL": "http://elsewhere"}
    )

    assert (await _who(machine, environ["JAY_MCP_TOKEN"])).json()["pod"] == pod
    assert environ["JAY_MCP_URL"] == f"{machine.server.url}/mcp"


async def test_a_runner_that_knows_nothing_of_passes_starts_pods_all_the_same(machine: Machine) -> None:
    async with _older_runner(machine) as runner:
        body: Json = {"command": ["agent"], "runner": "older"}
        starting = asyncio.create_task(machine.post("/api/v1/pods", body))
        ask = await _asked(runner)
        assert isinstance(ask.request, Start)
        assert ask.request.pod in await _pods_of_tokens(machine)

        own = new_pod_id()
        await runner.say(encode(Answer(re=ask.id, result={"id": own, "name": "agent", "session": "s" * 26})))

        assert (await starting)["id"] == own
        assert ask.request.pod not in await _pods_of_tokens(machine)


async def test_a_start_that_nobody_answers_may_still_come_to_a_pod_with_its_token(machine: Machine) -> None:
    async with _older_runner(machine) as runner:
        starting = asyncio.create_task(
            machine.http.post("/api/v1/pods", json={"command": ["agent"], "runner": "older"})
        )
        ask = await _asked(runner)
        assert isinstance(ask.request, Start)

    assert not (await starting).is_success
    assert ask.request.pod in await _pods_of_tokens(machine)


@asynccontextmanager
async def _older_runner(machine: Machine) -> AsyncGenerator[Onlooker]:
    """A machine that the test speaks for."""
    async with machine.look("/api/v1/runner", await machine.token("runner")) as runner:
        hello = Hello(protocol=PROTOCOL, version="0", runner=new_runner_id(), name="older", host="older")
        await runner.say(encode(hello))
        await runner.say(encode(Roster(pods=())))
        peers = machine.server.tower.peers
        await until(lambda: any(peer.name == "older" for peer in peers.values()), "it is known")
        yield runner


async def _asked(runner: Onlooker) -> Ask:
    async with asyncio.timeout(10):
        while True:
            message = await runner.connection.recv()
            assert isinstance(message, bytes)
            if isinstance(said := decode_from_server(message), Ask):
                return said
