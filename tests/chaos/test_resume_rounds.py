"""A client is killed with -9 in the middle of an append, and the server too; the next one goes on: 1 … n, each once.

The clients are those of the official SDK, in every round: over streamable HTTP with a handshake and so with protocol
sessions, over streamable HTTP of 2026-07-28, which has none, and over standard input and output through
``scrubjay mcp``, in both eras. Each is a process of its own, forked from one that has the SDK loaded. Most come back by
``resume_session(takeover=true)`` while the server still takes the dead one for alive; some only by the header
``Scrubjay-Session`` or the variable ``SCRUBJAY_SESSION``, once its lease has lapsed.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Generator
from typing import cast

import pytest

from scrubjay.tape.record import Json
from tests.chaos.rememberers import Journal, Nursery, Remembering, open_nursery
from tests.programs.rememberer import Transport
from tests.support.fleet import Fleet, free_port
from tests.support.services import Service
from tests.support.tiers import sized

_ROUNDS: dict[Transport, int] = {
    "legacy": sized(4, 40, 100),
    "modern": sized(4, 40, 100),
    "stdio": sized(4, 20, 100),
}
_SERVER_KILLS = sized(1, 3, 10)  # over each transport
_PARAMETERS = sized(1, 4, 12)  # returns without a tool
_MORE_ROUNDS = 200  # at most, until a kill comes between an append and its answer
_LEASE_S = 1
_AN_APPEND_S = 0.015
_A_BEGINNING_S = 0.06  # of a client: from its fork through its handshake and its return


@pytest.fixture(scope="module")
def nursery() -> Generator[Nursery]:
    with open_nursery() as nursery:
        yield nursery


def _remembering(fleet: Fleet, nursery: Nursery, transport: Transport) -> Remembering:
    port = free_port()
    server = fleet.service("server", "--port", str(port), "--json", settings={"SCRUBJAY_LEASE_S": str(_LEASE_S)})
    server.start()
    made = cast(Json, server.client.post("/api/v1/tokens", {"role": "agent", "name": f"{transport} agent"}))
    journal = Journal(fleet.logs / f"{transport}.journal")
    return Remembering(nursery, server, f"http://127.0.0.1:{port}", str(made["token"]), transport, journal)


@pytest.mark.parametrize("transport", ["legacy", "modern", "stdio"])
def test_killed_in_the_middle_of_an_append_a_client_comes_back_and_the_sequence_has_no_hole_and_no_double(
    fleet: Fleet, nursery: Nursery, transport: Transport
) -> None:
    chance, rounds = random.Random(f"{transport} 7"), _ROUNDS[transport]
    client = _remembering(fleet, nursery, transport)
    seen: Counter[str] = Counter()
    client.open()

    number = 0
    while number < rounds or not _was_repeated(client):
        if _is_due(number, rounds, _SERVER_KILLS):
            _kill_server(client, chance, seen)
        _kill_client(client, chance, seen)
        by_parameter = _is_due(number, rounds, _PARAMETERS)
        if by_parameter:
            client.await_free()
            seen["came back by a parameter"] += 1
        client.begin(by_parameter=by_parameter)
        if by_parameter or chance.random() < 0.8:
            client.await_answers(chance.randint(1, 8))
        number += 1
        assert number < rounds + _MORE_ROUNDS, "no kill came between an append and its answer"
    client.await_answers(1)
    client.kill()

    count = client.assert_whole()
    versions = {str(line["version"]) for line in client.journal.lines if "version" in line}
    seen["asked again, and done before"] = len([line for line in client.journal.answered() if line["repeated"]])
    seen["asked again, and not done before"] = len(
        [line for line in client.journal.lines if "back" in line and line["last_seq"] != line["asked"]]
    )
    print(f"{transport} ({', '.join(sorted(versions))}): {count} memories, {client.lives} lives, {dict(seen)}")
    _assert_eras(transport, versions)
    assert seen["killed in the middle of an append"]
    _assert_one_session(client)
    _assert_audit(client)
    assert _is_sound(client.server)


def _was_repeated(client: Remembering) -> bool:
    """Whether a memory was asked for again that the server had."""
    return any(line["repeated"] for line in client.journal.answered())


def _is_due(number: int, rounds: int, times: int) -> bool:
    """Whether something that is to happen so many times, spread over all rounds, happens in this one."""
    return number < rounds and (number + 1) * times // rounds > number * times // rounds


def _kill_client(client: Remembering, chance: random.Random, seen: Counter[str]) -> None:
    """At a random moment: of an append, or of its way there."""
    begins = sum("begins" in line for line in client.journal.read()) < client.lives
    time.sleep(chance.uniform(0, _A_BEGINNING_S if begins else _AN_APPEND_S))  # the moment is what is tested
    in_the_middle = client.kill(with_bridge=chance.random() < 0.5)
    seen["killed in the middle of an append" if in_the_middle else "killed on its way there"] += 1


def _kill_server(client: Remembering, chance: random.Random, seen: Counter[str]) -> None:
    client.await_answers(1)
    time.sleep(chance.uniform(0, _AN_APPEND_S))
    client.server.kill()
    seen["kills of the server"] += 1
    if chance.random() < 0.3:  # both, one after the other
        client.kill(with_bridge=chance.random() < 0.5)
        client.server.start()
        client.begin()
    else:
        client.server.start()
    client.await_answers(1)


def _assert_eras(transport: Transport, versions: set[str]) -> None:
    with_handshake = {version for version in versions if version < "2026-01-01"}
    if transport in ("legacy", "stdio"):
        assert with_handshake
    if transport in ("modern", "stdio"):
        assert versions - with_handshake == {"2026-07-28"}


def _assert_one_session(client: Remembering) -> None:
    sessions = cast(list[Json], client.server.client.get("/api/v1/sessions"))
    assert [session["session_id"] for session in sessions] == [client.session]


def _assert_audit(client: Remembering) -> None:
    """The events tell of each grant with a higher epoch, of no refusal, and of each memory once and in order."""
    events = _events(client.server)
    about = [cast(Json, event["data"]) | {"kind": event["kind"]} for event in events]
    assert not [event for event in about if event["kind"] == "session.refused"]
    grants = [event for event in about if event["kind"] in ("session.resumed", "session.taken_over")]
    assert [event["epoch"] for event in grants] == list(range(2, 2 + len(grants)))
    added = [event["seq"] for event in about if event["kind"] == "memory.added"]
    assert added == list(range(1, len(added) + 1))


def _events(server: Service) -> list[Json]:
    found: list[Json] = []
    after = 0
    while page := server.events(after):
        found += page
        after = cast(int, page[-1]["number"])
    return found


def _is_sound(server: Service) -> bool:
    """Whether nothing went wrong inside it that it did not tell anybody."""
    return "Traceback" not in server.log and "tool.failed" not in server.log
