"""``scrubjay resume`` where a server runs: the session is asked for first, and the pod is started from here."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from cli.conftest import Jay
from runner.talkers import install_talker
from server.up import Up, open_up


@pytest.fixture
def talking(jay: Jay) -> Jay:
    """A machine with an agent that keeps conversations."""
    install_talker(jay.work / "bin", jay.work / ".config" / "scrubjay" / "agents")
    jay.env["PATH"] = f"{jay.work / 'bin'}{os.pathsep}{jay.env['PATH']}"
    return jay


@pytest.fixture
def up(talking: Jay) -> Generator[Up]:
    with open_up(talking) as up:
        yield up


def _talk(jay: Jay) -> Any:
    """A pod whose agent has heard something; what ps says of it."""
    jay("run", "-d", "--name", "ada", "--agent", "talker")
    jay("send", "ada", "PLUM-4711", "--enter")
    jay.wait_for(lambda: b"heard 1" in jay("logs", "ada").stdout)
    return jay.pods()["ada"]


def _sessions(jay: Jay) -> dict[str, Any]:
    return {session["session_id"]: session for session in jay.json("sessions", "--all")}


@pytest.mark.usefixtures("up")
def test_a_killed_agent_is_resumed_at_once_with_the_environment_of_who_resumes_it(talking: Jay) -> None:
    old = _talk(talking)
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


@pytest.mark.usefixtures("up")
def test_a_running_pod_is_not_resumed_and_a_failed_start_gives_the_session_back(talking: Jay) -> None:
    old = _talk(talking)
    assert "is held by ada" in talking.error("resume", "ada", "-d", code=1)
    talking("stop", "ada")
    talking.wait_for(lambda: _sessions(talking)[old["session"]]["state"] == "suspended")
    program = talking.work / "bin" / "talker"
    program.rename(program.with_name("elsewhere"))

    assert "talker" in talking.error("resume", "ada", "-d", code=1)

    session = _sessions(talking)[old["session"]]
    assert (session["state"], session["why"]) == ("suspended", "exited 143")
    program.with_name("elsewhere").rename(program)
    assert talking.json("resume", "ada", "-d")["session"] == old["session"]


@pytest.mark.usefixtures("up")
def test_a_finished_session_is_gone_on_with_only_if_it_is_reopened(talking: Jay) -> None:
    old = _talk(talking)
    talking("stop", "ada")
    talking.wait_for(lambda: _sessions(talking)[old["session"]]["state"] == "suspended")
    talking("sessions", "finish", old["session"])

    assert "is finished" in talking.error("resume", "ada", "-d", code=1)

    assert talking.json("resume", "ada", "-d", "--reopen")["session"] == old["session"]


@pytest.mark.usefixtures("up")
def test_r20_of_many_command_lines_one_resumes_and_the_others_hear_who_has_it(talking: Jay) -> None:
    for _ in range(3):
        old = talking.pods().get("ada") or _talk(talking)
        os.kill(talking.pods()["ada"]["agent_pid"], signal.SIGKILL)
        racing = [
            subprocess.Popen(
                [*talking.argv, "resume", "ada", "-d"],
                cwd=talking.work,
                env=talking.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(4)
        ]
        said = [racer.communicate(timeout=60) for racer in racing]
        codes = sorted(racer.returncode for racer in racing)

        assert codes == [0, 1, 1, 1], said
        living = [pod for pod in talking.json("ps", "--all") if pod["state"] == "running"]
        assert [pod["session"] for pod in living] == [old["session"]]
        for out, err in said:
            assert out == b"ada\n" or b"held by" in err, err


def test_all_recordings_of_a_session_are_brought_from_a_server_elsewhere(talking: Jay, up: Up) -> None:
    old = _talk(talking)
    talking("stop", "ada")
    talking.wait_for(lambda: _sessions(talking)[old["session"]]["state"] == "suspended")
    new = talking.json("resume", "ada", "-d")
    talking.wait_for(lambda: b"goes on after 1" in talking("logs", new["id"]).stdout)
    token = talking("token", "create", "--role", "operator").stdout.decode().split()[-1]
    talking.env |= {"SCRUBJAY_TOKEN": token, "XDG_CACHE_HOME": str(talking.work / "cache")}

    path = talking.work / "all.txt"
    talking("--server", up.url, "export", old["session"], "--from", "0s", "--output", str(path), "--format", "txt")

    text = path.read_text()
    assert text.index("heard 1: PLUM-4711") < text.index("goes on after 1: PLUM-4711")
