"""R22: what is asked to be typed is typed once, however often it is asked for again because no answer came."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import cast

from scrubjay.cli.client import Client, ServerRefused, ServerUnreachable
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from scrubjay.unix_sockets import dial
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.services import Service
from tests.support.tiers import sized

_CUT = sized(5, 100, 100)  # answers
_KILLS = sized(2, 6, 100)
_AN_ANSWER_S = 0.25  # in which something is typed, and Enter after it


class _Typed:
    """A pod that keeps the lines it reads, and what is on its tape."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self._log = fleet.logs / f"{name}.lines"
        reading = f"while read -r line; do printf '%s\\n' \"$line\" >> {self._log}; done"
        self.member: Member = fleet.start(name, "sh", "-c", reading)

    @property
    def path(self) -> str:
        """Where it is typed into."""
        return f"/api/v1/pods/{self.member.pod.id}/input"

    def read(self) -> list[str]:
        """What the program was given."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    def taped(self) -> Counter[bytes]:
        """What was typed, by the tape."""
        inputs = [record.typed() for record in self.member.records(Kind.INPUT)]
        return Counter(typed.data for typed in inputs if typed.answers is None)

    def assert_typed_once(self, count: int) -> None:
        """Lines 0, 1, 2 … are there, each once and in order."""
        lines = [_line(number) for number in range(count)]
        eventually(lambda: len(self.read()) >= count, "the program has read it all")
        assert self.read() == lines
        assert self.taped() == Counter({line.encode(): 1 for line in lines} | {b"\r": count})


def _line(number: int) -> str:
    return f"line {number:04d}"


def _body(number: int) -> Json:
    return {"text": _line(number), "enter": True}


def test_r22_a_request_whose_answer_was_cut_off_is_typed_once_and_answered_the_same(fleet: Fleet) -> None:
    up = fleet.up()
    typed = _Typed(fleet, "reader")
    eventually(lambda: len(up.processes()) == 1, "it is in the fleet")

    answers: list[object] = []
    for number in range(_CUT):
        key = f"key-{number}"
        _ask_and_hang_up(up, typed.path, _body(number), key, when=lambda: len(typed.read()) > number)  # noqa: B023
        answers.append(up.client.post(typed.path, _body(number), key=key))
        assert up.client.post(typed.path, _body(number), key=key) == answers[-1]

    typed.assert_typed_once(_CUT)
    ends = [record.end for record in typed.member.records(Kind.INPUT) if record.typed().data == b"\r"]
    assert answers == [{"offset": end} for end in ends]
    fleet.finish(typed.member)


def _ask_and_hang_up(up: Service, path: str, body: Json, key: str, *, when: Callable[[], bool]) -> None:
    """Send a request and close the connection once something has come of it, without having read the answer."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n"
    with dial(up.data / "server.sock", timeout_s=DEADLINE_S) as connection:
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        eventually(when, "it is typed")
        connection.shutdown(socket.SHUT_RDWR)


def test_r22_a_request_during_which_the_server_was_killed_is_typed_once(fleet: Fleet) -> None:
    chance = random.Random(22)
    up = fleet.up()
    typed = _Typed(fleet, "reader")
    eventually(lambda: len(up.processes()) == 1, "it is in the fleet")

    answers: list[Json] = []
    for number in range(_KILLS):
        asking = threading.Thread(target=lambda: answers.append(_ask_again(up.client, typed.path, number)))  # noqa: B023
        asking.start()
        time.sleep(chance.uniform(0, _AN_ANSWER_S))  # the moment is what is tested
        up.kill()
        up.start()
        asking.join(DEADLINE_S)
        assert not asking.is_alive()
        assert up.client.post(typed.path, _body(number), key=f"key-{number}") == answers[number]

    typed.assert_typed_once(_KILLS)
    fleet.finish(typed.member)


def _ask_again(client: Client, path: str, number: int) -> Json:
    """Ask with the same key until there is an answer."""
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            return cast(Json, client.post(path, _body(number), key=f"key-{number}"))
        except (ServerUnreachable, ServerRefused):
            assert time.monotonic() < until
            time.sleep(0.02)
