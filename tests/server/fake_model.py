"""A model behind an OpenAI-compatible endpoint: a real HTTP server that keeps what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_DEADLINE_S = 20.0


@dataclass(slots=True)
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]  #: by their names in small letters
    body: dict[str, Any]

    @property
    def turns(self) -> str:
        """What the model was given to summarise."""
        return self.body["messages"][1]["content"]


@dataclass(slots=True)
class Model:
    """What was asked, and what to answer."""

    asked: list[Asked] = field(default_factory=list[Asked])
    text: str = "It was summed up."
    errors: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])  #: to be answered first
    raw: bytes | None = None  #: the body of an answer, instead of a completion
    chunked: bool = False
    hold: threading.Event = field(default_factory=threading.Event)  #: answers wait for this
    port: int = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self) -> tuple[int, bytes]:
        """What comes next."""
        if self.errors:
            return self.errors.pop(0)
        message = {"role": "assistant", "content": self.text}
        return 200, self.raw if self.raw is not None else json.dumps({"choices": [{"message": message}]}).encode()


@contextmanager
def open_model() -> Generator[Model]:
    """Serve until the block ends."""
    model = Model()
    model.hold.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            model.asked.append(Asked(self.path, headers, body))
            model.hold.wait(_DEADLINE_S)
            status, data = model.answer()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header(
                *(("Transfer-Encoding", "chunked") if model.chunked else ("Content-Length", str(len(data))))
            )
            self.end_headers()
            if model.chunked:
                for part in (data[:7], data[7:], b""):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            else:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients of tests leave without a word."""

    server = Server(("127.0.0.1", 0), Handler)
    model.port = server.server_port
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    try:
        yield model
    finally:
        model.hold.set()
        server.shutdown()
        server.server_close()
        serving.join()
