"""The command line against a server elsewhere, and the commands that make one."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from scrubjay.cli.machinery import OpenServer
from scrubjay.pods.home import Home
from tests.support.cli import Cli
from tests.support.command_line import run_command
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.elsewhere import Elsewhere
from tests.support.terminal import Terminal

_SCRUBJAY = Path(sys.executable).parent / "scrubjay"


def test_every_verb_works_against_a_server(elsewhere: Elsewhere) -> None:
    command = "echo hello from afar; while read -r line; do echo got $line; done"
    name = elsewhere.remote("run", "-d", "--name", "far", "--cols", "90", "--rows", "20", "--", "bash", "-c", command)
    assert name.stdout == "far\n"
    eventually(
        lambda: re.search(r"^far +\w{8} +idle", elsewhere.remote("ps").stdout, re.MULTILINE) is not None, "it reads"
    )
    explained = elsewhere.remote("explain", "far").stdout
    assert re.match(r"far: idle, since \d\d:\d\d:\d\d", explained)
    assert "bash reads a line" in explained
    assert json.loads(elsewhere.remote("explain", "far", "--json").stdout)["activity"] == "idle"
    assert "idle" in elsewhere.remote("explain", "far", "--at", "100%").stdout
    elsewhere.remote("send", "far", "one", "--enter")
    eventually(lambda: "got one" in elsewhere.remote("screen", "far", "--format", "text").stdout, "it was typed")
    elsewhere.remote("mark", "far", "a label")
    # A row is found once it has stood for a while.
    eventually(lambda: "got one" in elsewhere.remote("search", "got", expect=None).stdout, "it is found")
    assert "got one" in elsewhere.remote("logs", "far").stdout
    marks = [json.loads(line) for line in elsewhere.remote("export", "far", "--format", "jsonl").stdout.splitlines()]
    assert [record["data"]["label"] for record in marks if record["kind"] == "mark"] == ["a label"]
    assert "exited" in elsewhere.remote("stop", "far").stderr
    assert elsewhere.remote("verify", "far").stdout == "far: clean\n"
    assert "far" in {pod["name"] for pod in elsewhere.remote_json("ps", "--all")}
    elsewhere.remote("rm", "far")
    assert "far" not in {pod["name"] for pod in elsewhere.remote_json("ps", "--all")}
    assert not re.search(r"^far ", elsewhere.local("ps", "--all").stdout, re.MULTILINE)


def test_logs_are_followed_to_the_end(elsewhere: Elsewhere) -> None:
    script = "for i in 1 2 3; do echo say $i; sleep 0.05; done"
    elsewhere.remote("run", "-d", "--name", "talks", "--", "bash", "-c", script)

    assert "say 3" in elsewhere.remote("logs", "-f", "talks").stdout


def test_following_the_logs_of_a_pod_that_was_lost_ends(elsewhere: Elsewhere) -> None:
    elsewhere.remote("run", "-d", "--name", "lost", "--", "bash", "-c", "echo last words; sleep 600")
    eventually(lambda: "last words" in elsewhere.remote("logs", "lost").stdout, "it was said")
    os.kill(elsewhere.up.cli.pods()["lost"]["keeper_pid"], signal.SIGKILL)

    assert "last words" in elsewhere.remote("logs", "-f", "lost").stdout
    elsewhere.local("rm", "lost")


def test_the_server_alone_knows_which_pod_is_meant(elsewhere: Elsewhere) -> None:
    for name in ("alpha", "alps"):
        elsewhere.remote("run", "-d", "--name", name, "--", "echo", f"this is {name}")
        assert name in elsewhere.remote("logs", "-f", name).stdout
        eventually(lambda: not Home(elsewhere.there).find(name).alive, f"{name} can be removed")  # noqa: B023
        if name == "alpha":
            elsewhere.remote("rm", name)

    assert "this is alps" in elsewhere.remote("logs", "alp").stdout
    assert "this is alps" in elsewhere.remote("export", "alp", "--format", "txt").stdout
    assert elsewhere.remote("verify", "alp").stdout == "alps: clean\n"
    elsewhere.remote("rm", "alps")


def test_somebody_attaches_types_and_leaves_from_another_machine(elsewhere: Elsewhere) -> None:
    elsewhere.local("run", "-d", "--name", "shell", "--", "bash", "--norc")
    url = elsewhere.up.url
    argv = [str(_SCRUBJAY), "--data", str(elsewhere.here), "--server", url, "attach", "shell"]
    with Terminal(argv, elsewhere.environ | {"SCRUBJAY_TOKEN": elsewhere.token}) as terminal:
        terminal.read_until(b"\x1b[?2004h")
        terminal.type(b"echo $((6*7))\r")
        terminal.read_until(b"42\r\n")
        terminal.type(b"\x1c\x1c")
        terminal.read_until(b"left pod shell running")
        assert terminal.wait() == 0
    elsewhere.local("stop", "shell", "--grace", "0")  # bash does not listen


def test_without_a_token_nobody_gets_in(elsewhere: Elsewhere) -> None:
    url = elsewhere.up.url
    missing = elsewhere.run(["--server", url, "ps"], {}, 2)
    bad = elsewhere.run(["--server", url, "ps"], {"SCRUBJAY_TOKEN": "sjt_aaaaaaaaaaaa_" + "b" * 52}, 1)

    assert "lets nobody in without a token" in missing.stderr
    assert "not good" in bad.stderr


def test_what_is_about_this_machine_is_not_asked_of_another(elsewhere: Elsewhere) -> None:
    for words in (("seal",), ("reindex", "--all"), ("import", "x.cast")):
        assert "recordings of this machine" in elsewhere.remote(*words, expect=2).stderr, words


def test_an_address_nobody_answers_at_is_said(elsewhere: Elsewhere) -> None:
    said = elsewhere.run(["--server", "http://127.0.0.1:9", "ps"], {"SCRUBJAY_TOKEN": elsewhere.token}, 1)

    assert "no server answers at http://127.0.0.1:9" in said.stderr


def test_starting_twice_finds_the_running_one(elsewhere: Elsewhere) -> None:
    again = json.loads(elsewhere.local("up", "--json").stdout)

    assert again["url"] == elsewhere.up.url
    assert again["started"] is False
    assert again["login"] != elsewhere.up.login


def test_tokens_are_made_listed_and_revoked(elsewhere: Elsewhere) -> None:
    made = elsewhere.local("token", "create", "--role", "viewer", "--name", "bob")
    token = made.stdout.splitlines()[-1]
    identity = token.split("_")[1]
    assert token not in elsewhere.local("token", "list").stdout
    assert re.search(rf"^{identity} +viewer +bob ", elsewhere.local("token", "list").stdout, re.MULTILINE)

    elsewhere.local("token", "revoke", identity)

    assert identity not in elsewhere.local("token", "list").stdout
    url = elsewhere.up.url
    assert "not good" in elsewhere.run(["--server", url, "ps"], {"SCRUBJAY_TOKEN": token}, 1).stderr
    assert "no such token" in elsewhere.local("token", "revoke", identity, expect=1).stderr


def test_the_list_of_tokens_fits_the_terminal(elsewhere: Elsewhere) -> None:
    elsewhere.local("token", "create", "--role", "viewer", "--name", "x" * 100)
    argv = [str(_SCRUBJAY), "--data", str(elsewhere.there), "token", "list"]
    with Terminal(argv, elsewhere.environ, cols=60) as terminal:
        assert terminal.wait() == 0

    assert "…" in terminal.seen.decode()
    assert max(map(len, terminal.seen.decode().splitlines())) == 60


def test_the_login_link_works_once(elsewhere: Elsewhere) -> None:
    link = elsewhere.local("login").stdout.strip()
    with (
        httpx.Client(timeout=DEADLINE_S) as first,
        httpx.Client(timeout=DEADLINE_S) as second,
    ):
        good = first.get(link)
        used = second.get(link)

    assert good.status_code == 303
    assert "__Host-" in good.headers["set-cookie"]
    assert used.status_code in (401, 410)
    assert "scrubjay login" in used.text


def test_a_pod_with_a_worktree_needs_no_server(cli: Cli, project: Path) -> None:
    options = ("--repo", str(project), "--name", "w", "--env", "A=b")
    said = cli("run", *options, "--", "sh", "-c", "git branch --show-current; echo $A")

    assert said.stdout.splitlines()[:2] == [b"scrubjay/w", b"b"]


@pytest.mark.parametrize("command", ["up", "server"])
def test_a_server_that_is_told_to_end_as_soon_as_it_answers_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    early: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))  # would end this process

    async def told_to_end(_: OpenServer) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        if early:
            raise AssertionError("the command does not take the signal yet")

    monkeypatch.setattr(OpenServer, "first_login", told_to_end)
    try:
        done = run_command(("--data", str(tmp_path / "data"), command, "--port", "0", "--json"), environ=os.environ)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert (done.returncode, early) == (0, []), done.stderr.decode()
