"""A service that notifications are sent to: a real HTTP server that keeps what it gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.conditions import DEADLINE_S

SECRET = "hunter2hunter2"


class Inbox:
    """What has arrived, and what to answer."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []  #: those that were taken
        self.refuse = 0  #: how many to answer with an error first
        self.refused = 0
        self.hold = threading.Event()  #: answers wait for this
        self.hold.set()
        self.port = 0

    @property
    def url(self) -> str:
        """Its Apprise URL, with a password and a path that are secrets.

        Apprise gives a service four seconds, and sends again what a busy machine has taken longer for.
        """
        patience = f"cto={DEADLINE_S:g}&rto={DEADLINE_S:g}"
        return f"json://user:{SECRET}@127.0.0.1:{self.port}/{SECRET}path?{patience}"

    def titles(self) -> list[str]:
        """Of what has arrived."""
        return [message["title"] for message in self.messages]


@contextmanager
def open_inbox() -> Generator[Inbox]:
    """Serve until the block ends."""
    inbox = Inbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            inbox.hold.wait(DEADLINE_S)
            if inbox.refused < inbox.refuse:
                inbox.refused += 1
                self.send_error(503, f"not now, {SECRET}")
                return
            inbox.messages.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    inbox.port = server.server_port
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    try:
        yield inbox
    finally:
        inbox.hold.set()
        server.shutdown()
        server.server_close()
        serving.join()
