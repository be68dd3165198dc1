"""A terminal at a pod elsewhere, and a server that does just what the test wants."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.server import ServerConnection, serve

from scrubjay.wire.viewer import OUTPUT, encode_screen
from terminal import DEADLINE_S, Terminal

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
def _attached(folder: Path, converse: Callable[[ServerConnection], None]) -> Generator[Terminal]:
    """The terminal of somebody who attaches to a pod of a server."""
    with serve(converse, "127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        argv = [sys.executable, "-P", "-m", "scrubjay", "--data", str(folder), "--server", url, "attach", "far"]
        try:
            with Terminal(argv, environ | {"SCRUBJAY_TOKEN": "sjt_a_b", "TERM": "xterm-256color"}) as terminal:
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
    with _attached(tmp_path, pod.serve) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1b[1;2R")
        assert pod.keys() == b"\x1b[1;2R"
        terminal.type(b"q")
        assert pod.keys() == b"q"
        terminal.read_until(b"asked")
        terminal.type(b"\x1b[1;2R")
        terminal.type(b"x")
        assert pod.keys() == b"x"
