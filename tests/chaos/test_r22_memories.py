"""R22: clients append, the server is killed with -9, all repeat what was not answered: each is there once."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from typing import cast
from urllib.parse import urlsplit

from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, free_port
from tests.support.mcp_client import modern, modern_headers
from tests.support.services import Service
from tests.support.tiers import sized

_CLIENTS = sized(8, 20, 20)
_KILLS = sized(1, 4, 100)
_MISSES_MAX = 50  # kills, until one comes between an append and its answer
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

    @property
    def repeated(self) -> int:
        """How many of its calls had been done before they were answered."""
        return sum(1 for answer in list(self.answered) if answer.get("repeated"))

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
        connection = http.client.HTTPConnection(str(self._address.hostname), self._address.port, timeout=DEADLINE_S)
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
    _await_more(clients)

    kills = 0
    while kills < _KILLS or not any(client.repeated for client in clients):
        time.sleep(chance.uniform(0, _AN_APPEND_S))  # the moment is what is tested
        server.kill()
        server.start()
        kills += 1
        assert kills < _KILLS + _MISSES_MAX, "no kill came between an append and its answer"
        _await_more(clients)
    for client in clients:
        client.ending.set()
    for client in clients:
        client.join(DEADLINE_S)
        assert not client.is_alive()

    for client in clients:
        count = len(client.answered)
        assert [answer["seq"] for answer in client.answered] == list(range(1, count + 1))
        assert {answer["session_id"] for answer in client.answered} == {client.session}
        _assert_rows(server, client.session, count)
    total = sum(len(client.answered) for client in clients)
    cut, repeated = sum(client.cut for client in clients), sum(client.repeated for client in clients)
    print(f"{total} memories, {kills} kills, {cut} without an answer, {repeated} done before")


def _await_more(clients: list[_Client]) -> None:
    """Return when each client has been answered again."""
    before = [len(client.answered) for client in clients]

    def have_more() -> bool:
        assert all(client.is_alive() for client in clients), "one has ended"
        return all(len(client.answered) > count for client, count in zip(clients, before, strict=True))

    eventually(have_more, "everybody goes on")


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
