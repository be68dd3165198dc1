"""A server is asked with what people give, and answers that make no sense are said to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from scrubjay.cli.client import Client, ServerUnreachable
from scrubjay.cli.commands import Commands
from tests.support.cli import Cli

_SECRET = "sjt_aaaaaaaaaaaa_" + "b" * 52
_POD = {"id": "a" * 26, "name": "far", "tape_bytes": 0, "status": {"process": "running"}}


class _Answering(BaseHTTPRequestHandler):
    """Answers every request with what was prepared for it."""

    answers: ClassVar[dict[str, tuple[int, bytes]]]
    asked: ClassVar[list[tuple[str, dict[str, str]]]]
    hangs_up: ClassVar[int] = 0  #: how often yet, instead of an answer
    pause_s: ClassVar[float] = 0.0

    def do_GET(self) -> None:
        """Answer."""
        self.asked.append((f"{self.command} {self.path}", dict(self.headers.items())))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(self.pause_s)
        if self.hangs_up:
            type(self).hangs_up -= 1
            self.close_connection = True
            return
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
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            serving.join()


def test_a_server_of_another_kind_is_said_to_be_one(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering() as (url, _):
        said = f"what answers at {url} is not a Scrubjay server"
        commands = ("ps", "notify mute far", "search text", "logs far")
        assert cli.unlike((f"--server {url} {words}", 1, said) for words in commands) == []


def test_a_redirection_is_not_an_answer(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering(pods=(302, [])) as (url, _):
        assert "is not a Scrubjay server" in cli.error("--server", url, "ps", code=1)


def test_a_tape_without_an_end_is_not_a_tape(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering(**{"pods/far": (200, _POD)}) as (url, _):
        assert "is not a Scrubjay server" in cli.error("--server", url, "logs", "far", code=1)


def test_a_line_break_after_a_token_does_no_harm(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET + "\n"
    with _answering(pods=(200, [])) as (url, server):
        assert cli("--server", url, "ps", "--json").stdout == b"[]\n"
        assert server.asked[0][1]["Authorization"] == f"Bearer {_SECRET}"


def test_a_token_that_is_none_is_not_shown(cli: Cli) -> None:
    for bad in ("\r\nX-More: y", "\n", "é", "\N{SNOWMAN}", " "):
        cli.env["SCRUBJAY_TOKEN"] = f"{_SECRET}{bad}{_SECRET}"
        for words in (("--server", "http://127.0.0.1:9", "ps"), ("runner", "join", "http://127.0.0.1:9")):
            said = cli.error(*words, code=2)
            assert "SCRUBJAY_TOKEN" in said, bad
            assert _SECRET not in said, bad


def test_an_address_that_is_none_is_said_to_be(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    rows: list[tuple[list[str], int, str]] = []
    for address in ("http://h:abc", "http://h:70000", "http://[::1", "http://", "ftp://h", "h:80", "http://a..b"):
        said = f"{address!r} is not a server's address"
        rows += [(["--server", address, "ps"], 2, said), (["runner", "join", address], 2, said)]

    assert cli.unlike(rows) == []


def test_a_start_whose_answer_is_lost_is_asked_for_again_with_the_same_key(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering(pods=(201, {"id": _POD["id"], "name": "far", "session": "s"})) as (url, server):
        server.hangs_up = 1
        assert cli("--server", url, "run", "-d", "--", "true").stdout == b"far\n"
        keys = [headers["Idempotency-Key"] for _, headers in server.asked]

    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_what_has_no_key_is_not_asked_for_again(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    with _answering() as (url, server):
        server.hangs_up = 1
        assert "no server answers" in cli.error("--server", url, "mark", "far", "label", code=1)
        assert len(server.asked) == 1


def test_a_request_may_take_longer_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answering, "pause_s", 0.5)
    with _answering(pods=(201, {})) as (url, _):
        client = Client(url, _SECRET, Path("unused"))
        assert client.post("/api/v1/pods", timeout_s=10) == {}
        with pytest.raises(ServerUnreachable):
            client.post("/api/v1/pods", timeout_s=0.1)


@pytest.mark.parametrize(
    ("words", "at_least_s"), [(("run", "-d", "--", "true"), 600), (("stop", "far", "--grace", "300"), 360)]
)
def test_a_server_is_waited_for_as_long_as_it_may_take(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], at_least_s: float
) -> None:
    asked: list[float] = []

    def connect(_client: Client, timeout_s: float) -> None:
        asked.append(timeout_s)
        raise OSError("enough")

    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setenv("SCRUBJAY_TOKEN", _SECRET)
    result = CliRunner().invoke(Commands.build(), ["--server", "http://127.0.0.1:9", *words])

    assert isinstance(result.exception, ServerUnreachable)
    assert asked[0] > at_least_s
