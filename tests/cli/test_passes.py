"""A pod that the command line starts finds the tools of this machine's server, if there is one."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from scrubjay.cli import passes
from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S
from tests.support.up_process import UpProcess

_MOMENT_S = passes.WITHIN_S
_NAMES = ("JAY_MCP_TOKEN", "JAY_MCP_URL")


# An option makes the start need a runner's code, which has a way of its own to give the pass.
_WAYS = ((), ("--env", "MORE=1"))


def _environment(cli: Cli, name: str, *options: str) -> dict[str, str]:
    """What a pod finds that is started with these options."""
    script = f"env > {name}.new; mv {name}.new {name}; sleep 100"
    cli("run", "-d", "--name", name, *options, "--", "sh", "-c", script)
    return _read(cli, name)


def _read(cli: Cli, name: str) -> dict[str, str]:
    path = cli.work / name
    cli.wait_for(path.exists)
    lines = path.read_text().splitlines()
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def _tokens(cli: Cli) -> set[str]:
    """The pods that have a token."""
    return {token["pod"] for token in json.loads(cli("token", "list", "--json").stdout)}


@pytest.mark.parametrize("options", _WAYS, ids=["plain", "with what needs a runner's code"])
def test_a_pod_finds_the_address_and_a_token_of_its_own(served: UpProcess, options: tuple[str, ...]) -> None:
    name = f"finds-{len(options)}"
    environ = _environment(served.cli, name, *options)

    header = {"Authorization": f"Bearer {environ['JAY_MCP_TOKEN']}"}
    who = httpx.get(f"{served.url}/api/v1/me", headers=header, timeout=DEADLINE_S).json()

    assert environ["JAY_MCP_URL"] == f"{served.url}/mcp"
    assert (who["role"], who["pod"]) == ("pod", served.cli.pods()[name]["id"])


def test_a_pod_that_ends_takes_its_token_along(served: UpProcess) -> None:
    cli = served.cli
    _environment(cli, "ends")
    pod = cli.pods()["ends"]["id"]
    assert pod in _tokens(cli)

    cli("stop", "ends", "--grace", "0")

    cli.wait_for(lambda: pod not in _tokens(cli))


def test_a_start_that_fails_leaves_no_token(served: UpProcess) -> None:
    before = _tokens(served.cli)

    for options in _WAYS:
        served.cli.error("run", "-d", *options, "--", "there-is-no-such-program", code=1)

    assert _tokens(served.cli) <= before


def test_a_pod_inside_a_pod_has_a_token_of_its_own_or_none_if_it_is_to_have_no_tools(served: UpProcess) -> None:
    cli = served.cli
    names = {"inner": (), "bare": ("--no-mcp",)}
    scripts = {name: f"env > {name}.new; mv {name}.new {name}; sleep 100" for name in ("outer", *names)}
    # Its data directory is not among what a program inherits.
    start = [*cli.patient("scrubjay.cli.passes.WITHIN_S"), "--data", str(cli.data), "run", "-d"]
    starts = [
        shlex.join([*start, "--name", name, *options, "--", "sh", "-c", scripts[name]])
        for name, options in names.items()
    ]
    cli("run", "-d", "--name", "outer", "--", "sh", "-c", "; ".join([*starts, scripts["outer"]]))
    outer, inner, bare = (_read(cli, name) for name in ("outer", *names))
    for name in ("inner", "bare", "outer"):  # or the outer one would end the others, meanwhile
        cli("stop", name, "--grace", "0")

    assert outer["JAY_MCP_TOKEN"] != inner["JAY_MCP_TOKEN"]
    assert not set(_NAMES) & set(bare)


def test_without_a_server_there_are_no_tools_and_nothing_is_said(cli: Cli) -> None:
    environ = _environment(cli, "pod")
    done = cli("run", "-d", "--", "sleep", "100")

    assert not set(_NAMES) & set(environ)
    assert done.stderr == b""


def test_who_wants_no_tools_gets_none(served: UpProcess) -> None:
    before = _tokens(served.cli)

    found = [_environment(served.cli, f"bare-{number}", "--no-mcp", *way) for number, way in enumerate(_WAYS)]
    served.cli.env["SCRUBJAY_MCP"] = "false"
    found.append(_environment(served.cli, "switched-off"))

    assert not set(_NAMES) & set().union(*found)
    assert _tokens(served.cli) <= before


_ODD_ANSWERS = {
    "too old": b'HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n{"error": {"code": "not_found"}}',
    "a page": b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n<html>",
    "a bad id": b'HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{"pod": "../x", "token": "t", "url": "u"}',
    "a list": b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n[]",
    "garbage": b"garbage",
    "nothing": b"",
}


def test_a_server_that_gives_no_pass_is_no_hindrance(cli: Cli) -> None:
    given: dict[str, set[str]] = {}
    for number, (what, answer) in enumerate(_ODD_ANSWERS.items()):
        with _odd_server(cli.data, answer):
            given[what] = set(_environment(cli, f"pod-{number}")) & set(_NAMES)

    assert given == {what: set() for what in _ODD_ANSWERS}


def test_a_server_that_hangs_holds_a_start_up_for_a_moment_only_and_that_is_said(
    served: UpProcess, monkeypatch: pytest.MonkeyPatch, promised: Callable[[float], float]
) -> None:
    monkeypatch.setattr(passes, "WITHIN_S", _MOMENT_S)
    os.kill(served.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = served.cli("run", "-d", "--name", "unhindered", "--", "sleep", "100")
        took_s = time.monotonic() - began
    finally:
        os.kill(served.pid, signal.SIGCONT)

    assert b"without its tools" in done.stderr
    assert took_s < promised(_MOMENT_S + 2)
    assert served.cli.pods()["unhindered"]["state"] == "running"


@contextmanager
def _odd_server(data: Path, answer: bytes) -> Generator[None]:
    """Something that listens where a server would."""
    data.mkdir(parents=True, exist_ok=True)
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
            thread.join(DEADLINE_S)
    (data / "server.sock").unlink()
