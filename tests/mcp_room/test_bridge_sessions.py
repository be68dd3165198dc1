"""``scrubjay mcp`` and sessions: it names the one of the environment, keeps it while it lives, and lets it go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from chaos.machine import eventually
from mcp_room.process import Server
from mcp_room.raw import hello, modern
from scrubjay.tape.record import Json

_PROGRAM = Path(sys.executable).parent / "scrubjay"


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
        assert self._process.wait(10) == 0

    def kill(self) -> None:
        """Give it no time to say anything."""
        self._process.kill()
        self._process.wait(10)


@contextmanager
def talking(server: Server, token: str, *, handshake: bool, session: str | None = None) -> Generator[Talk]:
    """Run one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SCRUBJAY_", "JAY_"))}
    environ |= {"SCRUBJAY_TOKEN": token, "SCRUBJAY_CONFIG": os.devnull}
    if session is not None:
        environ["SCRUBJAY_SESSION"] = session
    process = subprocess.Popen(
        [_PROGRAM, "mcp", "--server", server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )
    try:
        yield Talk(process, handshake=handshake)
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with Server.open(tmp_path_factory.mktemp("bridged")) as server:
        yield server


def _state(server: Server, session: str) -> str:
    return str(cast(Json, server.service.client.get(f"/api/v1/sessions/{session}"))["state"])


@pytest.mark.parametrize("handshake", [True, False], ids=["with a handshake", "without"])
def test_the_session_of_the_environment_is_gone_on_with_without_a_tool(server: Server, handshake: bool) -> None:  # noqa: FBT001
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
    server: Server,
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
    monkeypatch.setenv("SCRUBJAY_LEASE_S", "1")
    with Server.open(tmp_path) as server:
        token = server.new_token("agent", "thinker")
        beating = (
            "import sys; from scrubjay.cli import mcp_bridge; mcp_bridge.BEAT_S = 0.2; "
            "from scrubjay.cli import main; sys.exit(main())"
        )
        environ = dict(os.environ) | {"SCRUBJAY_TOKEN": token}
        process = subprocess.Popen(
            [sys.executable, "-c", beating, "mcp", "--server", server.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        )
        try:
            talk = Talk(process, handshake=True)
            session = str(talk.call("add_memory", prompt="one")["session_id"])
            with talking(server, token, handshake=True) as silent:
                other = str(silent.call("add_memory", prompt="one")["session_id"])
                # One that beats only every 15 s has lapsed long before the one that does not cease to.
                eventually(lambda: _state(server, other) == "suspended", "the silent one has lapsed", within_s=15)
                assert _state(server, session) == "open"
        finally:
            process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
