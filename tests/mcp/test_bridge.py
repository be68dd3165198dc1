"""``scrubjay mcp``: lines in, lines out, and a server in between that may come and go."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Connection, delete, func, select

from scrubjay.cli import mcp_bridge
from scrubjay.cli.client import Client, ServerUnreachable
from scrubjay.server.guard import LOCAL
from scrubjay.store import schema
from scrubjay.tape.record import Json
from tests.mcp.background_server import BackgroundServer, open_background_server
from tests.mcp.clients import bridge
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.mcp_client import MODERN_VERSION, hello, modern, whoami
from tests.support.proxy import open_proxy

_START_MS = 150


class Bridge:
    """A running ``scrubjay mcp``; what it says is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.said: list[Json] = []
        self.words: list[str] = []
        self._threads = [
            threading.Thread(target=reading, daemon=True) for reading in (self._read_lines, self._read_words)
        ]
        for thread in self._threads:
            thread.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))  # nothing but the protocol

    def _read_words(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.words.append(line.decode())

    def send(self, *messages: Json | bytes) -> None:
        """Say something."""
        assert self._process.stdin is not None
        for message in messages:
            self._process.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self._process.stdin.flush()

    def answer(self, request: object) -> Json:
        """What was answered to a request."""

        def find() -> Json | None:
            return next((said for said in self.said if said.get("id") == request and "method" not in said), None)

        return eventually(find, f"{request!r} is answered: {self.said} {self.words}")

    def result(self, request: object) -> Json:
        """The same, of one that succeeds."""
        answer = self.answer(request)
        assert "result" in answer, answer
        return cast(Json, answer["result"])

    def error(self, request: object) -> str:
        """The same, of one that fails."""
        return str(cast(Json, self.answer(request)["error"])["message"])

    def close(self) -> int:
        """End its input; its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(DEADLINE_S)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        return status


@contextmanager
def _bridge(data: Path, *words: str, **variables: str) -> Generator[Bridge]:
    with _run([*bridge(data), *words], **variables) as opened:
        yield opened


@contextmanager
def _run(command: list[str], **variables: str) -> Generator[Bridge]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SCRUBJAY_", "JAY_"))}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environ, **variables},
    ) as process:
        opened = Bridge(process)
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with open_background_server(tmp_path_factory.mktemp("server")) as opened:
        yield opened


def _who(result: Json) -> object:
    return cast(Json, result["structuredContent"])["name"]


def _modern_whoami(request: object) -> Json:
    return modern("tools/call", request, name="whoami", arguments={})


def test_both_eras_go_through_the_unix_socket(server: BackgroundServer) -> None:
    with _bridge(server.data) as opened:
        opened.send(hello(), {"jsonrpc": "2.0", "method": "notifications/initialized"}, whoami("old"))
        opened.send(_modern_whoami("new"), modern("server/discover", "discover"))

        assert opened.result(1)["protocolVersion"] == "2025-06-18"
        assert _who(opened.result("old")) == _who(opened.result("new")) == LOCAL.name
        assert opened.result("discover")["supportedVersions"] == [MODERN_VERSION]
        assert opened.close() == 0
    assert len(opened.said) == 4
    assert opened.words == []


@pytest.mark.parametrize("how", ["JAY_MCP_URL", "with /mcp", "--server", "only a token"])
def test_a_server_and_a_token_can_be_named(server: BackgroundServer, how: str) -> None:
    token = server.new_token("agent", "carol")
    words: list[str] = []
    variables = {"JAY_MCP_TOKEN": token}
    match how:
        case "JAY_MCP_URL":
            variables["JAY_MCP_URL"] = server.url
        case "with /mcp":
            variables["JAY_MCP_URL"] = f"{server.url}/mcp"
        case "--server":
            words, variables = ["--server", server.url], {"SCRUBJAY_TOKEN": token, "JAY_MCP_URL": "http://127.0.0.1:1"}
        case _:
            pass
    with _bridge(server.data if how == "only a token" else Path("/nonexistent"), *words, **variables) as opened:
        opened.send(hello(), whoami())

        assert _who(opened.result(2)) == "carol"


def test_inside_a_pod_it_is_the_pod_that_speaks(server: BackgroundServer) -> None:
    pod, person = server.new_token("agent", "pod"), server.new_token("operator", "person")
    variables = {"JAY_MCP_URL": f"{server.url}/mcp", "JAY_MCP_TOKEN": pod}
    with _bridge(server.data, **variables, SCRUBJAY_SERVER=server.url, SCRUBJAY_TOKEN=person) as opened:
        opened.send(hello(), whoami())

        assert _who(opened.result(2)) == "pod"


def test_a_name_that_no_header_can_have_goes_through(server: BackgroundServer) -> None:
    with _bridge(server.data) as opened:
        for number, name in enumerate(["größer", " who", "a\r\nb: c", "=?base64?eA==?=", "", "\ud800"]):
            opened.send(modern("tools/call", number, name=name, arguments={}))

        for number in range(5):
            assert opened.result(number)["isError"] is True
        assert opened.error(5) == "a name in the request cannot be sent"


def test_what_makes_no_sense_is_answered_and_the_rest_goes_on(server: BackgroundServer) -> None:
    with _bridge(server.data) as opened:
        opened.send(b"nonsense", b"[1, 2]", b"", b"\xff", b"[" * 100_000, b'{"id": 9, "result": {}}', b'"x"')
        opened.send({"jsonrpc": "2.0", "id": 3, "method": "no/such"}, _modern_whoami(4))

        assert opened.error(3) == "Method not found"
        assert _who(opened.result(4)) == LOCAL.name
    codes = [cast(Json, said["error"])["code"] for said in opened.said if said["id"] is None]
    assert codes == [-32700, -32600, -32700, -32700, -32600]


def test_where_there_is_no_server_that_is_said_in_one_line_and_in_each_answer(tmp_path: Path) -> None:
    with _run(bridge(tmp_path, ABSENT_MAX_S=0.2)) as opened:
        opened.send(hello())
        opened.answer(1)
        opened.send(whoami(2), _modern_whoami(3))

        for request in (1, 2, 3):
            assert opened.error(request).startswith(f"no server answers at {tmp_path}/server.sock: ")
        assert opened.close() == 0
    assert len(opened.words) == 1
    assert opened.words[0].startswith(f"scrubjay: no server answers at {tmp_path}/server.sock: ")
    assert opened.words[0].endswith("start one with 'scrubjay up'\n")


def test_a_token_that_is_not_good_is_said_in_one_line_and_in_each_answer(server: BackgroundServer) -> None:
    with _bridge(server.data, JAY_MCP_TOKEN="sjt_" + "x" * 60) as opened:
        opened.send(hello(), whoami(2), _modern_whoami(3))

        for request in (1, 2, 3):
            assert opened.error(request).startswith("that token or login is not good")
        assert opened.close() == 0
    assert len(opened.words) == 1
    assert opened.words[0].startswith("scrubjay: that token or login is not good")


class _Elsewhere(BaseHTTPRequestHandler):
    """A login page, as hotels and companies put in between."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>who are you?")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing is said."""


def test_something_else_that_answers_there_is_not_believed(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{elsewhere.server_port}"
        with _bridge(tmp_path, JAY_MCP_URL=f"{url}/mcp", JAY_MCP_TOKEN="sjt_x") as opened:
            opened.send(hello(), whoami())

            for request in (1, 2):
                assert opened.error(request).startswith(f"what answers at {url} is not a Scrubjay server")
        elsewhere.shutdown()
    assert len(opened.words) == 1


def test_an_address_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    done = subprocess.run([*bridge(tmp_path), "--server", "nonsense"], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"scrubjay: 'nonsense' is not a server's address")


def test_it_ends_with_its_input_and_leaves_no_session_behind(server: BackgroundServer) -> None:
    before = _sessions(server)
    with _bridge(server.data) as opened:
        opened.send(hello())
        opened.answer(1)
        assert _sessions(server) == before + 1

        assert opened.close() == 0

    assert _sessions(server) == before


def _sessions(server: BackgroundServer) -> int:
    def count(connection: Connection) -> int:
        return connection.execute(select(func.count()).select_from(schema.wire_session)).scalar_one()

    return server.read(count)


@pytest.mark.alone
def test_it_starts_within_150_ms(server: BackgroundServer) -> None:
    def start() -> float:
        began = time.monotonic()
        with _bridge(server.data) as opened:
            opened.send(b"nonsense")
            opened.answer(None)
            return (time.monotonic() - began) * 1000

    assert any(start() < _START_MS for _ in range(10))


class TestRestarts:
    """The server goes and comes."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[BackgroundServer]:
        with open_background_server(tmp_path) as opened:
            yield opened

    def test_what_is_asked_while_the_server_is_away_waits_for_it(self, server: BackgroundServer) -> None:
        with _run(bridge(server.data, AWAY_MAX_S=DEADLINE_S)) as opened:
            opened.send(hello())
            opened.answer(1)
            server.stop()
            opened.send(whoami("old"), _modern_whoami("new"))
            eventually(lambda: opened.words, "it says that the server is away")

            server.start()

            assert _who(opened.result("old")) == _who(opened.result("new")) == LOCAL.name
        assert len(opened.words) == 1

    def test_a_session_that_was_forgotten_is_begun_anew_without_a_word(self, server: BackgroundServer) -> None:
        def forget(connection: Connection) -> None:
            connection.execute(delete(schema.wire_session))

        with _bridge(server.data) as opened:
            opened.send(hello())
            opened.answer(1)
            server.write(forget)

            opened.send(*(whoami(number) for number in range(10, 15)))

            assert [_who(opened.result(number)) for number in range(10, 15)] == [LOCAL.name] * 5
        assert [said["id"] for said in opened.said].count(1) == 1

    def test_a_call_that_was_cut_off_is_not_made_twice_and_that_is_said(self, server: BackgroundServer) -> None:
        token = server.new_token("operator", "alice")
        with (
            open_proxy(server.port) as link,
            _bridge(server.data, JAY_MCP_URL=f"http://127.0.0.1:{link.port}", JAY_MCP_TOKEN=token) as opened,
        ):
            opened.send(hello())
            opened.answer(1)
            opened.send(_call("old", "block"), modern("tools/call", "new", name="block", arguments={}))
            _await_blocked(opened, 2)

            link.cut()

            for request in ("old", "new"):
                assert opened.error(request) == (
                    "the connection to the server broke before it answered; "
                    "it may have been carried out or not: look before you call again"
                )
            _await_blocked(opened, 2, cancelled=2)

    def test_a_call_is_ended_at_the_server_when_it_is_cancelled(self, server: BackgroundServer) -> None:
        with _bridge(server.data) as opened:
            opened.send(hello())
            opened.answer(1)
            opened.send(_call("old", "block"), modern("tools/call", 5, name="block", arguments={}))
            _await_blocked(opened, 2)

            for request in ("old", 5):
                params = {"requestId": request}
                opened.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

            _await_blocked(opened, 2, cancelled=2)
            assert not [said for said in opened.said if said.get("id") in ("old", 5)]


def _call(request: object, name: str) -> Json:
    return {"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": {"name": name, "arguments": {}}}


def _await_blocked(opened: Bridge, calls: int, *, cancelled: int = 0) -> None:
    number = 1000

    def blocked() -> bool:
        nonlocal number
        number += 1
        opened.send(modern("tools/call", number, name="blocked", arguments={}))
        return opened.result(number)["structuredContent"] == {"calls": calls, "cancelled": cancelled}

    eventually(blocked, f"{calls} calls have begun and {cancelled} were cancelled")


def test_a_server_that_is_away_is_one_trouble_whatever_its_socket_says(tmp_path: Path) -> None:
    said: list[str] = []
    opened = mcp_bridge.Bridge(Client(None, None, tmp_path / "server.sock"), lambda line: None, said.append)

    for reason in ("Connection refused", "No such file or directory", "Connection refused"):
        opened.complain(ServerUnreachable(opened.where, reason))
    opened.reached()
    opened.complain(ServerUnreachable(opened.where, "Connection refused"))

    assert [line.count("no server answers") for line in said] == [1, 1]
