"""``scrubjay resume`` where no server runs, and sessions wherever a pod can be named."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.conversing_agents import install_talker

_DETACH = b"\x1c\x1c"


@pytest.fixture
def talking(cli: Cli) -> Cli:
    """A machine with an agent that keeps conversations."""
    install_talker(cli.work / "bin", cli.work / ".config" / "scrubjay" / "agents")
    cli.env["PATH"] = f"{cli.work / 'bin'}{os.pathsep}{cli.env['PATH']}"
    return cli


def _talk(cli: Cli, *words: str) -> Any:
    """A pod whose agent has heard something and was killed; what ps says of it."""
    cli("run", "-d", "--name", "ada", "--agent", "talker", *words)
    cli("send", "ada", "PLUM-4711", "--enter")
    cli.wait_for(lambda: b"heard 1" in cli("logs", "ada").stdout)
    os.kill(cli.pods()["ada"]["agent_pid"], signal.SIGKILL)
    return cli.wait_until_ended("ada")


def test_your_terminal_becomes_that_of_an_agent_that_goes_on(talking: Cli) -> None:
    old = _talk(talking)

    with talking.terminal("resume", "ada") as terminal:
        terminal.read_until(b"goes on after 1: PLUM-4711")
        terminal.type(b"and then\r")
        terminal.read_until(b"heard 2: and then")
        terminal.type(_DETACH)
        terminal.read_until(b"left pod ada running")
        assert terminal.wait() == 0

    (new,) = talking.json("ps")
    assert (new["session"], new["conversation"]) == (old["session"], old["conversation"])
    assert new["resumed_from"] == old["id"]


def test_a_session_is_named_by_its_id_or_the_beginning_of_it(talking: Cli) -> None:
    old = _talk(talking)
    session = old["session"]

    told = talking.json("resume", "-d", session[:6], "--prompt", "what was it?")
    talking.wait_for(lambda: b"heard 2: what was it?" in talking("logs", session).stdout)

    assert (told["name"], told["session"], told["resumed_from"]) == ("ada", session, old["id"])
    assert told["findings"] == []
    assert b"heard 2" in talking("screen", session[:4]).stdout
    both = talking("export", session, "--format", "txt", "--from", "0").stdout
    assert b"heard 1" in both
    assert b"heard 2" in both
    assert b"there is no pod" in talking("screen", session[:3], code=1).stderr


def test_what_is_found_is_said_and_what_is_in_the_way_fails_in_one_line(talking: Cli, project: Path) -> None:
    _talk(talking, "--repo", str(project))
    (talking.data / "worktrees" / "ada" / "new").write_text("x")

    checked = talking("resume", "ada", "--check")
    assert checked.stdout == b"note: its worktree has changes that are not committed: 1 untracked\n"
    assert len(talking.json("ps", "--all")) == 1

    done = talking("resume", "ada", "-d")
    assert done.stdout == b"ada\n"
    assert done.stderr == b"scrubjay: its worktree has changes that are not committed: 1 untracked\n"

    refused = talking("resume", "ada", "-d", code=1)
    assert b"is held by running pod 'ada'" in refused.stderr
    assert b"take it over with --takeover" in refused.stderr
    held = talking("resume", "ada", "--check", code=1)
    assert held.stdout.startswith(b"stops: running pod 'ada'")
    (told, _) = talking.json("resume", "ada", "--check", code=1)["findings"]
    assert (told["kind"], told["stops"]) == ("held", True)

    assert talking("resume", "ada", "-d", "--takeover").stdout == b"ada\n"
    assert len(talking.json("ps")) == 1


def test_nothing_in_the_way_is_said_too(talking: Cli) -> None:
    _talk(talking)

    done = talking("resume", "ada", "--check")

    assert (done.stdout, done.stderr) == (b"", b"scrubjay: nothing is in the way\n")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--", "--soft", "--quick"), "--soft --quick"),
        (("--agent-args", "--soft '--quick one'"), "--soft --quick one"),
        (("--agent-args", ""), ""),
        ((), "--loud"),
    ],
)
def test_arguments_are_those_it_was_begun_with_or_those_that_are_given(
    talking: Cli, given: tuple[str, ...], words: str
) -> None:
    old = _talk(talking, "--", "--loud")

    talking("resume", "-d", "ada", *given)

    wanted = f"words: --go-on {old['conversation']} {words}".rstrip()
    talking.wait_for(lambda: wanted + "\r\n" in talking("logs", "ada", "--raw").stdout.decode())


def test_another_conversation_name_and_variables(talking: Cli) -> None:
    old = _talk(talking)

    told = talking.json("resume", "ada", "-d", "--new-conversation", "--name", "bea", "--env", "TALK_HOME=/tmp/talks")

    assert told["name"] == "bea"
    assert told["conversation"] not in (None, old["conversation"])
    assert [finding["kind"] for finding in told["findings"]] == ["new_conversation"]


_WRONG = (
    (("resume", "nobody"), 1, "there is no pod 'nobody'; 'scrubjay ps --all' lists them"),
    (("resume", ""), 1, "there is no pod ''"),
    (("resume",), 2, "Missing argument 'SESSION|POD'"),
    (("resume", "--json", "ada"), 2, "--json would mix with what the agent shows; add --detach"),
    (("resume", "ada", "--agent-args", "x", "--", "y"), 2, "the agent's arguments were given twice"),
    (("resume", "ada", "--agent-args", "'x"), 2, "--agent-args cannot be read: No closing quotation"),
    (("resume", "ada", "--env", "X"), 2, "'X' is not NAME=VALUE"),
    (("resume", "ada", "--runner", "other"), 2, "there is no server here that knows other machines"),
    (("resume", "ada", "--takover"), 2, "No such option"),
)


def test_a_wrong_request_is_answered_in_one_line(cli: Cli) -> None:
    assert cli.unlike(_WRONG) == []


def test_pods_and_sessions_are_completed(talking: Cli) -> None:
    old = _talk(talking)
    before = talking.env
    env = {**before, "_SCRUBJAY_COMPLETE": "bash_complete", "COMP_CWORD": "2"}

    def complete(beginning: str) -> str:
        talking.env = env | {"COMP_WORDS": f"scrubjay resume {beginning}"}
        done = talking("resume").stdout.decode()
        talking.env = before
        return done

    assert "ada" in complete("a")
    assert old["session"] in complete(old["session"][:2])
