"""A pod that the command line starts finds the tools of this machine's server, if there is one."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cli.conftest import Jay
from scrubjay.cli.passes import WITHIN_S
from server.up import Up, open_up

_NAMES = ("JAY_MCP_TOKEN", "JAY_MCP_URL")


@pytest.fixture
def up(jay: Jay) -> Generator[Up]:
    with open_up(jay) as up:
        yield up


def _environment(jay: Jay, *options: str, name: str = "pod") -> dict[str, str]:
    """What a pod finds that is started with these options."""
    script = f"env > {name}.new; mv {name}.new {name}; sleep 100"
    jay("run", "-d", "--name", name, *options, "--", "sh", "-c", script)
    return _read(jay, name)


def _read(jay: Jay, name: str) -> dict[str, str]:
    path = jay.work / name
    jay.wait_for(path.exists)
    lines = path.read_text().splitlines()
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def _tokens(jay: Jay) -> list[str]:
    return [token["pod"] for token in json.loads(jay("token", "list", "--json").stdout)]


@pytest.mark.parametrize("options", [(), ("--env", "MORE=1")], ids=["plain", "with what needs a runner's code"])
def test_a_pod_finds_the_address_and_a_token_of_its_own(jay: Jay, up: Up, options: tuple[str, ...]) -> None:
    environ = _environment(jay, *options)

    header = {"Authorization": f"Bearer {environ['JAY_MCP_TOKEN']}"}
    who = httpx.get(f"{up.url}/api/v1/me", headers=header).json()

    assert environ["JAY_MCP_URL"] == f"{up.url}/mcp"
    assert (who["role"], who["pod"]) == ("pod", jay.pods()["pod"]["id"])


def test_a_pod_that_ends_takes_its_token_along(jay: Jay, up: Up) -> None:
    _environment(jay)
    assert _tokens(jay) == [jay.pods()["pod"]["id"]]

    jay("stop", "pod", "--grace", "0")

    jay.wait_for(lambda: _tokens(jay) == [])


@pytest.mark.parametrize("options", [(), ("--env", "MORE=1")], ids=["plain", "with what needs a runner's code"])
def test_a_start_that_fails_leaves_no_token(jay: Jay, up: Up, options: tuple[str, ...]) -> None:
    jay.error("run", "-d", *options, "--", "there-is-no-such-program", code=1)

    assert _tokens(jay) == []


def test_a_pod_that_is_started_inside_a_pod_has_another_token(jay: Jay, up: Up) -> None:
    outer, inner = _nested(jay)

    assert outer["JAY_MCP_TOKEN"] != inner["JAY_MCP_TOKEN"]


def test_a_pod_inside_a_pod_that_is_to_have_no_tools_does_not_inherit_any(jay: Jay, up: Up) -> None:
    outer, inner = _nested(jay, "--no-mcp")

    assert set(_NAMES) <= set(outer)
    assert not set(_NAMES) & set(inner)


def _nested(jay: Jay, *options: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a pod finds, and one that it starts with these options."""
    script = "env > inner.new; mv inner.new inner; sleep 100"
    # Its data directory is not among what a program inherits.
    start = [*jay.argv, "--data", str(jay.data), "run", "-d", "--name", "inner", *options, "--", "sh", "-c", script]
    jay(
        "run",
        "-d",
        "--name",
        "outer",
        "--",
        "sh",
        "-c",
        f"env > outer.new; mv outer.new outer; {shlex.join(start)}; sleep 100",
    )
    found = _read(jay, "outer"), _read(jay, "inner")
    for name in ("inner", "outer"):  # or the outer one would end the inner one, meanwhile
        jay("stop", name, "--grace", "0")
    return found


def test_without_a_server_there_are_no_tools_and_nothing_is_said(jay: Jay) -> None:
    environ = _environment(jay)
    done = jay("run", "-d", "--", "sleep", "100")

    assert not set(_NAMES) & set(environ)
    assert done.stderr == b""


@pytest.mark.parametrize("options", [(), ("--env", "MORE=1")], ids=["plain", "with what needs a runner's code"])
def test_who_wants_no_tools_gets_none(jay: Jay, up: Up, options: tuple[str, ...]) -> None:
    environ = _environment(jay, "--no-mcp", *options)

    assert not set(_NAMES) & set(environ)
    assert _tokens(jay) == []


def test_the_tools_can_be_switched_off_for_all(jay: Jay, up: Up) -> None:
    jay.env["SCRUBJAY_MCP"] = "false"

    environ = _environment(jay)

    assert not set(_NAMES) & set(environ)
    assert _tokens(jay) == []


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n{"error": {"code": "not_found"}}',
        b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n<html>",
        b'HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{"pod": "../x", "token": "t", "url": "u"}',
        b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n[]",
        b"garbage",
        b"",
    ],
    ids=["too old", "a page", "a bad id", "a list", "garbage", "nothing"],
)
def test_a_server_that_gives_no_pass_is_no_hindrance(jay: Jay, answer: bytes) -> None:
    with _odd_server(jay.data, answer):
        environ = _environment(jay)

    assert not set(_NAMES) & set(environ)


def test_a_server_that_hangs_holds_a_start_up_for_a_moment_only_and_that_is_said(jay: Jay, up: Up) -> None:
    os.kill(up.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = jay("run", "-d", "--name", "pod", "--", "sleep", "100")
        took_s = time.monotonic() - began
    finally:
        os.kill(up.pid, signal.SIGCONT)

    assert b"without its tools" in done.stderr
    assert WITHIN_S <= took_s < WITHIN_S + 5  # a busy machine starts a pod slowly, too
    assert jay.pods()["pod"]["state"] == "running"


@contextmanager
def _odd_server(data: Path, answer: bytes) -> Generator[None]:
    """Something that listens where a server would."""
    data.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(data / "server.sock"))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(65536)
                    caller.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)
    (data / "server.sock").unlink()
