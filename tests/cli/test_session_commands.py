"""Sessions and memories on the command line, against a real server with real pods and agents."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from scrubjay.server.guard import LOCAL
from scrubjay.tape.record import Json
from tests.support.cli import Cli, open_cli
from tests.support.conditions import DEADLINE_S
from tests.support.up_process import UpProcess, open_up_process

_SUMMARISER = "sh -c 'cat >/dev/null; echo it went well'"
_ID = r"[a-z2-7]{26}"


class Desk:
    """A server with two pods and an agent outside of them, and what these remember."""

    def __init__(self, up: UpProcess, empty: subprocess.CompletedProcess[bytes]) -> None:
        self.cli, self.up = up.cli, up
        self.empty = empty  #: how ``sessions`` was answered before there were any
        self._tokens = {
            "ann": str(self.ask("token", "create", "--role", "pod", "--pod", "ann")["token"]),
            "rev": str(self.ask("token", "create", "--role", "agent", "--name", "rev")["token"]),
        }

    def ask(self, *words: str) -> Any:
        """What a command says with --json."""
        return json.loads(self.cli(*words, "--json").stdout)

    def lines(self, *words: str) -> list[str]:
        """What a command says to people, on stdout."""
        return self.cli(*words).stdout.decode().splitlines()

    def call(self, caller: str, tool: str, *, connection: str = "one", **arguments: object) -> Json:
        """Let an agent call a tool over one of its connections."""
        headers = {"Authorization": f"Bearer {self._tokens[caller]}", "Accept": "application/json, text/event-stream"}
        headers["Scrubjay-Connection"] = connection
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = httpx.post(f"{self.up.url}/mcp", json=call, headers=headers, timeout=DEADLINE_S, verify=False).text
        told = [line.removeprefix("data:") for line in answer.splitlines() if line.startswith(("data:", "{"))]
        return cast(Json, json.loads(told[-1])["result"]["structuredContent"])

    def begin(self, connection: str, *prompts: str) -> str:
        """A session of the agent outside pods, with something in it; its id."""
        answers = [self.call("rev", "add_memory", connection=connection, prompt=prompt) for prompt in prompts]
        return str(answers[-1]["session_id"])

    def begin_and_leave(self, connection: str, *prompts: str) -> str:
        """The same, and nobody holds it."""
        session = self.begin(connection, *prompts)
        self.call("rev", "finish_session", connection=connection, only_leave=True)
        return session


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    with open_cli(tmp_path_factory.mktemp("desk")) as cli:
        cli.env["SCRUBJAY_SUMMARY_COMMAND"] = _SUMMARISER
        with open_up_process(cli) as up:
            empty = cli("sessions")
            for name in ("ann", "bob"):
                cli("run", "-d", "--name", name, "--", "cat")
            cli.wait_for(lambda: len(json.loads(cli("sessions", "--json").stdout)) == 2)
            yield Desk(up, empty)


def _row(desk: Desk, session: str, *words: str) -> str | None:
    return next((line for line in desk.lines("sessions", *words) if line.startswith(session[:8])), None)


# Sessions.


def test_sessions_are_listed_last_used_first_with_who_holds_each_and_what_it_was_doing(desk: Desk) -> None:
    older = desk.begin("listed-1", "look at the \x1b]0;owned\x07tests")
    desk.call("ann", "add_memory", prompt="fix the\nflaky test")

    headings, first, second, *_ = desk.lines("sessions")

    assert headings.split() == ["ID", "NAME", "AGENT", "STATE", "MEMORIES", "USED", "BRANCH", "DOING"]
    assert re.fullmatch(r"\w{8}  ann +- +open: ann +1 +\d+s +- +fix the flaky test", first)
    assert re.fullmatch(rf"{older[:8]}  - +rev +open: rev +1 +\d+s +- +look at the \S+owned\S+tests", second)
    assert "\x1b" not in second
    assert [one["session_id"] for one in desk.ask("sessions")][1] == older


def test_what_is_over_is_listed_only_with_all_and_as_it_was_with_at(desk: Desk) -> None:
    session = desk.begin("over", "one thing")
    then = str(time.time_ns() // 1000)

    done = desk.cli("sessions", "finish", session[:8], "--reason", "it is done")

    assert done.stderr.decode() == (
        f"scrubjay: session {session[:8]} is finished; 'scrubjay resume {session[:8]} --reopen' goes on\n"
    )
    assert _row(desk, session) is None
    assert "  finished  " in str(_row(desk, session, "--all"))
    assert "  open: rev  " in str(_row(desk, session, "--at", then))
    shown = desk.ask("sessions", "show", session)
    assert (shown["state"], shown["why"]) == ("finished", "it is done")
    assert f"resume_session(session_id='{session}', reopen=true)" in shown["next"]


def test_nothing_that_is_empty_and_left_is_in_the_way(desk: Desk) -> None:
    refused = desk.call("rev", "resume_session", connection="empty", session_id="nonsense")
    session = str(refused["session_id"])
    desk.call("rev", "finish_session", connection="empty", only_leave=True)

    assert _row(desk, session) is None
    assert "  suspended  " in str(_row(desk, session, "--all"))
    assert "instead of    nonsense" in desk.lines("sessions", "show", session)


def test_a_session_is_shown_with_all_there_is(desk: Desk) -> None:
    desk.call("ann", "add_memory", prompt="p" * 300, thought="two\nlines \x1b[31m", response="did it", model="m-1")
    desk.call("ann", "wait_for", artifact="schema", reason="needs it", timeout_s=0)
    (pod,) = [pod for pod in desk.ask("ps") if pod["name"] == "ann"]

    lines = desk.lines("sessions", "show", "ann")

    assert lines[0] == f"session       {pod['session']}"
    assert "state         open: ann" in lines
    assert "epoch         1" in lines
    replay = f"scrubjay replay {pod['id'][:8]}"
    assert any(re.fullmatch(rf"pods          ann  running  \S+  {replay}", line) for line in lines)
    assert any(re.fullmatch(r"waits for     artifact schema since \S+ \(\d+s\): needs it", line) for line in lines)
    assert "    prompt    " + "p" * 199 + "…" in lines
    assert "    thought   two lines ?[31m" in lines
    assert lines[-1] == (
        f"next          'scrubjay attach ann' joins it; 'scrubjay resume {pod['session'][:8]} --takeover' "
        "takes it from ann and goes on in a new pod"
    )
    told = desk.ask("sessions", "show", pod["session"][:6])
    assert (told["session_id"], told["open_waits"][0]["key"]) == (pod["session"], "schema")
    assert [one["id"] for one in told["pods"]] == [pod["id"]]


def test_one_that_lost_its_pod_says_how_it_is_gone_on_with(desk: Desk) -> None:
    cli = desk.cli
    cli("run", "-d", "--name", "gone", "--", "true")
    ended = cli.wait_until_ended("gone")
    suspended = {"name": "gone", "state": "suspended"}
    cli.wait_for(lambda: any(session.items() >= suspended.items() for session in desk.ask("sessions")))

    lines = desk.lines("sessions", "show", ended["id"])

    assert "state         suspended" in lines
    assert any(line.startswith("              to be resumed until ") for line in lines)
    assert lines[-1].startswith(f"next          'scrubjay resume {ended['session'][:8]}' goes on with it in a new pod")


def test_a_session_is_taken_from_whoever_holds_it(desk: Desk) -> None:
    session = desk.begin("released", "mine")

    assert desk.cli("sessions", "release", session).stderr.decode() == (
        f"scrubjay: session {session[:8]} is suspended\n"
    )

    assert desk.call("rev", "resume_session", connection="another", session_id=session)["resumed"] is True
    late = desk.call("rev", "add_memory", connection="released", prompt="late")
    assert cast(Json, late["error"])["code"] == "fenced"


def test_a_session_is_handed_over_by_a_person_and_is_its_takers(desk: Desk) -> None:
    session = desk.begin("given", "half of it")

    offered = desk.cli("sessions", "handoff", session, "--to", "bob", "--note", "-", stdin=b"finish it\n")
    handoff = offered.stdout.decode().strip()
    assert re.fullmatch(_ID, handoff)
    assert f"bob takes it with accept_handoff, or you for it: scrubjay handoff accept {handoff[:8]}" in (
        offered.stderr.decode()
    )
    assert desk.ask("handoff", "accept", handoff)["session_id"] == session

    shown = desk.ask("sessions", "show", session)
    assert (shown["state"], shown["held_by"], shown["epoch"]) == ("open", "bob", 2)
    assert desk.call("rev", "resume_session", connection="given", session_id=session)["reason"] == "not_found"


def test_a_session_is_summed_up_when_asked_for(desk: Desk) -> None:
    session = desk.begin("long", "first", "second")

    asked = desk.cli("sessions", "summarise", session[:8])

    assert asked.stderr.decode() == (
        f"scrubjay: it is being summed up; 'scrubjay sessions show {session[:8]}' has it when it is done\n"
    )
    desk.call("rev", "save_summary", connection="long", text="it went well")  # unless the summariser was first
    lines = desk.lines("sessions", "show", session)
    at = lines.index("summary       of memories 1 to 2")
    assert lines[at + 1] == "    it went well"
    assert f"nothing is new in session {session[:8]}".encode() in desk.cli("sessions", "summarise", session).stderr
    assert desk.ask("sessions", "summarise", session) == {"session_id": session, "asked": False}


# Memories.


def test_memories_are_listed_in_order_from_as_many_answers_as_it_takes(desk: Desk) -> None:
    session = desk.begin_and_leave("many", *(f"number {n} " + "x" * 90_000 for n in range(1, 6)))

    listed = desk.ask("memory", "list", session)

    assert [memory["seq"] for memory in listed["memories"]] == [1, 2, 3, 4, 5]
    assert (listed["session_id"], listed["last_seq"]) == (session, 5)
    some = desk.cli("memory", "list", session[:8], "--after", "1", "--limit", "3")
    assert re.findall(rb"^(\d)  \S+  rev$", some.stdout, re.MULTILINE) == [b"2", b"3", b"4"]
    assert some.stderr == b"scrubjay: it goes on up to 5; --after 4 shows what follows\n"
    assert f"nothing is remembered of session {session[:8]} after 5".encode() in (
        desk.cli("memory", "list", session, "--after", "5").stderr
    )
    assert b"yet" in desk.cli("memory", "list", "bob").stderr
    assert [memory["seq"] for memory in desk.ask("memory", "search", "number", "--session", session)] == [5, 4, 3, 2, 1]


def test_a_memory_is_shown_with_the_command_that_shows_the_moment_and_nothing_acts(desk: Desk) -> None:
    desk.call("ann", "add_memory", prompt="see \x1b[2J\nhere", tools=["Bash", "Ed\x07it"], tokens=12, model="m-1")

    lines = desk.lines("memory", "search", "see", "here", "--pod", "ann")

    (session,) = [pod["session"] for pod in desk.ask("ps") if pod["name"] == "ann"]
    assert re.fullmatch(rf"{session[:8]}#\d+  \d\d:\d\d:\d\d  ann \(m-1, 12 tokens\)", lines[0])
    assert lines[1:4] == ["    prompt    see ?[2J", "              here", "    tools     Bash, Ed?it"]
    assert re.fullmatch(r"    see it    scrubjay replay ann --at @\d+", lines[4])
    desk.cli("screen", *lines[4].partition("replay ")[2].split())


def test_memories_are_found_by_what_they_say_when_and_by_whom(desk: Desk) -> None:
    before = str(time.time_ns() // 1000)
    session = desk.begin_and_leave("found", "the zebra is striped", "a zebra crossing")
    then = str(time.time_ns() // 1000)

    def found(*words: str) -> list[int]:
        code = 0 if words[-1] != "none" else 1
        told = json.loads(desk.cli("memory", "search", "--json", *words[: len(words) - code], code=code).stdout)
        return [memory["seq"] for memory in told]

    assert found("zebra") == [2, 1]
    assert found("zebra", "-crossing") == [1]
    assert found('"zebra is"') == [1]
    assert found("cross*", "--agent", "rev", "--session", session[:8]) == [2]
    assert found("zebra", "--since", before, "--until", then, "--limit", "1") == [2]
    assert found("zebra", "--until", before, "none") == []
    assert found("zebra", "--pod", "bob", "none") == []
    assert b"these are the newest 1" in desk.cli("memory", "search", "zebra", "--limit", "1").stderr
    assert desk.cli("memory", "search", "unheard", code=1).stderr == b"scrubjay: nothing was found\n"


def test_a_person_adds_to_a_session_that_nobody_holds_once_by_each_key(desk: Desk) -> None:
    session = desk.begin_and_leave("added", "first")

    assert desk.cli("memory", "add", session[:8], "the API moved").stdout == b"2\n"
    assert desk.cli("memory", "add", session, "-", "--thought", "so", stdin=b"two\nlines\n").stdout == b"3\n"
    assert desk.ask("memory", "add", session, "--response", "done", "--key", "k")["seq"] == 4
    again = desk.cli("memory", "add", session[:9], "--response", "done", "--key", "k")

    assert (again.stdout, again.stderr.decode()) == (
        b"4\n",
        f"scrubjay: it was there already, in session {session[:8]}\n",
    )
    _, second, third, fourth = desk.ask("memory", "list", session)["memories"]
    assert (second["prompt"], second["source"], second["agent"]) == ("the API moved", "person", LOCAL.name)
    assert (third["prompt"], third["thought"]) == ("two\nlines", "so")
    assert fourth["response"] == "done"
    assert any(line.endswith(f"{LOCAL.name} (a person)") for line in desk.lines("memory", "list", session))
    resumed = desk.call("rev", "resume_session", connection="added", session_id=session)
    assert [memory["seq"] for memory in cast("list[Json]", resumed["memories"])] == [1, 2, 3, 4]


def test_who_holds_a_session_is_said_with_until_when_and_what_to_do(desk: Desk) -> None:
    session = desk.begin("held", "busy")

    held = desk.cli.error("memory", "add", session, "a word", code=1)

    assert re.search(rf"session {session[:8]} is held by rev; it is free at \d\d:\d\d:\d\d unless rev is heard", held)
    assert f"'scrubjay sessions release {session[:8]}' frees it now" in held
    by_pod = desk.cli.error("memory", "add", "bob", "a word", code=1)
    assert "is held by bob; it is free when pod bob ends; 'scrubjay tell bob TEXT'" in by_pod
    desk.cli("sessions", "finish", session)
    assert f"'scrubjay resume {session} --reopen' goes on with it" in (
        desk.cli.error("memory", "add", session, "a word", code=1)
    )


def test_ctrl_c_while_a_text_is_read_ends_it_without_a_word(desk: Desk) -> None:
    session = desk.begin_and_leave("interrupted", "first")
    with subprocess.Popen(
        [*desk.cli.argv, "memory", "add", session, "-"],
        cwd=desk.cli.work,
        env=desk.cli.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as adding:
        desk.cli.wait_for(lambda: _waits_for_input(adding.pid))
        adding.send_signal(signal.SIGINT)
        out, err = adding.communicate(timeout=DEADLINE_S)

    assert (adding.returncode, out, err.strip()) == (130, b"", b"")
    assert desk.ask("memory", "list", session)["last_seq"] == 1


def _waits_for_input(pid: int) -> bool:
    try:
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text() or "pipe" in Path(f"/proc/{pid}/stack").read_text()
    except OSError:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")


# Elsewhere, and what is wrong.


def test_somebody_elsewhere_who_may_only_look_does_so(desk: Desk) -> None:
    session = desk.begin_and_leave("elsewhere", "first")
    desk.call("ann", "add_memory", prompt="from afar")
    elsewhere = Cli(desk.cli.data.parent / "nothing", desk.cli.work)
    elsewhere.env = {**elsewhere.env, "SCRUBJAY_SERVER": desk.up.url}
    elsewhere.env["SCRUBJAY_TOKEN"] = str(desk.ask("token", "create", "--role", "viewer", "--name", "vic")["token"])

    assert session[:8].encode() in elsewhere("sessions").stdout
    (seen,) = [line for line in elsewhere("memory", "search", "afar").stdout.decode().splitlines() if "see it" in line]
    assert f"scrubjay --server {desk.up.url} replay ann --at @" in seen
    assert (
        f"'scrubjay --server {desk.up.url} attach ann' joins it".encode() in elsewhere("sessions", "show", "ann").stdout
    )
    for words in (("sessions", "finish", session), ("memory", "add", session, "x"), ("sessions", "summarise", session)):
        assert "the role viewer may not do that" in elsewhere.error(*words, code=1)


_WRONG = (
    ("sessions show nobody", 1, "there is no session 'nobody'; 'scrubjay sessions'"),
    ("sessions show ''", 1, "there is no session ''"),
    ("sessions show", 2, "Missing argument 'SESSION|POD'"),
    ("sessions fly", 2, "No such command 'fly'"),
    ("sessions --at nonsense", 2, "'nonsense' is not a time"),
    ("sessions --json show ann", 2, "what is before 'show' is for the list of sessions; put options behind 'show'"),
    ("sessions --all finish ann", 2, "what is before 'finish' is for the list"),
    ("sessions finish nobody", 1, "there is no session 'nobody'"),
    ("sessions finish ann --reason ' '", 2, "the reason says nothing"),
    ("sessions release nobody", 1, "there is no session 'nobody'"),
    ("sessions handoff ann --to bob", 2, "Missing option '--note'"),
    ("sessions handoff ann --to nobody --note x", 1, "there is no pod 'nobody'"),
    ("sessions handoff ann --to bob --note ''", 2, "the note says nothing"),
    ("sessions summarise nobody", 1, "there is no session 'nobody'"),
    ("memory list nobody", 1, "there is no session 'nobody'"),
    ("memory list ann --after -1", 2, "-1 is not in the range"),
    ("memory list ann --limit 0", 2, "0 is not in the range"),
    ("memory search", 2, "Missing argument 'QUERY...'"),
    ("memory search -- -x", 2, "there is nothing to search for in '-x'"),
    ("memory search x --nope", 2, "No such option '--nope'"),
    ("memory search typed:x", 2, "memories are neither typed nor shown"),
    ("memory search x --session nobody", 1, "there is no session 'nobody'"),
    ("memory search x --pod nobody", 1, "there is no pod 'nobody'"),
    ("memory search x --since 50%", 2, "'50%' is not a time"),
    ("memory add ann", 2, "the memory says nothing; give TEXT, --prompt, --thought or --response"),
    ("memory add ann ''", 2, "the prompt says nothing"),
    ("memory add ann x --prompt y", 2, "the prompt was given twice"),
    ("memory add ann - --thought -", 2, "standard input is read once"),
    ("memory add ann x --key ''", 2, "a key has 1 to 200 characters"),
    ("memory add nobody x", 1, "there is no session 'nobody'"),
    ("memory add nobody x --key k", 1, "there is no session 'nobody'"),
)


def test_what_people_get_wrong_is_answered_in_one_line(desk: Desk) -> None:
    assert desk.cli.unlike(_WRONG) == []


def test_a_text_that_is_too_long_is_refused(desk: Desk) -> None:
    assert b"100001 characters" in desk.cli("memory", "add", "ann", "-", stdin=b"x" * 100_001, code=2).stderr


def test_sessions_and_pods_are_completed(desk: Desk) -> None:
    (session,) = [pod["session"] for pod in desk.ask("ps") if pod["name"] == "ann"]
    shell = Cli(desk.cli.data, desk.cli.work)
    shell.env |= {"_SCRUBJAY_COMPLETE": "bash_complete", "COMP_CWORD": "3"}

    def completed(begin: str) -> bytes:
        shell.env["COMP_WORDS"] = f"scrubjay sessions show {begin}"
        return shell().stdout

    assert completed("an") == b"plain,ann\n"
    assert completed(session[:4]) == f"plain,{session}\n".encode()


def test_without_a_server_it_is_said_what_to_start(cli: Cli) -> None:
    for words in (("sessions",), ("sessions", "show", "x"), ("memory", "list", "x"), ("memory", "add", "x", "y")):
        assert "start one with 'scrubjay up'" in cli.error(*words, code=1)


def test_before_there_is_a_session_it_is_said_what_has_one(desk: Desk) -> None:
    assert desk.empty.stdout == b""
    assert desk.empty.stderr.startswith(b"scrubjay: there are no sessions yet; every pod has one")
