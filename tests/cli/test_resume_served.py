"""``scrubjay resume`` where a server runs: the session is asked for first, and the pod is started from here."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.command_line import run_command
from tests.support.conditions import DEADLINE_S
from tests.support.conversing_agents import install_talker
from tests.support.tiers import sized
from tests.support.up_process import UpProcess


@pytest.fixture
def talking(served: UpProcess) -> Cli:
    """A machine with an agent that keeps conversations."""
    cli = served.cli
    install_talker(cli.work / "bin", cli.work / ".config" / "scrubjay" / "agents")
    cli.env["PATH"] = f"{cli.work / 'bin'}{os.pathsep}{cli.env['PATH']}"
    return cli


def _talk(cli: Cli, name: str) -> Any:
    """A pod whose agent has heard something and whose session the server knows; what ps says of it."""
    cli("run", "-d", "--name", name, "--agent", "talker")
    cli("send", name, "PLUM-4711", "--enter")
    cli.wait_for(lambda: b"heard 1" in cli("logs", name).stdout)
    pod = cli.pods()[name]
    cli.wait_for(lambda: pod["session"] in _sessions(cli))
    return pod


def _sessions(cli: Cli) -> dict[str, Any]:
    return {session["session_id"]: session for session in cli.json("sessions", "--all")}


def _stop(cli: Cli, pod: Any) -> None:
    """End a pod, and wait until the server has heard of it."""
    cli("stop", pod["name"])
    cli.wait_for(lambda: _sessions(cli)[pod["session"]]["state"] == "suspended")


def test_a_killed_agent_is_resumed_at_once_with_the_environment_of_who_resumes_it(talking: Cli) -> None:
    old = _talk(talking, "ada")
    os.kill(old["agent_pid"], signal.SIGKILL)
    talking.env["ONLY_IN_MY_SHELL"] = "yes"

    told = talking.json("resume", "ada", "-d")

    assert (told["session"], told["resumed_from"], told["epoch"]) == (old["session"], old["id"], 2)
    talking.wait_for(lambda: b"goes on after 1: PLUM-4711" in talking("logs", told["id"]).stdout)
    pid = talking.pods()["ada"]["agent_pid"]
    with open(f"/proc/{pid}/environ", "rb") as environ:
        variables = environ.read().split(b"\0")
    assert b"ONLY_IN_MY_SHELL=yes" in variables
    assert any(variable.startswith(b"JAY_MCP_TOKEN=sjt_") for variable in variables)
    session = _sessions(talking)[old["session"]]
    assert (session["state"], session["held_by"], session["epoch"]) == ("open", "ada", 2)


def test_a_running_pod_is_not_resumed_and_a_failed_start_gives_the_session_back(talking: Cli) -> None:
    old = _talk(talking, "bea")
    assert "is held by bea" in talking.error("resume", "bea", "-d", code=1)
    _stop(talking, old)
    program = talking.work / "bin" / "talker"
    program.rename(program.with_name("elsewhere"))

    assert "talker" in talking.error("resume", "bea", "-d", code=1)

    session = _sessions(talking)[old["session"]]
    assert (session["state"], session["why"]) == ("suspended", "exited 143")
    program.with_name("elsewhere").rename(program)
    assert talking.json("resume", "bea", "-d")["session"] == old["session"]


def test_a_finished_session_is_gone_on_with_only_if_it_is_reopened(talking: Cli) -> None:
    old = _talk(talking, "cleo")
    _stop(talking, old)
    talking("sessions", "finish", old["session"])

    assert "is finished" in talking.error("resume", "cleo", "-d", code=1)

    assert talking.json("resume", "cleo", "-d", "--reopen")["session"] == old["session"]


def test_r20_of_many_command_lines_one_resumes_and_the_others_hear_who_has_it(talking: Cli) -> None:
    for _ in range(sized(1, 3, 10)):
        old = talking.pods().get("dora") or _talk(talking, "dora")
        os.kill(talking.pods()["dora"]["agent_pid"], signal.SIGKILL)
        racing = [
            subprocess.Popen(
                [*talking.patient("scrubjay.cli.resume_command._NEWS_WITHIN_S"), "resume", "dora", "-d"],
                cwd=talking.work,
                env=talking.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(4)
        ]
        said = [racer.communicate(timeout=DEADLINE_S) for racer in racing]
        codes = sorted(racer.returncode for racer in racing)

        assert codes == [0, 1, 1, 1], said
        living = [pod for pod in talking.json("ps") if pod["name"] == "dora"]
        assert [pod["session"] for pod in living] == [old["session"]]
        for out, err in said:
            assert out == b"dora\n" or b"held by" in err, err


def test_all_recordings_of_a_session_are_brought_from_a_server_elsewhere(talking: Cli, served: UpProcess) -> None:
    old = _talk(talking, "eva")
    _stop(talking, old)
    new = talking.json("resume", "eva", "-d")
    token = talking("token", "create", "--role", "operator").stdout.decode().split()[-1]
    talking.env |= {"SCRUBJAY_TOKEN": token, "XDG_CACHE_HOME": str(talking.work / "cache")}

    def said_there() -> bytes:
        # The server may not have heard of the new pod yet.
        words = ("--server", served.url, "logs", str(new["id"]))
        return run_command(words, environ=talking.env, cwd=talking.work).stdout

    talking.wait_for(lambda: b"goes on after 1" in said_there())

    path = talking.work / "all.txt"
    talking("--server", served.url, "export", old["session"], "--from", "0s", "--output", str(path), "--format", "txt")

    text = path.read_text()
    assert text.index("heard 1: PLUM-4711") < text.index("goes on after 1: PLUM-4711")
