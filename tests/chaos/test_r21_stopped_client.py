"""R21 with real processes: a client is stopped, another gets its session, the first is continued and writes nothing.

The client is that of the official SDK (``chaos.rememberers``); what speaks for it is stopped with it.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Generator
from typing import cast

import httpx
import pytest

from scrubjay.tape.record import Json
from tests.chaos.rememberers import Journal, Nursery, Remembering, open_nursery
from tests.programs.rememberer import Transport
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, free_port
from tests.support.mcp_client import modern, modern_headers, result_of
from tests.support.processes import children_of, is_alive, kill, state_of
from tests.support.services import Service
from tests.support.tiers import sized

_ROUNDS = sized(1, 3, 50)
_AN_APPEND_S = 0.015


@pytest.fixture(scope="module")
def nursery() -> Generator[Nursery]:
    with open_nursery() as nursery:
        yield nursery


@pytest.fixture
def server(fleet: Fleet) -> Service:
    """A server that gives up on a silent client after a second, and closes no connection meanwhile."""
    # A client that lost its connection would come back in a new session, and not write late into its own.
    fleet.times |= {"scrubjay.server.limits.BODY_MAX_S": DEADLINE_S, "scrubjay.server.protocols.REST_MAX_S": DEADLINE_S}
    service = fleet.service("server", "--port", str(free_port()), "--json", settings={"SCRUBJAY_LEASE_S": "1"})
    service.start()
    return service


def _call(client: Remembering, tool: str, **arguments: object) -> Json:
    """What a tool says to somebody else with the same token."""
    message = modern("tools/call", name=tool, arguments=arguments)
    headers = {
        "Authorization": f"Bearer {client.token}",
        "Accept": "application/json, text/event-stream",
        "Scrubjay-Connection": "another",
    }
    answer = httpx.post(
        f"{client.url}/mcp", json=message, headers=headers | modern_headers(message), timeout=DEADLINE_S
    )
    result = result_of(answer)
    assert not result.get("isError"), result
    return cast(Json, result["structuredContent"])


def _resume_elsewhere(client: Remembering) -> Json:
    """Take the session of a stopped client for another connection; what ``resume_session`` answers."""
    eventually(lambda: client.describe()["resumable"], "its holder has lapsed")

    def resumed() -> Json | None:
        # What the client asked for last may still be on its way, and count as a sign of life when the server reads it.
        answer = _call(client, "resume_session", session_id=client.session)
        return answer if answer["resumed"] else None

    return eventually(resumed, "another connection has the session")


def _refusal(client: Remembering) -> str:
    """Why the client has ended."""

    def failed() -> str | None:
        lines = [json.loads(line) for line in client.journal.path.read_text().splitlines()]
        return next((f"{line['failed']} {line['why']}" for line in lines if "failed" in line), None)

    return eventually(failed, "it was refused")


@pytest.mark.parametrize("transport", ["legacy", "modern", "stdio"])
def test_r21_a_client_that_was_stopped_for_too_long_writes_nothing_when_it_goes_on(
    fleet: Fleet, server: Service, nursery: Nursery, transport: Transport
) -> None:
    chance = random.Random(f"{transport} 21")
    made = cast(Json, server.client.post("/api/v1/tokens", {"role": "agent", "name": "ann"}))
    url = str(json.loads(server.log)["url"])

    for number in range(_ROUNDS):
        journal = Journal(fleet.logs / f"{transport}-{number}.journal")
        client = Remembering(nursery, server, url, str(made["token"]), transport, journal)
        client.open()
        client.await_answers(chance.randint(1, 5))
        time.sleep(chance.uniform(0, _AN_APPEND_S))  # the moment is what is tested
        stopped = [client.pid, *children_of(client.pid)]
        for pid in stopped:
            kill(pid, signal.SIGSTOP)
        eventually(lambda: all(state_of(pid) == "T" for pid in stopped), "it stands still")  # noqa: B023

        back = _resume_elsewhere(client)
        before = cast(int, back["last_seq"])
        _call(client, "add_memory", prompt="the first of another")
        for pid in stopped:
            kill(pid, signal.SIGCONT)
        refused = _refusal(client)
        _call(client, "add_memory", prompt="the second of another")

        assert "fenced" in refused
        assert "another connection (ann) has it now" in refused
        memories = client.memories()
        assert [memory["seq"] for memory in memories] == list(range(1, before + 3))
        assert [memory["prompt"] for memory in memories] == [
            *(f"number {each}" for each in range(1, before + 1)),
            "the first of another",
            "the second of another",
        ]
        assert {memory["epoch"] for memory in memories[before:]} == {back["epoch"]}
        eventually(lambda: not is_alive(client.pid), "it has ended")  # noqa: B023
