"""A server is asked with what people give, and answers that make no sense are said to."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from cli.conftest import Jay

_SECRET = "sjt_aaaaaaaaaaaa_" + "b" * 52
_POD = {"id": "a" * 26, "name": "far", "tape_bytes": 0, "status": {"process": "running"}}


class _Answering(BaseHTTPRequestHandler):
    """Answers every request with what was prepared for it."""

    answers: ClassVar[dict[str, tuple[int, bytes]]]
    asked: ClassVar[list[tuple[str, dict[str, str]]]]

    def do_GET(self) -> None:
        """Answer."""
        self.asked.append((f"{self.command} {self.path}", dict(self.headers.items())))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = self.answers.get(self.path.partition("?")[0], (200, b"<html>It works!</html>"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def _answering(**answers: tuple[int, object]) -> Generator[tuple[str, type[_Answering]]]:
    """A server, and what it was asked; anything but ``answers`` is answered with a web page."""
    prepared = {f"/api/v1/{path}": (status, json.dumps(body).encode()) for path, (status, body) in answers.items()}
    handler = type("Handler", (_Answering,), {"answers": prepared, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize("words", [("ps",), ("notify", "mute", "far"), ("search", "text"), ("logs", "far")])
def test_a_server_of_another_kind_is_said_to_be_one(jay: Jay, words: tuple[str, ...]) -> None:
    jay.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering() as (url, _):
        assert f"what answers at {url} is not a Scrubjay server" in jay.error("--server", url, *words, code=1)


def test_a_redirection_is_not_an_answer(jay: Jay) -> None:
    jay.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering(pods=(302, [])) as (url, _):
        assert "is not a Scrubjay server" in jay.error("--server", url, "ps", code=1)


def test_a_tape_without_an_end_is_not_a_tape(jay: Jay) -> None:
    jay.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering(**{"pods/far": (200, _POD)}) as (url, _):
        assert "is not a Scrubjay server" in jay.error("--server", url, "logs", "far", code=1)


def test_a_line_break_after_a_token_does_no_harm(jay: Jay) -> None:
    jay.env["SCRUBJAY_TOKEN"] = _SECRET + "\n"
    with _answering(pods=(200, [])) as (url, server):
        assert jay("--server", url, "ps", "--json").stdout == b"[]\n"
        assert server.asked[0][1]["Authorization"] == f"Bearer {_SECRET}"


@pytest.mark.parametrize("bad", ["\r\nX-More: y", "\n", "é", "\N{SNOWMAN}", " "])
def test_a_token_that_is_none_is_not_shown(jay: Jay, bad: str) -> None:
    jay.env["SCRUBJAY_TOKEN"] = f"{_SECRET}{bad}{_SECRET}"
    for words in (("--server", "http://127.0.0.1:9", "ps"), ("runner", "join", "http://127.0.0.1:9")):
        said = jay.error(*words, code=2)
        assert "SCRUBJAY_TOKEN" in said
        assert _SECRET not in said


@pytest.mark.parametrize(
    "address", ["http://h:abc", "http://h:70000", "http://[::1", "http://", "ftp://h", "h:80", "http://a..b"]
)
def test_an_address_that_is_none_is_said_to_be(jay: Jay, address: str) -> None:
    jay.env["SCRUBJAY_TOKEN"] = _SECRET
    for words in (("--server", address, "ps"), ("runner", "join", address)):
        assert f"{address!r} is not a server's address" in jay.error(*words, code=2)
