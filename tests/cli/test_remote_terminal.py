"""A terminal at a pod elsewhere, and a server that does just what the test wants."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import termios
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from scrubjay.wire.viewer import OUTPUT, encode_screen
from tests.support.conditions import DEADLINE_S
from tests.support.paths import PROGRAMS
from tests.support.terminal import Terminal

_HELLO = {"type": "hello", "pod": "x", "name": "far", "cols": 80, "rows": 24, "may_type": True}


class _Pod:
    """What a server shows and is sent of one pod."""

    def __init__(self) -> None:
        self._keys: queue.Queue[bytes] = queue.Queue()

    def serve(self, connection: ServerConnection) -> None:
        """Let somebody look and type."""
        connection.send(json.dumps(_HELLO | {"process": "running"}))
        self.show(connection, b"ready")
        for message in connection:
            if isinstance(message, bytes):
                self._keys.put(message)
                self.heard(connection, message)

    def show(self, connection: ServerConnection, data: bytes) -> None:
        """Send output."""
        connection.send(encode_screen(OUTPUT, data, offset=0, at=0))

    def heard(self, connection: ServerConnection, keys: bytes) -> None:
        """What the agent does with keys: nothing."""

    def keys(self) -> bytes:
        """What is typed next."""
        return self._keys.get(timeout=DEADLINE_S)


@contextmanager
def _attached(
    folder: Path,
    converse: Callable[[ServerConnection], None],
    let_in: Callable[[ServerConnection, Request], Response | None] | None = None,
    through: tuple[str, ...] = (),
    **times: float,
) -> Generator[Terminal]:
    """The terminal of somebody who attaches to a pod of a server, with other values for some times of the command."""
    with serve(converse, "127.0.0.1", 0, process_request=let_in) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        changes = json.dumps({f"scrubjay.cli.remote_terminal.{name}": value for name, value in times.items()})
        program = [sys.executable, "-P", str(PROGRAMS / "timed_scrubjay.py"), changes]
        command = [*program, "--data", str(folder), "--server", url, "attach", "far"]
        try:
            with Terminal(
                [*through, *command], environ | {"SCRUBJAY_TOKEN": "sjt_a_b", "TERM": "xterm-256color"}
            ) as terminal:
                yield terminal
        finally:
            server.shutdown()
            serving.join()


def test_escape_is_typed_without_another_key(tmp_path: Path) -> None:
    pod = _Pod()
    with _attached(tmp_path, pod.serve) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1b")
        assert pod.keys() == b"\x1b"
        terminal.type(b"\x1c")
        assert pod.keys() == b"\x1c"


def test_an_answer_in_two_portions_is_not_typed(tmp_path: Path) -> None:
    pod = _Pod()
    with _attached(tmp_path, pod.serve) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1b[?62;2")
        terminal.type(b"2c")
        terminal.type(b"x")
        assert pod.keys() == b"x"


class _Asking(_Pod):
    """Its agent asks for the place of the cursor when a key is pressed."""

    def heard(self, connection: ServerConnection, keys: bytes) -> None:
        if keys == b"q":
            self.show(connection, b"\x1b[6")
            self.show(connection, b"nasked")


def test_f3_with_shift_is_typed_unless_the_place_of_the_cursor_was_asked_for(tmp_path: Path) -> None:
    pod = _Asking()
    with _attached(tmp_path, pod.serve, _ASKED_S=DEADLINE_S) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1b[1;2R")
        assert pod.keys() == b"\x1b[1;2R"
        terminal.type(b"q")
        assert pod.keys() == b"q"
        terminal.read_until(b"asked")
        terminal.type(b"\x1b[1;2R")
        terminal.type(b"x")
        assert pod.keys() == b"x"


def test_a_pod_that_was_lost_is_said_to_be(tmp_path: Path) -> None:
    def lost(connection: ServerConnection) -> None:
        connection.send(json.dumps(_HELLO | {"process": "lost"}))
        connection.recv()

    with _attached(tmp_path, lost) as terminal:
        terminal.read_until(b"pod far was lost")
        assert terminal.wait() == 1


def test_the_exit_status_of_the_pod_is_the_commands(tmp_path: Path) -> None:
    def ends(connection: ServerConnection) -> None:
        connection.send(json.dumps(_HELLO | {"process": "running"}))
        connection.send(json.dumps({"type": "status", "process": "exited", "exit_status": 7}))
        connection.recv()

    with _attached(tmp_path, ends) as terminal:
        terminal.read_until(b"pod far ended with 7")
        assert terminal.wait() == 7


@pytest.mark.parametrize(
    "status", [403, *(pytest.param(status, marks=pytest.mark.chaos) for status in (401, 404, 421))]
)
def test_a_refusal_ends_it_at_once_in_the_servers_words(tmp_path: Path, status: int) -> None:
    asked = 0

    def refuse(connection: ServerConnection, _request: Request) -> Response:
        nonlocal asked
        asked += 1
        error = {"code": "no", "message": "the reason", "hint": "the hint"}
        return connection.respond(HTTPStatus(status), json.dumps({"error": error}))

    with _attached(tmp_path, _Pod().serve, refuse) as terminal:
        terminal.read_until(b"the reason; the hint")
        assert terminal.wait() == 1
    assert asked == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (4401, b"the token is not good any more"),
        pytest.param(4403, b"this token may only watch", marks=pytest.mark.chaos),
        pytest.param(4404, b"the pod was deleted", marks=pytest.mark.chaos),
    ],
)
def test_who_is_put_out_does_not_come_back(tmp_path: Path, code: int, said: bytes) -> None:
    came = 0

    def put_out(connection: ServerConnection) -> None:
        nonlocal came
        came += 1
        connection.send(json.dumps(_HELLO | {"process": "running"}))
        connection.close(code, "no")

    with _attached(tmp_path, put_out) as terminal:
        terminal.read_until(said)
        assert terminal.wait() == 1
    assert came == 1


def test_a_server_that_only_hangs_up_is_given_up(tmp_path: Path) -> None:
    with _attached(tmp_path, lambda connection: connection.close(), _RETRY_S=0.01) as terminal:
        terminal.read_until(b"no server answers")
        assert terminal.wait() == 1


def test_a_server_that_comes_back_is_returned_to(tmp_path: Path) -> None:
    pod, came = _Pod(), 0

    def restart(connection: ServerConnection) -> None:
        nonlocal came
        came += 1
        if came > 1:
            pod.serve(connection)
        connection.send(json.dumps(_HELLO | {"process": "running"}))
        connection.close(1012)

    with _attached(tmp_path, restart, _RETRY_S=0.01) as terminal:
        terminal.read_until(b"ready")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.chaos)])
def test_the_terminal_is_given_back_when_the_command_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with _attached(tmp_path, _Pod().serve) as terminal:
        terminal.read_until(b"ready")
        assert not termios.tcgetattr(terminal.fd)[3] & termios.ICANON
        os.kill(terminal.pid, number)
        terminal.read_until(b"left pod far running")
        assert termios.tcgetattr(terminal.fd)[3] & termios.ICANON
        assert terminal.wait() == 0


@pytest.mark.parametrize("told", [True, False])
def test_a_command_whose_terminal_is_closed_ends_even_if_the_server_is_away(tmp_path: Path, *, told: bool) -> None:
    came, ended = threading.Event(), threading.Event()

    def say_nothing(_connection: ServerConnection, _request: Request) -> None:
        came.set()
        ended.wait(DEADLINE_S)

    # SIGHUP goes to the shell, which does not pass it on.
    through = () if told else ("sh", "-c", 'trap "" HUP; "$@"; exit 0', "sh")
    with _attached(tmp_path, _Pod().serve, say_nothing, through) as terminal:
        assert came.wait(DEADLINE_S)
        terminal.hang_up()
        os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOWAIT)
        ended.set()
