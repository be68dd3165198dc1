"""Bindings, channels, waits and handoffs on the command line, against a real server with real pods."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from scrubjay.server.guard import LOCAL
from scrubjay.tape.record import Json
from tests.support.cli import Cli, open_cli
from tests.support.conditions import DEADLINE_S
from tests.support.up_process import UpProcess, open_up_process

_NAMES = ("ann", "bob", "cid")


class Fleet:
    """A server with three pods, and what their agents do by tools."""

    def __init__(self, up: UpProcess) -> None:
        self.cli, self.up = up.cli, up
        self._tokens: dict[str, str] = {}

    def ask(self, *words: str) -> Any:
        """What a command says with --json."""
        return json.loads(self.cli(*words, "--json").stdout)

    def lines(self, *words: str) -> list[str]:
        """What a command says to people, on stdout."""
        return self.cli(*words).stdout.decode().splitlines()

    def call(self, caller: str, tool: str, **arguments: object) -> Json:
        """Let the agent of a pod call a tool."""
        if caller not in self._tokens:
            self._tokens[caller] = str(self.ask("token", "create", "--role", "pod", "--pod", caller)["token"])
        headers = {
            "Authorization": f"Bearer {self._tokens[caller]}",
            "Accept": "application/json, text/event-stream",
        }
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = httpx.post(f"{self.up.url}/mcp", json=call, headers=headers, timeout=DEADLINE_S, verify=False).text
        told = [line.removeprefix("data:") for line in answer.splitlines() if line.startswith(("data:", "{"))]
        result = cast(Json, json.loads(told[-1])["result"])
        assert not result.get("isError"), result
        return cast(Json, result["structuredContent"])

    def wait(self, waiter: str, **arguments: object) -> str:
        """Let a pod wait for something."""
        return str(self.call(waiter, "wait_for", timeout_s=0, **arguments)["wait"])

    def deadlocks(self, count: int) -> list[Json]:
        """The circles, when there are so many."""
        return cast("list[Json]", self.cli.wait_for(lambda: _exactly(self.ask("waits")["deadlocks"], count)))[:count]

    def part(self) -> None:
        """Leave nothing between the pods."""
        transport = httpx.HTTPTransport(uds=str(self.cli.data / "server.sock"), verify=False)
        with httpx.Client(transport=transport, base_url="http://localhost/api/v1", timeout=DEADLINE_S) as api:
            for binding in api.get("/bindings").json():
                api.post(f"/bindings/{binding['id']}/unbind").raise_for_status()
            for channel in api.get("/channels").json():
                api.delete(f"/channels/{channel['name']}").raise_for_status()
            for wait in api.get("/waits").json()["waits"]:
                api.delete(f"/waits/{wait['id']}").raise_for_status()
            for handoff in api.get("/handoffs").json():
                api.post(f"/handoffs/{handoff['id']}/decline").raise_for_status()


def _exactly(found: list[Json], count: int) -> list[object] | None:
    return [*found, True] if len(found) == count else None


@pytest.fixture(scope="module")
def whole_fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with _open_fleet(folder) as fleet:
        yield fleet


@contextmanager
def _open_fleet(folder: Path) -> Generator[Fleet]:
    with open_cli(folder) as cli, open_up_process(cli) as up:
        for name in _NAMES:
            cli("run", "-d", "--name", name, "--", "cat")
        fleet = Fleet(up)
        cli.wait_for(lambda: {pod["name"] for pod in fleet.ask("ps")} == set(_NAMES))
        yield fleet


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Generator[Fleet]:
    yield whole_fleet
    whole_fleet.part()


# Bindings.


def test_a_binding_is_asked_for_seen_answered_and_ended_by_its_pods(fleet: Fleet) -> None:
    cli = fleet.cli
    asked = cli("bind", "ann", "bob", "--scope", "terminal:read", "--reason", "to \x1b[31mreview")
    binding = asked.stdout.decode().strip()
    assert re.fullmatch(r"[a-z2-7]{26}", binding)
    assert asked.stderr == b"scrubjay: ann on bob: terminal:read pending\n"
    headings, row = fleet.lines("bindings")
    assert headings.split() == ["ID", "POD", "ON", "STATE", "GRANTED", "PENDING", "SINCE", "REASON"]
    assert re.fullmatch(rf"{binding[:8]}  ann  bob  pending  -        terminal:read  \d+s     to \?\[31mreview", row)

    assert cli("accept", "ann", "bob").stderr == b"scrubjay: ann on bob: has terminal:read\n"
    more = fleet.ask("bind", "ann", "bob", "--scope", "terminal:write", "--scope", "terminal:read")
    assert (more["id"], more["granted"], more["pending"]) == (binding, ["terminal:read"], ["terminal:write"])
    assert fleet.ask("reject", binding[:8], "--reason", "not that")["answer"] == "not that"
    assert cli("unbind", "ann", "bob").stderr == b"scrubjay: ann on bob: inactive\n"

    assert b"there are no bindings" in cli("bindings").stderr
    assert fleet.ask("bindings") == []
    assert [one["state"] for one in fleet.ask("bindings", "ann", "--all")] == ["inactive"]
    assert fleet.ask("bindings", "cid", "--all") == []


def test_a_person_grants_at_once_in_part_and_looks_at_how_it_was(fleet: Fleet) -> None:
    before = str(time.time_ns() // 1000)
    bound = fleet.ask("bind", "bob", "cid", "--scope", "terminal:read", "--accept")
    assert (bound["state"], bound["granted"]) == ("active", ["terminal:read"])
    fleet.cli("bind", "cid", "bob", "--scope", "terminal:read", "--scope", "terminal:write")
    some = fleet.ask("accept", "cid", "bob", "--scope", "terminal:write")
    assert (some["granted"], some["pending"]) == (["terminal:write"], [])
    then = str(time.time_ns() // 1000)
    fleet.cli("unbind", "bob", "cid", "--reason", "done")

    assert [(one["initiator"], one["target"]) for one in fleet.ask("bindings", "--at", then)] == [
        ("bob", "cid"),
        ("cid", "bob"),
    ]
    assert [one["initiator"] for one in fleet.ask("bindings")] == ["cid"]
    assert fleet.ask("bindings", "--at", before, "--all", "cid") == []


# Channels.


def test_a_channel_is_made_spoken_in_and_read(fleet: Fleet) -> None:
    cli = fleet.cli
    made = cli("channel", "create", "build", "--purpose", "what is built", "--member", "ann", "--member", "bob")
    assert made.stderr == b"scrubjay: channel build is there, with ann, bob\n"
    assert cli("channel", "post", "build", "is it done, @bob?", "--ask").stdout == b"build#1\n"
    hostile = b"no\n\tindented \x1b]0;owned\x07\x1b[2J\xe2\x80\xae\xff\n"
    assert cli("channel", "post", "build", "-", "--mention", "cid", "--reply-to", "1", stdin=hostile).stdout == (
        b"build#2\n"
    )

    lines = fleet.lines("channel", "read", "build")
    assert re.fullmatch(rf"1  \d\d:\d\d:\d\d  {LOCAL.name} to bob \(asks\)", lines[0])
    assert lines[1] == "    is it done, @bob?"
    assert re.fullmatch(rf"2  \d\d:\d\d:\d\d  {LOCAL.name} to cid \(answers 1\)", lines[2])
    assert lines[3:] == ["    no", "        indented ?]0;owned??[2J?\N{REPLACEMENT CHARACTER}"]
    headings, row = fleet.lines("channel", "list")
    assert headings.split() == ["NAME", "KIND", "MEMBERS", "MESSAGES", "LAST", "PURPOSE"]
    assert re.fullmatch(r"build  open  ann, bob, cid  2         \d+s    what is built", row)
    assert [one["seq"] for one in fleet.ask("channel", "read", "build", "--after", "1")["messages"]] == [2]
    assert [one["seq"] for one in fleet.ask("channel", "read", "#build", "--limit", "1")["messages"]] == [2]
    assert b"nothing was said there after message 2" in cli("channel", "read", "build", "--after", "2").stderr


def test_pods_join_and_leave_and_an_archived_channel_is_read_as_it_was(fleet: Fleet) -> None:
    cli = fleet.cli
    before = str(time.time_ns() // 1000)
    assert fleet.ask("channel", "create", "quiet", "--private")["kind"] == "private"
    assert cli("channel", "join", "quiet", "ann").stderr == b"scrubjay: in channel quiet are ann\n"
    assert fleet.ask("channel", "join", "quiet", "bob")["members"] == ["ann", "bob"]
    assert cli("channel", "leave", "quiet", "ann").stderr == b"scrubjay: ann is not in channel quiet\n"
    said = fleet.ask("channel", "post", "quiet", "a word")
    assert (said["id"], said["author"], said["author_kind"]) == ("quiet#1", LOCAL.name, "person")
    then = str(time.time_ns() // 1000)

    assert cli("channel", "archive", "quiet").stderr == b"scrubjay: channel quiet is archived\n"

    assert fleet.ask("channel", "list") == []
    assert [(one["name"], one["members"]) for one in fleet.ask("channel", "list", "--at", then)] == [("quiet", ["bob"])]
    assert fleet.ask("channel", "list", "--at", before) == []
    assert fleet.lines("channel", "read", "quiet", "--at", then)[1:] == ["    a word"]
    assert "there is no channel 'quiet'" in cli.error("channel", "read", "quiet", code=1)


class _Follower:
    """``channel read -f``, as it prints."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*cli.argv, "channel", "read", *words],
            cwd=cli.work,
            env={**cli.env, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += (line.rstrip("\n") for line in self.process.stdout)

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Let it end, by a signal if given; how it did, and what it said on stderr."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        self._reading.join(DEADLINE_S)
        assert self.process.stderr is not None
        told = self.process.stderr.read()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code, told

    def __enter__(self) -> _Follower:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(DEADLINE_S)


def test_a_channel_is_followed_until_it_is_archived(fleet: Fleet) -> None:
    cli = fleet.cli
    cli("channel", "create", "live")
    for text in ("one", "two", "three"):
        cli("channel", "post", "live", text)
    with _Follower(cli, "live", "-f", "--limit", "2") as following:
        cli.wait_for(lambda: len(following.lines) == 4)
        cli("channel", "post", "live", "four")
        cli.wait_for(lambda: following.lines[-1] == "    four")
        cli("channel", "post", "live", "five")
        cli("channel", "archive", "live")
        code, told = following.end()

    assert [line.strip() for line in following.lines[1::2]] == ["two", "three", "four", "five"]
    assert (code, told) == (0, "scrubjay: channel live is archived\n")


def test_ctrl_c_ends_following_without_a_word(fleet: Fleet) -> None:
    fleet.cli("channel", "create", "live")
    with _Follower(fleet.cli, "live", "-f", "--json", "--after", "0") as following:
        fleet.cli("channel", "post", "live", "heard")
        fleet.cli.wait_for(lambda: following.lines)
        code, told = following.end(signal.SIGINT)

    assert (code, told.strip()) == (130, "")
    [message] = map(json.loads, following.lines)
    assert (message["seq"], message["text"]) == (1, "heard")


@contextmanager
def _up_until_killed(cli: Cli) -> Generator[UpProcess]:
    with pytest.raises(AssertionError), open_up_process(cli) as up:  # which is not how it wants to end
        yield up


def test_nothing_is_missed_or_doubled_when_the_server_is_killed_and_started_again(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    cli = Cli(tmp_path / "data", tmp_path / "work")
    with ExitStack() as ups:
        up = ups.enter_context(_up_until_killed(cli))
        cli("channel", "create", "live")
        with _Follower(cli, "live", "-f", "--json") as following:
            cli("channel", "post", "live", "before")
            cli.wait_for(lambda: following.lines)
            os.kill(up.pid, signal.SIGKILL)
            ups.close()
            ups.enter_context(open_up_process(cli))
            for number in range(3):
                cli("channel", "post", "live", f"after {number}")
            cli.wait_for(lambda: len(following.lines) >= 4)
            following.end(signal.SIGINT)

    messages = [json.loads(line) for line in following.lines]
    assert [message["seq"] for message in messages] == [1, 2, 3, 4]
    assert [message["text"] for message in messages] == ["before", "after 0", "after 1", "after 2"]


def test_a_follower_whose_token_is_revoked_is_told_so(fleet: Fleet) -> None:
    cli = fleet.cli
    cli("channel", "create", "live")
    token = fleet.ask("token", "create", "--role", "viewer")
    elsewhere = Cli(cli.data, cli.work)
    elsewhere.env = {**cli.env, "SCRUBJAY_SERVER": fleet.up.url, "SCRUBJAY_TOKEN": str(token["token"])}
    with _Follower(elsewhere, "live", "-f") as following:
        cli("channel", "post", "live", "from here")
        cli.wait_for(lambda: following.lines)
        cli("token", "revoke", str(token["id"]))
        code, told = following.end()

    assert code == 1
    assert "not good" in told


def test_somebody_elsewhere_who_may_only_look_does_so(fleet: Fleet) -> None:
    fleet.cli("bind", "ann", "bob", "--scope", "terminal:read")
    elsewhere = Cli(fleet.cli.data, fleet.cli.work)
    elsewhere.env = {**fleet.cli.env, "SCRUBJAY_SERVER": fleet.up.url}
    elsewhere.env["SCRUBJAY_TOKEN"] = str(fleet.ask("token", "create", "--role", "viewer", "--name", "vic")["token"])

    _, seen, _ = elsewhere("why", "ann").stdout.decode().splitlines()

    assert seen.startswith(f"  see it: scrubjay --server {fleet.up.url} replay ann --at 20")
    assert [wait["waiter"] for wait in json.loads(elsewhere("waits", "--json").stdout)["waits"]] == ["ann"]
    for words in (("accept", "ann", "bob"), ("tell", "ann", "hello"), ("channel", "create", "mine")):
        assert "the role viewer may not do that" in elsewhere.error(*words, code=1)


def test_what_is_told_to_a_pod_is_in_its_inbox_until_it_takes_note(fleet: Fleet) -> None:
    cli = fleet.cli
    first = cli("tell", "cid", "look at the tests").stdout.decode().strip()
    second = fleet.ask("tell", "cid", "are they done", "--ask")
    assert re.fullmatch(r"@cid#\d+", first)
    assert (second["asks"], second["mentions"]) == (True, ["cid"])
    lines = fleet.lines("inbox", "cid")[-4:]
    assert re.fullmatch(rf"{re.escape(first)}  \d\d:\d\d:\d\d  {LOCAL.name} to cid \(queued\)", lines[0])
    assert lines[1] == "    look at the tests"
    assert lines[2].endswith("(asks, queued)")

    fleet.call("cid", "read_inbox")
    told = cast("list[Json]", fleet.ask("inbox", "cid")["messages"])
    assert {message["how"] for message in told} == {"inbox"}
    assert fleet.lines("inbox", "cid")[-4].endswith("(read)")
    fleet.call("cid", "acknowledge", messages=[message["id"] for message in told])

    assert b"there is nothing for cid" in cli("inbox", "cid").stderr
    assert [one["state"] for one in fleet.ask("inbox", "cid", "--all")["messages"]][-2:] == ["acknowledged"] * 2


# Waits.


def test_a_wait_is_seen_explained_and_cancelled(fleet: Fleet) -> None:
    cli = fleet.cli
    cli("channel", "create", "team", *_members())
    before = str(time.time_ns() // 1000)
    wait = fleet.wait("ann", pod="bob", artifact="schema", reason="needs\nthe \x1b[31mschema", deadline=3600)
    fleet.wait("bob", artifact="facts")
    fleet.wait("cid", channel="team")
    then = str(time.time_ns() // 1000)

    headings, *rows = fleet.lines("waits")
    assert headings.split() == ["ID", "WAITER", "FOR", "REASON", "SOURCE", "SINCE", "DEADLINE"]
    assert re.fullmatch(rf"{wait[:8]}  ann +artifact schema of bob  .* +declared  \d+s +in 59m\d+s", rows[0])
    assert "\x1b" not in rows[0]
    assert re.search(r"  bob +artifact facts +- +declared  \d+s +-$", rows[1])
    assert "  #team " in rows[2]
    answer = fleet.ask("waits")
    assert [set(answer), answer["deadlocks"]] == [{"waits", "deadlocks"}, []]
    assert [one["waiter"] for one in answer["waits"]] == ["ann", "bob", "cid"]

    step, seen, other, _, end = fleet.lines("why", "ann")
    assert re.fullmatch(
        r"ann waits for artifact schema of bob since \d\d:\d\d:\d\d \(\d+s\): needs the .*schema \(declared\)", step
    )
    assert re.fullmatch(r"  see it: scrubjay replay ann --at @\d+", seen)
    assert other.startswith("bob waits for artifact facts since ")
    assert end == "nobody is known to provide artifact facts"
    shown = seen.removeprefix("  see it: scrubjay replay ").split()
    cli("screen", *shown)
    assert fleet.lines("why", "cid")[-1] == "whoever says something in #team ends it"

    assert f"ann's wait for artifact schema of bob is cancelled: {LOCAL.name} cancelled it".encode() in (
        cli("waits", "--cancel", wait[:8]).stderr
    )
    assert [one["waiter"] for one in fleet.ask("waits")["waits"]] == ["bob", "cid"]
    assert [one["waiter"] for one in fleet.ask("waits", "--at", then)["waits"]] == ["ann", "bob", "cid"]
    assert len(fleet.lines("why", "ann", "--at", then)) == 5
    assert fleet.ask("waits", "--at", before)["waits"] == []
    assert re.match(r"ann waits for nothing: \w+, since \d\d:\d\d:\d\d", fleet.lines("why", "ann")[0])
    assert fleet.ask("waits", "--cancel", wait)["state"] == "cancelled"


def _members() -> list[str]:
    return [word for name in _NAMES for word in ("--member", name)]


def test_whoever_holds_a_pod_up_is_named_with_what_it_does(fleet: Fleet) -> None:
    fleet.cli("bind", "ann", "bob", "--scope", "terminal:read", "--reason", "to review")

    step, seen, end = fleet.lines("why", "ann")

    assert re.fullmatch(
        r"ann waits for binding to bob since \S+ \(\d+s\): terminal:read asked for: to review \(binding \w{8}\)", step
    )
    assert re.fullmatch(r"  see it: scrubjay replay ann --at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", seen)
    assert re.fullmatch(r"bob holds it up: \w+, since \d\d:\d\d:\d\d \([\dm]+s\)", end)
    why = fleet.ask("why", "ann")
    assert (why["pod"], why["ways"][0]["end"], why["ways"][0]["root"]) == ("ann", "somebody", "bob")


def test_a_pod_at_a_prompt_waits_for_you(fleet: Fleet) -> None:
    fleet.cli("run", "-d", "--name", "asker", "--", "sh", "-c", r"printf 'Delete everything? [y/N] '; read answer")
    fleet.cli.wait_for(lambda: "asker" in {session["name"] for session in fleet.ask("sessions")})

    end = fleet.cli.wait_for(lambda: _last_if(fleet.lines("why", "asker"), "you hold it up"))

    assert end == "you hold it up"
    row = next(line for line in fleet.lines("waits") if "  asker " in line)
    assert re.search(r"  asker +you +.*prompt", row)
    fleet.cli("send", "asker", "n", "--enter")
    fleet.cli.wait_until_ended("asker")


def _last_if(lines: list[str], wanted: str) -> str | None:
    return lines[-1] if lines[-1] == wanted else None


def test_a_circle_is_named_in_order_and_cut(fleet: Fleet) -> None:
    cli = fleet.cli
    cli("channel", "create", "team", *_members())
    for waiter, on in (("ann", "bob"), ("bob", "cid"), ("cid", "ann")):
        fleet.wait(waiter, pod=on, artifact=f"of-{on}")
    [deadlock] = fleet.deadlocks(1)
    pods = cast("list[str]", deadlock["pods"])
    first = pods.index("ann")
    assert pods[first:] + pods[:first] == ["ann", "bob", "cid"]
    assert [edge["waiter"] for edge in cast("list[Json]", deadlock["edges"])] == pods
    lines = fleet.lines("waits")
    circle = " \N{RIGHTWARDS ARROW} ".join([*pods, pods[0]])
    assert lines[-2] == f"deadlock: {circle}"
    assert lines[-1] == (
        "  it costs least to cut cid's wait for artifact of-ann of ann: "
        f"scrubjay waits --cancel {str(deadlock['cut'])[:8]}"
    )
    why = fleet.lines("why", "bob")
    assert why[-1] == (
        "it is a circle: bob \N{RIGHTWARDS ARROW} cid \N{RIGHTWARDS ARROW} ann \N{RIGHTWARDS ARROW} bob; "
        "it costs least to cut cid's wait for artifact of-ann of ann: scrubjay why bob --cut"
    )

    cut = cli("why", "bob", "--cut")

    assert cut.stdout == b""
    assert "is cut by cancelling cid's wait for artifact of-ann of ann" in cut.stderr.decode()
    assert fleet.deadlocks(0) == []
    assert "held up by no circle; 'scrubjay waits --cancel ID'" in cli.error("why", "bob", "--cut", code=1)
    inbox = fleet.ask("inbox", "cid")["messages"]
    assert f"Your wait for ann is cancelled: {LOCAL.name} cancelled it" in inbox[-1]["text"]


# Handoffs.


def test_a_handoff_is_offered_listed_taken_and_declined(fleet: Fleet) -> None:
    cli = fleet.cli
    fleet.wait("ann", artifact="report")
    offered = cli("handoff", "offer", "it is done", "--artifact", "report", "--file", "report.md", "--commit", "abc")
    assert offered.stderr == b"scrubjay: ann waited for it and can go on\n"
    assert fleet.ask("waits")["waits"] == []
    assert b"nothing is offered" in cli("handoff", "list").stderr

    to_bob = cli("handoff", "offer", "-", "--to", "bob", stdin=b"two\nlines\n").stdout.decode().strip()
    headings, row = fleet.lines("handoff", "list")
    assert re.split(r"  +", headings) == ["ID", "FROM", "FOR", "STATE", "TAKEN BY", "AGE", "NOTE"]
    assert re.fullmatch(rf"{to_bob[:8]}  {LOCAL.name}  bob  offered  - +\d+s   two lines", row)
    then = str(time.time_ns() // 1000)
    assert cli("handoff", "accept", to_bob[:8]).stderr.decode() == (
        f"scrubjay: handoff {to_bob[:8]} of {LOCAL.name} is accepted by bob\n"
    )
    mine = fleet.ask("handoff", "offer", "never mind", "--to", "cid", "--artifact", "key")
    assert fleet.ask("handoff", "decline", mine["id"])["state"] == "withdrawn"
    keyed = fleet.ask("handoff", "offer", "again", "--to", "cid", "--artifact", "key")
    assert fleet.ask("handoff", "accept", "key")["id"] == keyed["id"]

    assert fleet.ask("handoff", "list") == []
    assert [one["id"] for one in fleet.ask("handoff", "list", "--at", then)] == [to_bob]
    assert [one["state"] for one in fleet.ask("handoff", "list", "--all")][-4:] == [
        "accepted",
        "accepted",
        "withdrawn",
        "accepted",
    ]


# What is wrong.


_WRONG = (
    ("bind ann nobody --scope terminal:read", 1, "there is no pod 'nobody'"),
    ("bind ann bob --scope terminal:fly", 2, "'terminal:fly' is not one of"),
    ("bind ann bob --scope terminal:read --reason ' '", 2, "the reason says nothing"),
    ("bindings nobody", 1, "there is no pod 'nobody'"),
    ("bindings --at nonsense", 2, "'nonsense' is not a time; times are like 2h (ago)"),
    ("waits --at 50%", 2, "'50%' is not a time; times are like 2h (ago)"),
    ("accept ann bob", 1, "ann has no binding on bob; 'scrubjay bindings' lists them"),
    ("accept", 2, "Missing argument"),
    ("unbind cid ann", 1, "cid has no binding on ann"),
    ("channel create 'Not A Name'", 2, "cannot be a channel's name"),
    ("channel post nowhere hello", 1, "there is no channel 'nowhere'"),
    ("channel post nowhere ''", 2, "the message says nothing"),
    ("channel post nowhere hello --reply-to 0", 2, "0 is not in the range"),
    ("channel read nowhere -f", 1, "there is no channel 'nowhere'"),
    ("channel read nowhere -f --at 1h", 2, "the past is not followed"),
    ("channel read nowhere --at 50%", 2, "'50%' is not a time"),
    ("tell nobody hello", 1, "there is no pod 'nobody'"),
    ("tell ann ''", 2, "the message says nothing"),
    ("waits --cancel zzzz", 1, "there is no wait 'zzzz'"),
    ("waits --cancel zzzz --at 1h", 2, "what was is not changed"),
    ("why nobody", 1, "there is no pod 'nobody'"),
    ("why ann --cut --at 1h", 2, "what was is not changed"),
    ("why ann --at 1990-01-01", 1, "there is no pod 'ann'"),
    ("handoff offer x", 2, "say whom it is for"),
    ("handoff offer '' --to ann", 2, "the note says nothing"),
    ("handoff offer x --artifact ' '", 2, "the artifact's key says nothing"),
    ("handoff accept zzzz", 1, "there is no handoff 'zzzz'"),
)


def test_what_people_get_wrong_is_answered_in_one_line(whole_fleet: Fleet) -> None:
    assert whole_fleet.cli.unlike(_WRONG) == []


def test_a_text_that_is_too_long_is_refused_and_one_that_fits_is_not(fleet: Fleet) -> None:
    cli = fleet.cli
    cli("channel", "create", "long")

    assert b"20001 characters" in cli("channel", "post", "long", "-", stdin=b"x" * 20_001, code=2).stderr
    assert cli("channel", "post", "long", "-", stdin=b"x" * 20_000).stdout == b"long#1\n"


def test_what_is_to_come_is_as_it_is_now(fleet: Fleet) -> None:
    fleet.cli("bind", "ann", "bob", "--scope", "terminal:read")

    [binding] = fleet.ask("bindings", "--at", "2200-01-01T00:00")

    assert binding["state"] == "pending"
    assert fleet.ask("waits", "--at", "2200-01-01")["waits"][0]["starving"] is False


def test_without_a_server_it_is_said_what_to_start(cli: Cli) -> None:
    for words in (("waits",), ("why", "ann"), ("channel", "read", "x", "-f"), ("bindings",)):
        assert "start one with 'scrubjay up'" in cli.error(*words, code=1)
