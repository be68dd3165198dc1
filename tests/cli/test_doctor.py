"""The doctor finds what is wrong, says what to do, and repairs what it may."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from scrubjay.agents.library import Library
from scrubjay.cli.doctor import programs
from scrubjay.cli.doctor.programs import is_safe_for_wal
from scrubjay.replay.workers import Workers
from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S
from tests.support.up_process import UpProcess

_SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def own_port(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cli.env["SCRUBJAY_PORT"] = str(listener.getsockname()[1])


def _examine(cli: Cli, *args: str, code: int = 0, start_engine: bool = False) -> dict[str, Any]:
    """Each finding by what was looked at; one start of the engine is enough for all tests."""
    with nullcontext() if start_engine else patch.object(Workers, "identity", "not started"):
        report = cli.json("doctor", *args, code=code)
    found = {finding["check"]: finding for finding in report["findings"]}
    assert len(found) == len(report["findings"])
    assert all((finding["remedy"] is None) == (finding["verdict"] == "ok") for finding in found.values())
    verdicts = [finding["verdict"] for finding in found.values()]
    assert (report["problems"], report["warnings"]) == (verdicts.count("problem"), verdicts.count("warning"))
    return found


def _program(cli: Cli, name: str, script: str) -> None:
    """Put a program on the PATH."""
    folder = cli.work / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    if not cli.env["PATH"].startswith(str(folder)):
        cli.env["PATH"] = f"{folder}:{cli.env['PATH']}"


def test_a_healthy_machine_has_no_problem(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")

    found = _examine(cli, start_engine=True)

    assert found["pods"]["says"] == "1 running, 1 in all"
    assert found["terminal engine"]["says"].startswith("pyghostty")
    assert found["data directory"]["says"] == f"{cli.data}, mode 0700"
    assert {"scrubjay", "python", "git", "SQLite", "port", "terminals", "open files", "clock", "disk"} <= set(found)


def test_without_a_data_directory_nothing_is_wrong_and_none_is_made(cli: Cli) -> None:
    assert "is made when the first pod starts" in _examine(cli)["data directory"]["says"]
    assert not cli.data.exists()


def test_what_others_can_read_is_named_and_repaired_when_asked(cli: Cli) -> None:
    pod = cli.json("run", "-d", "--name", "one", "--", "true")
    cli.wait_until_ended("one")
    leak = cli.data / "pods" / pod["id"] / "pod.json"
    leak.chmod(0o644)
    cli.data.chmod(0o755)

    found = _examine(cli, code=1)
    assert found["permissions"]["verdict"] == "problem"
    assert f"pods/{pod['id']}/pod.json" in found["permissions"]["says"]
    assert "mode 0755" in found["data directory"]["says"]
    assert leak.stat().st_mode & 0o777 == 0o644  # looking changes nothing

    _examine(cli, "--fix")
    assert leak.stat().st_mode & 0o777 == 0o600
    assert cli.data.stat().st_mode & 0o777 == 0o700
    assert _examine(cli)["permissions"]["verdict"] == "ok"


def test_a_link_out_of_the_directory_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "elsewhere").chmod(0o644)
    cli.data.mkdir(mode=0o700)
    (cli.data / "link").symlink_to(tmp_path / "elsewhere")

    _examine(cli, "--fix")
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o644


def test_a_data_directory_that_is_a_file_is_a_problem_and_the_rest_is_looked_at(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cli.env["SCRUBJAY_DATA"] = str(tmp_path / "file")
    found = _examine(cli, code=1)
    cli.env["SCRUBJAY_DATA"] = str(cli.data)

    assert "is not a directory" in found["data directory"]["says"]
    assert "--data" in found["data directory"]["remedy"]
    assert found["git"]["verdict"] == "ok"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no directory in memory")
def test_a_directory_in_memory_is_warned_of(cli: Cli) -> None:
    cli.env["SCRUBJAY_DATA"] = f"/dev/shm/scrubjay-test-{os.getpid()}"
    found = _examine(cli)
    cli.env["SCRUBJAY_DATA"] = str(cli.data)

    assert "tmpfs is memory" in found["file system"]["says"]


def test_a_lost_pod_and_its_socket_are_noticed_until_it_is_sealed(cli: Cli) -> None:
    cli("run", "-d", "--name", "lost", "--", "sleep", "60")
    pod = cli.pods()["lost"]
    os.kill(pod["keeper_pid"], signal.SIGKILL)
    cli.wait_for(lambda: cli.pods()["lost"]["state"] == "lost")

    found = _examine(cli)
    assert found["pods"]["says"] == "lost their keeper: lost"
    assert found["sockets"]["verdict"] == "warning"

    _examine(cli, "--fix")
    cli("seal", "lost")
    found = _examine(cli)
    assert (found["pods"]["verdict"], found["sockets"]["verdict"]) == ("ok", "ok")


def test_fixing_leaves_the_sockets_of_the_living_alone(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")
    _examine(cli, "--fix")

    cli("mark", "nap", "still reachable")


def test_a_port_somebody_else_has_is_a_problem_that_names_them(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cli.env["SCRUBJAY_PORT"] = str(listener.getsockname()[1])
        port = _examine(cli, code=1)["port"]

    assert f"taken by process {os.getpid()}" in port["says"]
    assert "SCRUBJAY_PORT" in port["remedy"]


def test_a_port_our_own_server_has_is_fine(served: UpProcess) -> None:
    served.cli.env["SCRUBJAY_PORT"] = served.url.rpartition(":")[2]
    found = _examine(served.cli)

    assert f"is served by Scrubjay (process {served.pid})" in found["port"]["says"]
    assert found["permissions"]["verdict"] == "ok"
    assert found["sockets"]["verdict"] == "ok"


def test_a_socket_that_a_dead_server_left_is_noticed_and_removed_when_asked(cli: Cli) -> None:
    cli.data.mkdir(mode=0o700)
    left = cli.data / "server.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(left))
        server.listen()
        left.chmod(0o600)

    assert _examine(cli)["sockets"]["verdict"] == "warning"
    assert "1 that dead processes left" in _examine(cli, "--fix")["sockets"]["says"]
    assert not left.exists()


def test_an_address_of_another_machine_is_a_problem_and_an_open_one_wants_tls(cli: Cli) -> None:
    cli.env["SCRUBJAY_HOST"] = "192.0.2.1"
    assert "is not of this machine" in _examine(cli, code=1)["port"]["says"]

    cli.env["SCRUBJAY_HOST"] = "0.0.0.0"
    assert _examine(cli)["TLS"]["verdict"] == "warning"


def test_a_certificate_that_is_not_there_is_a_problem_and_an_open_key_a_warning(cli: Cli) -> None:
    (cli.work / "key.pem").write_text("")
    (cli.work / "key.pem").chmod(0o644)
    cli.env |= {"SCRUBJAY_TLS_CERT": str(cli.work / "cert.pem"), "SCRUBJAY_TLS_KEY": str(cli.work / "key.pem")}

    found = _examine(cli, code=1)
    assert (found["tls_cert"]["verdict"], found["tls_key"]["verdict"]) == ("problem", "warning")


def test_agents_are_asked_for_their_version_all_at_once_and_without_a_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_AGENT_WITHIN_S", DEADLINE_S)
    _program(cli, "claude", 'test -t 0 || test "$(cat)" || echo "2.1.9 (Claude Code)"')
    for name, other in (("codex", "gemini"), ("gemini", "codex")):  # each answers while the other is asked
        meet = f"touch {cli.work}/{name}; until test -e {cli.work}/{other}; do sleep 0.01; done"
        _program(cli, name, f"{meet}; echo 1.2.3")
    _program(cli, "aider", "echo broken; exit 3")

    found = _examine(cli)

    assert found["claude"] == {
        "check": "claude",
        "verdict": "ok",
        "says": f"2.1.9 ({cli.work}/bin/claude)",
        "remedy": None,
    }
    assert [found[name]["verdict"] for name in ("codex", "gemini")] == ["ok", "ok"]
    assert "says no version (exit 3)" in found["aider"]["says"]
    assert "agents" not in found


def test_an_agent_that_does_not_answer_is_left_behind(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_AGENT_WITHIN_S", 0.2)
    _program(cli, "codex", "sleep 60 & echo asking...; wait")
    _program(cli, "gemini", "sleep 60")

    found = _examine(cli)

    assert "did not answer within 0.2 s" in found["codex"]["says"]
    assert "did not answer within 0.2 s" in found["gemini"]["says"]


def test_without_agents_that_is_said(cli: Cli) -> None:
    found = _examine(cli)

    if not set(Library(None).names()) & set(found):
        assert "any other program will do" in found["agents"]["says"]


def test_git_must_be_new_enough_for_worktrees(cli: Cli) -> None:
    for version, verdict in (("2.20.1", "warning"), ("2.45.0.rc1", "ok")):
        _program(cli, "git", f"echo git version {version}")

        assert _examine(cli)["git"]["verdict"] == verdict, version


def test_a_user_manager_that_ends_at_logout_is_warned_of(cli: Cli) -> None:
    _program(cli, "systemctl", 'test "$*" = "--user is-system-running" && echo running')
    systemd = _examine(cli)["systemd"]

    assert systemd["remedy"] in (None, "loginctl enable-linger")
    assert "no user manager" not in systemd["says"]


def test_a_sqlite_with_the_wal_reset_bug_is_not_safe() -> None:
    versions = ("3.6.23", "3.7.0", "3.40.1", "3.51.2", "3.51.3", "3.53.4")

    assert [version for version in versions if is_safe_for_wal(version)] == ["3.6.23", "3.51.3", "3.53.4"]


def test_settings_that_cannot_be_used_are_a_finding_here_and_not_the_end(cli: Cli) -> None:
    config = cli.work / "config.toml"
    config.write_text("prot = 1\n")
    cli.env["SCRUBJAY_CONFIG"] = str(config)
    found = _examine(cli, code=1)
    refused = cli.error("ps", code=2)
    del cli.env["SCRUBJAY_CONFIG"]

    assert found["settings"]["says"].startswith(f"there is no setting 'prot', which {config} has")
    assert found["settings"]["remedy"] == "did you mean port?"
    assert str(config) in refused


def test_notification_urls_are_counted_and_never_shown(cli: Cli) -> None:
    config = cli.work / "config.toml"
    config.write_text(f'notify_urls = ["json://{_SECRET}@localhost", "ntfy://{_SECRET}"]\n')
    config.chmod(0o644)
    done = cli("--config", str(config), "doctor")

    assert b"no problems" in done.stderr
    assert b"to 2 places" in done.stdout
    assert f"chmod 600 {config}" in done.stdout.decode()
    assert _SECRET not in (done.stdout + done.stderr).decode()
