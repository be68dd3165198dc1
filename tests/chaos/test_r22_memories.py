"""R22: twenty clients append, the server is killed with -9, all repeat what was not answered: each is there once."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from typing import cast
from urllib.parse import urlsplit

import pytest

from chaos.cluster import Service
from chaos.fleet import Fleet, free_port
from chaos.machine import eventually
from mcp_room.raw import modern, modern_headers
from scrubjay.tape.record import Json
from tiers import sized

_CLIENTS = 20
_KILLS = sized(4, 100)
_AN_APPEND_S = 0.05
_AGAIN_S = 0.1


class _Client(threading.Thread):
    """Appends one after the other; what is not answered is asked again over another connection by the same key."""

    def __init__(self, url: str, token: str, name: str) -> None:
        super().__init__(daemon=True)
        self._address = urlsplit(url)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Scrubjay-Connection": name,
        }
        self.session = str(self._call("resume_session")["session_id"])
        self.answered: list[Json] = []
        self.cut = 0
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            number = len(self.answered) + 1
            try:
                answer = self._call("add_memory", prompt=f"turn {number}", idempotency_key=f"k{number}")
            except (OSError, http.client.HTTPException):
                self.cut += 1
                time.sleep(_AGAIN_S)
            else:
                self.answered.append(answer)

    def _call(self, tool: str, **arguments: object) -> Json:
        message = modern("tools/call", name=tool, arguments=arguments)
        connection = http.client.HTTPConnection(str(self._address.hostname), self._address.port, timeout=30)
        try:
            connection.request("POST", "/mcp", json.dumps(message), self._headers | modern_headers(message))
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status == 503:
            raise OSError(text)
        said = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
        result = json.loads(said[-1])["result"]
        assert not result.get("isError"), result
        return cast(Json, result["structuredContent"])


@pytest.mark.timeout(sized(120, 1800))
def test_r22_what_is_repeated_by_its_key_after_a_kill_of_the_server_is_there_once(fleet: Fleet) -> None:
    chance = random.Random(22)
    port = free_port()
    server = fleet.service("server", "--port", str(port), "--json")
    server.start()
    clients: list[_Client] = []
    for number in range(_CLIENTS):
        made = cast(Json, server.client.post("/api/v1/tokens", {"role": "agent", "name": f"agent {number}"}))
        clients.append(_Client(f"http://127.0.0.1:{port}", str(made["token"]), f"c{number}"))
    for client in clients:
        client.start()

    for _ in range(_KILLS):
        _await_more(clients)
        time.sleep(chance.uniform(0, _AN_APPEND_S))  # the moment is what is tested
        server.kill()
        server.start()
    _await_more(clients)
    for client in clients:
        client.ending.set()
    for client in clients:
        client.join(30)
        assert not client.is_alive()

    repeated = 0
    for client in clients:
        count = len(client.answered)
        assert [answer["seq"] for answer in client.answered] == list(range(1, count + 1))
        assert {answer["session_id"] for answer in client.answered} == {client.session}
        repeated += sum(1 for answer in client.answered if answer.get("repeated"))
        _assert_rows(server, client.session, count)
    total = sum(len(client.answered) for client in clients)
    print(f"{total} memories, {_KILLS} kills, {sum(c.cut for c in clients)} without an answer, {repeated} done before")
    assert repeated, "no kill came between an append and its answer"


def _await_more(clients: list[_Client]) -> None:
    """Return when each client has been answered again."""
    before = [len(client.answered) for client in clients]

    def have_more() -> bool:
        assert all(client.is_alive() for client in clients), "one has ended"
        return all(len(client.answered) > count for client, count in zip(clients, before, strict=True))

    eventually(have_more, "everybody goes on", within_s=60)


def _assert_rows(server: Service, session: str, count: int) -> None:
    prompts: list[object] = []
    cursor: dict[str, str] = {}
    while True:
        page = cast(Json, server.client.get(f"/api/v1/sessions/{session}/memories", limit=1000, **cursor))
        prompts += [memory["prompt"] for memory in cast(list[Json], page["memories"])]
        if page.get("cursor") is None:
            break
        cursor = {"cursor": str(page["cursor"])}
    assert prompts == [f"turn {number}" for number in range(1, count + 1)]
