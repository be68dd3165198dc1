"""``scrubjay mcp`` and sessions: it names the one of the environment, keeps it while it lives, and lets it go."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from scrubjay.ids import SessionId
from scrubjay.server.sessions import sessions
from scrubjay.store.sessions import get_session
from scrubjay.tape.record import Json
from tests.mcp.background_server import BackgroundServer, open_background_server
from tests.mcp.clients import bridge
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fake_clock import FakeClock
from tests.support.mcp_client import hello, modern


class Talk:
    """A running ``scrubjay mcp`` that is asked one thing after the other."""

    def __init__(self, process: subprocess.Popen[bytes], *, handshake: bool) -> None:
        self._process, self._handshake, self._number = process, handshake, 0
        if handshake:
            self._ask(hello("2025-06-18"))

    def call(self, tool: str, **arguments: object) -> Json:
        """What a tool answers."""
        self._number += 1
        params: Json = {"name": tool, "arguments": arguments}
        if self._handshake:
            message: Json = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params}
        else:
            message = modern("tools/call", self._number, **params)
        answer = self._ask(message)
        return cast(Json, cast(Json, answer["result"])["structuredContent"])

    def _ask(self, message: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return cast(Json, json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(DEADLINE_S) == 0

    def kill(self) -> None:
        """Give it no time to say anything."""
        self._process.kill()
        self._process.wait(DEADLINE_S)


@contextmanager
def talking(
    server: BackgroundServer, token: str, *, handshake: bool, session: str | None = None, beat_s: float = 3600
) -> Generator[Talk]:
    """Run one that says every so often that it is there."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SCRUBJAY_", "JAY_"))}
    environ |= {"SCRUBJAY_TOKEN": token, "SCRUBJAY_CONFIG": os.devnull}
    if session is not None:
        environ["SCRUBJAY_SESSION"] = session
    process = subprocess.Popen(
        [*bridge(server.data, BEAT_S=beat_s), "--server", server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    try:
        yield Talk(process, handshake=handshake)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[BackgroundServer]:
    with open_background_server(tmp_path_factory.mktemp("bridged")) as server:
        yield server


def _state(server: BackgroundServer, session: str) -> str:
    return str(cast(Json, server.client.get(f"/api/v1/sessions/{session}"))["state"])


@pytest.mark.parametrize("handshake", [True, False], ids=["with a handshake", "without"])
def test_the_session_of_the_environment_is_gone_on_with_without_a_tool(
    server: BackgroundServer,
    handshake: bool,  # noqa: FBT001
) -> None:
    token = server.new_token("agent", f"bridged-{handshake}")
    with talking(server, token, handshake=handshake) as first:
        session = str(first.call("add_memory", prompt="one")["session_id"])
        first.close()
    assert _state(server, session) == "suspended"  # it said that it ends

    with talking(server, token, handshake=handshake, session=session) as second:
        added = second.call("add_memory", prompt="two")
        assert (added["session_id"], added["seq"]) == (session, 2)
        assert "warning" not in added
    with talking(server, token, handshake=handshake, session="no session at all") as third:
        added = third.call("add_memory", prompt="lost")
        assert (added["seq"], added["requested_id"]) == (1, "no session at all")
        assert str(added["warning"]).startswith("NOT RESUMED: 'no session at all' is not the id of a session")


@pytest.mark.parametrize("handshake", [True, False], ids=["with a handshake", "without"])
def test_two_bridges_of_one_token_are_two_and_one_that_is_killed_has_to_be_taken_over(
    server: BackgroundServer,
    handshake: bool,  # noqa: FBT001
) -> None:
    token = server.new_token("agent", f"twins-{handshake}")
    with (
        talking(server, token, handshake=handshake) as first,
        talking(server, token, handshake=handshake) as second,
    ):
        session = str(first.call("add_memory", prompt="one")["session_id"])
        assert second.call("resume_session", session_id=session)["reason"] == "held"
        first.kill()
        assert second.call("resume_session", session_id=session)["reason"] == "held"  # as far as anybody knows

        assert second.call("resume_session", session_id=session, takeover=True)["resumed"] is True
        assert second.call("add_memory", prompt="two")["seq"] == 2


def test_a_bridge_whose_client_thinks_for_long_keeps_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LOOK_EVERY_S", 0.05)
    with open_background_server(tmp_path) as server:
        clock, heartbeats = FakeClock(), server.inside.server.coordination.sessions.heartbeats
        monkeypatch.setattr(heartbeats, "_clock", clock)
        token = server.new_token("agent", "thinker")
        with (
            talking(server, token, handshake=True, beat_s=0.05) as thinking,
            talking(server, token, handshake=True) as silent,
        ):
            session, other = (str(talk.call("add_memory", prompt="one")["session_id"]) for talk in (thinking, silent))
            holder, left_s = _holder(server, session), heartbeats.lease_us / 1e6

            def silent_one_lapses() -> bool:
                clock.advance(0.6 * left_s)
                eventually(lambda: heartbeats.left_us(holder) == heartbeats.lease_us, "the other was heard of again")
                return _state(server, other) == "suspended"

            # More than twice, perhaps: its last answer may still be on the way when the clock first moves.
            eventually(silent_one_lapses, "the silent one has lapsed")
            assert _state(server, session) == "open"


def _holder(server: BackgroundServer, session: str) -> str:
    return str(server.read(lambda connection: get_session(connection, SessionId(session))).holder)
