"""The command line against a server elsewhere, and the commands that make one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import cast

import pytest

from scrubjay.tape.record import Json
from terminal import Terminal

_SCRUBJAY = Path(sys.executable).parent / "scrubjay"


class Elsewhere:
    """A server, and a person on another machine who has a token for it."""

    def __init__(self, folder: Path) -> None:
        self.there, self.here = folder / "there", folder / "here"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        self.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        self.up = subprocess.Popen(
            [_SCRUBJAY, "--data", self.there, "up", "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=self.environ,
            text=True,
        )
        os.close(log)
        assert self.up.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = self.up.stdout.readline()
            assert line, (folder / "log").read_text()
            said += line
        self.greeting = cast(Json, json.loads(said))
        self.token = self.local("token", "create", "--role", "operator", "--name", "ann").stdout.splitlines()[-1]

    def local(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """A command on the server's machine."""
        return self.run(["--data", str(self.there), *words], {}, expect)

    def remote(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """A command on the other machine."""
        server = ["--data", str(self.here), "--server", str(self.greeting["url"])]
        return self.run([*server, *words], {"SCRUBJAY_TOKEN": self.token}, expect)

    def run(self, words: list[str], more: dict[str, str], expect: int) -> subprocess.CompletedProcess[str]:
        """Any command, which must exit as expected and never with a traceback."""
        done = subprocess.run(
            [_SCRUBJAY, *words],
            env=self.environ | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def close(self) -> None:
        pods = cast(list[Json], json.loads(self.local("ps", "--json").stdout))
        for pod in pods:
            self.local("stop", str(pod["id"]), "--grace", "0")
        self.up.send_signal(signal.SIGINT)
        assert self.up.wait(20) == 0
        assert self.up.stdout is not None
        self.up.stdout.close()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Generator[Elsewhere]:
    elsewhere = Elsewhere(tmp_path_factory.mktemp("elsewhere"))
    yield elsewhere
    elsewhere.close()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_every_verb_works_against_a_server(elsewhere: Elsewhere) -> None:
    command = "echo hello from afar; while read -r line; do echo got $line; done"
    name = elsewhere.remote("run", "-d", "--name", "far", "--cols", "90", "--rows", "20", "--", "bash", "-c", command)
    assert name.stdout == "far\n"
    _until(lambda: re.search(r"^far +\w{8} +idle", elsewhere.remote("ps").stdout, re.MULTILINE) is not None, "it reads")
    explained = elsewhere.remote("explain", "far").stdout
    assert re.match(r"far: idle, since \d\d:\d\d:\d\d", explained)
    assert "bash reads a line" in explained
    assert json.loads(elsewhere.remote("explain", "far", "--json").stdout)["activity"] == "idle"
    assert "idle" in elsewhere.remote("explain", "far", "--at", "100%").stdout
    elsewhere.remote("send", "far", "one", "--enter")
    _until(lambda: "got one" in elsewhere.remote("screen", "far", "--format", "text").stdout, "it was typed")
    elsewhere.remote("mark", "far", "a label")
    assert "got one" in elsewhere.remote("search", "got").stdout
    assert "got one" in elsewhere.remote("logs", "far").stdout
    marks = [json.loads(line) for line in elsewhere.remote("export", "far", "--format", "jsonl").stdout.splitlines()]
    assert [record["data"]["label"] for record in marks if record["kind"] == "mark"] == ["a label"]
    assert "exited" in elsewhere.remote("stop", "far").stderr
    assert elsewhere.remote("verify", "far").stdout == "far: clean\n"
    listed = cast(list[Json], json.loads(elsewhere.remote("ps", "--all", "--json").stdout))
    assert [pod["name"] for pod in listed] == ["far"]
    elsewhere.remote("rm", "far")
    assert json.loads(elsewhere.remote("ps", "--all", "--json").stdout) == []
    assert elsewhere.local("ps", "--all").stdout == ""


def test_logs_are_followed_to_the_end(elsewhere: Elsewhere) -> None:
    script = "for i in 1 2 3; do echo say $i; sleep 0.4; done"
    elsewhere.remote("run", "-d", "--name", "talks", "--", "bash", "-c", script)

    assert "say 3" in elsewhere.remote("logs", "-f", "talks").stdout


def test_following_the_logs_of_a_pod_that_was_lost_ends(elsewhere: Elsewhere) -> None:
    elsewhere.remote("run", "-d", "--name", "lost", "--", "bash", "-c", "echo last words; sleep 600")
    _until(lambda: "last words" in elsewhere.remote("logs", "lost").stdout, "it was said")
    pods = cast(list[Json], json.loads(elsewhere.local("ps", "--json").stdout))
    os.kill(next(cast(int, pod["keeper_pid"]) for pod in pods if pod["name"] == "lost"), signal.SIGKILL)

    assert "last words" in elsewhere.remote("logs", "-f", "lost").stdout
    elsewhere.local("rm", "lost")


def test_the_server_alone_knows_which_pod_is_meant(elsewhere: Elsewhere) -> None:
    for name in ("alpha", "alps"):
        elsewhere.remote("run", "-d", "--name", name, "--", "echo", f"this is {name}")
        assert name in elsewhere.remote("logs", "-f", name).stdout
        if name == "alpha":
            elsewhere.remote("rm", name)

    assert "this is alps" in elsewhere.remote("logs", "alp").stdout
    assert "this is alps" in elsewhere.remote("export", "alp", "--format", "txt").stdout
    assert elsewhere.remote("verify", "alp").stdout == "alps: clean\n"
    elsewhere.remote("rm", "alps")


def test_somebody_attaches_types_and_leaves_from_another_machine(elsewhere: Elsewhere) -> None:
    elsewhere.local("run", "-d", "--name", "shell", "--", "bash", "--norc")
    url = str(elsewhere.greeting["url"])
    argv = [str(_SCRUBJAY), "--data", str(elsewhere.here), "--server", url, "attach", "shell"]
    with Terminal(argv, elsewhere.environ | {"SCRUBJAY_TOKEN": elsewhere.token}) as terminal:
        terminal.read_until(b"\x1b[?2004h")
        terminal.type(b"echo $((6*7))\r")
        terminal.read_until(b"42\r\n")
        terminal.type(b"\x1c\x1c")
        terminal.read_until(b"left pod shell running")
        assert terminal.wait() == 0
    elsewhere.local("stop", "shell")


def test_without_a_token_nobody_gets_in(elsewhere: Elsewhere) -> None:
    url = str(elsewhere.greeting["url"])
    missing = elsewhere.run(["--server", url, "ps"], {}, 2)
    bad = elsewhere.run(["--server", url, "ps"], {"SCRUBJAY_TOKEN": "sjt_aaaaaaaaaaaa_" + "b" * 52}, 1)

    assert "lets nobody in without a token" in missing.stderr
    assert "not good" in bad.stderr


@pytest.mark.parametrize("words", [("seal",), ("reindex", "--all"), ("import", "x.cast")])
def test_what_is_about_this_machine_is_not_asked_of_another(elsewhere: Elsewhere, words: tuple[str, ...]) -> None:
    assert "recordings of this machine" in elsewhere.remote(*words, expect=2).stderr


def test_an_address_nobody_answers_at_is_said(elsewhere: Elsewhere) -> None:
    said = elsewhere.run(["--server", "http://127.0.0.1:9", "ps"], {"SCRUBJAY_TOKEN": elsewhere.token}, 1)

    assert "no server answers at http://127.0.0.1:9" in said.stderr


def test_starting_twice_finds_the_running_one(elsewhere: Elsewhere) -> None:
    again = cast(Json, json.loads(elsewhere.local("up", "--json").stdout))

    assert again["url"] == elsewhere.greeting["url"]
    assert again["started"] is False
    assert again["login"] != elsewhere.greeting["login"]


def test_tokens_are_made_listed_and_revoked(elsewhere: Elsewhere) -> None:
    made = elsewhere.local("token", "create", "--role", "viewer", "--name", "bob")
    token = made.stdout.splitlines()[-1]
    identity = token.split("_")[1]
    assert token not in elsewhere.local("token", "list").stdout
    assert re.search(rf"^{identity} +viewer +bob ", elsewhere.local("token", "list").stdout, re.MULTILINE)

    elsewhere.local("token", "revoke", identity)

    assert identity not in elsewhere.local("token", "list").stdout
    url = str(elsewhere.greeting["url"])
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
    import httpx

    link = elsewhere.local("login").stdout.strip()
    with httpx.Client() as first, httpx.Client() as second:
        good = first.get(link)
        used = second.get(link)

    assert good.status_code == 303
    assert "__Host-" in good.headers["set-cookie"]
    assert used.status_code in (401, 410)
    assert "scrubjay login" in used.text


def test_a_pod_with_a_worktree_needs_no_server(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for words in (
        ("init", "-q", "-b", "main"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "first"),
    ):
        subprocess.run(["git", *words], cwd=project, check=True)
    said = subprocess.run(
        [
            *(_SCRUBJAY, "--data", tmp_path / "data", "run", "--repo", project, "--name", "w", "--env", "A=b"),
            *("--", "sh", "-c", "git branch --show-current; echo $A"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[:2] == ["scrubjay/w", "b"]
