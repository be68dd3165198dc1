"""The doctor finds what is wrong, says what to do, and repairs what it may."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Jay
from scrubjay.agents.library import Library
from scrubjay.cli.doctor.programs import is_safe_for_wal

_SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def own_port(jay: Jay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        jay.env["SCRUBJAY_PORT"] = str(listener.getsockname()[1])


def _examine(jay: Jay, *args: str, code: int = 0) -> dict[str, Any]:
    """Each finding by what was looked at."""
    report = jay.json("doctor", *args, code=code)
    found = {finding["check"]: finding for finding in report["findings"]}
    assert len(found) == len(report["findings"])
    assert all((finding["remedy"] is None) == (finding["verdict"] == "ok") for finding in found.values())
    verdicts = [finding["verdict"] for finding in found.values()]
    assert (report["problems"], report["warnings"]) == (verdicts.count("problem"), verdicts.count("warning"))
    return found


def _program(jay: Jay, name: str, script: str) -> None:
    """Put a program on the PATH."""
    folder = jay.work / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    if not jay.env["PATH"].startswith(str(folder)):
        jay.env["PATH"] = f"{folder}:{jay.env['PATH']}"


def test_a_healthy_machine_has_no_problem_and_is_told_so_quickly(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    began = time.monotonic()
    found = _examine(jay)

    assert time.monotonic() - began < 5  # mostly 0.6 s; two cores may be busy
    assert found["pods"]["says"] == "1 running, 1 in all"
    assert found["terminal engine"]["says"].startswith("pyghostty")
    assert found["data directory"]["says"] == f"{jay.data}, mode 0700"
    assert {"scrubjay", "python", "git", "SQLite", "port", "terminals", "open files", "clock", "disk"} <= set(found)
    assert b"no problems" in jay("doctor").stderr


def test_without_a_data_directory_nothing_is_wrong_and_none_is_made(jay: Jay) -> None:
    assert "is made when the first pod starts" in _examine(jay)["data directory"]["says"]
    assert not jay.data.exists()


def test_what_others_can_read_is_named_and_repaired_when_asked(jay: Jay) -> None:
    pod = jay.json("run", "-d", "--name", "one", "--", "true")
    jay.wait_until_ended("one")
    leak = jay.data / "pods" / pod["id"] / "pod.json"
    leak.chmod(0o644)
    jay.data.chmod(0o755)

    found = _examine(jay, code=1)
    assert found["permissions"]["verdict"] == "problem"
    assert f"pods/{pod['id']}/pod.json" in found["permissions"]["says"]
    assert "mode 0755" in found["data directory"]["says"]
    assert leak.stat().st_mode & 0o777 == 0o644  # looking changes nothing

    _examine(jay, "--fix")
    assert leak.stat().st_mode & 0o777 == 0o600
    assert jay.data.stat().st_mode & 0o777 == 0o700
    assert _examine(jay)["permissions"]["verdict"] == "ok"


def test_a_link_out_of_the_directory_is_left_alone(jay: Jay, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "elsewhere").chmod(0o644)
    jay.data.mkdir(mode=0o700)
    (jay.data / "link").symlink_to(tmp_path / "elsewhere")

    _examine(jay, "--fix")
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o644


def test_a_data_directory_that_is_a_file_is_a_problem_and_the_rest_is_looked_at(jay: Jay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    jay.env["SCRUBJAY_DATA"] = str(tmp_path / "file")
    found = _examine(jay, code=1)
    jay.env["SCRUBJAY_DATA"] = str(jay.data)

    assert "is not a directory" in found["data directory"]["says"]
    assert "--data" in found["data directory"]["remedy"]
    assert found["git"]["verdict"] == "ok"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no directory in memory")
def test_a_directory_in_memory_is_warned_of(jay: Jay) -> None:
    jay.env["SCRUBJAY_DATA"] = f"/dev/shm/scrubjay-test-{os.getpid()}"
    found = _examine(jay)
    jay.env["SCRUBJAY_DATA"] = str(jay.data)

    assert "tmpfs is memory" in found["file system"]["says"]


def test_a_lost_pod_and_its_socket_are_noticed_until_it_is_sealed(jay: Jay) -> None:
    jay("run", "-d", "--name", "lost", "--", "sleep", "60")
    pod = jay.pods()["lost"]
    os.kill(pod["keeper_pid"], signal.SIGKILL)
    jay.wait_for(lambda: jay.pods()["lost"]["state"] == "lost")

    found = _examine(jay)
    assert found["pods"]["says"] == "lost their keeper: lost"
    assert found["sockets"]["verdict"] == "warning"

    _examine(jay, "--fix")
    jay("seal", "lost")
    found = _examine(jay)
    assert (found["pods"]["verdict"], found["sockets"]["verdict"]) == ("ok", "ok")


def test_fixing_leaves_the_sockets_of_the_living_alone(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    _examine(jay, "--fix")

    jay("mark", "nap", "still reachable")


def test_a_port_somebody_else_has_is_a_problem_that_names_them(jay: Jay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        jay.env["SCRUBJAY_PORT"] = str(listener.getsockname()[1])
        port = _examine(jay, code=1)["port"]

    assert f"taken by process {os.getpid()}" in port["says"]
    assert "SCRUBJAY_PORT" in port["remedy"]


def test_a_port_our_own_server_has_is_fine(jay: Jay) -> None:
    with subprocess.Popen(
        [*jay.argv, "up"], cwd=jay.work, env=jay.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        assert b"/login" in server.stdout.readline()
        found = _examine(jay)
        server.kill()

    assert f"is served by Scrubjay (process {server.pid})" in found["port"]["says"]
    assert found["permissions"]["verdict"] == "ok"
    assert found["sockets"]["verdict"] == "ok"
    assert _examine(jay)["sockets"]["verdict"] == "warning"
    assert "1 that dead processes left" in _examine(jay, "--fix")["sockets"]["says"]


def test_an_address_of_another_machine_is_a_problem_and_an_open_one_wants_tls(jay: Jay) -> None:
    jay.env["SCRUBJAY_HOST"] = "192.0.2.1"
    assert "is not of this machine" in _examine(jay, code=1)["port"]["says"]

    jay.env["SCRUBJAY_HOST"] = "0.0.0.0"
    assert _examine(jay)["TLS"]["verdict"] == "warning"


def test_a_certificate_that_is_not_there_is_a_problem_and_an_open_key_a_warning(jay: Jay) -> None:
    (jay.work / "key.pem").write_text("")
    (jay.work / "key.pem").chmod(0o644)
    jay.env |= {"SCRUBJAY_TLS_CERT": str(jay.work / "cert.pem"), "SCRUBJAY_TLS_KEY": str(jay.work / "key.pem")}

    found = _examine(jay, code=1)
    assert (found["tls_cert"]["verdict"], found["tls_key"]["verdict"]) == ("problem", "warning")


def test_agents_are_asked_for_their_version_all_at_once_and_without_a_terminal(jay: Jay) -> None:
    _program(jay, "claude", 'test -t 0 || test "$(cat)" || echo "2.1.9 (Claude Code)"')
    _program(jay, "codex", "sleep 60 & echo asking...; wait")
    _program(jay, "gemini", "sleep 60")
    _program(jay, "aider", "echo broken; exit 3")
    began = time.monotonic()
    found = _examine(jay)

    assert time.monotonic() - began < 9
    assert found["claude"] == {
        "check": "claude",
        "verdict": "ok",
        "says": f"2.1.9 ({jay.work}/bin/claude)",
        "remedy": None,
    }
    assert "did not answer within 5 s" in found["codex"]["says"]
    assert "did not answer within 5 s" in found["gemini"]["says"]
    assert "says no version (exit 3)" in found["aider"]["says"]
    assert "agents" not in found


def test_without_agents_that_is_said(jay: Jay) -> None:
    found = _examine(jay)

    if not set(Library(None).names()) & set(found):
        assert "any other program will do" in found["agents"]["says"]


@pytest.mark.parametrize(("said", "verdict"), [("git version 2.20.1", "warning"), ("git version 2.45.0.rc1", "ok")])
def test_git_must_be_new_enough_for_worktrees(jay: Jay, said: str, verdict: str) -> None:
    _program(jay, "git", f"echo {said}")

    assert _examine(jay)["git"]["verdict"] == verdict


def test_a_user_manager_that_ends_at_logout_is_warned_of(jay: Jay) -> None:
    _program(jay, "systemctl", 'test "$*" = "--user is-system-running" && echo running')
    systemd = _examine(jay)["systemd"]

    assert systemd["remedy"] in (None, "loginctl enable-linger")
    assert "no user manager" not in systemd["says"]


@pytest.mark.parametrize(
    ("version", "safe"),
    [("3.6.23", True), ("3.7.0", False), ("3.40.1", False), ("3.51.2", False), ("3.51.3", True), ("3.53.4", True)],
)
def test_a_sqlite_with_the_wal_reset_bug_is_not_safe(version: str, *, safe: bool) -> None:
    assert is_safe_for_wal(version) is safe


def test_settings_that_cannot_be_used_are_a_finding_here_and_not_the_end(jay: Jay) -> None:
    config = jay.work / "config.toml"
    config.write_text("prot = 1\n")
    jay.env["SCRUBJAY_CONFIG"] = str(config)
    found = _examine(jay, code=1)
    refused = jay.error("ps", code=2)
    del jay.env["SCRUBJAY_CONFIG"]

    assert found["settings"]["says"].startswith(f"there is no setting 'prot', which {config} has")
    assert found["settings"]["remedy"] == "did you mean port?"
    assert str(config) in refused


def test_notification_urls_are_counted_and_never_shown(jay: Jay) -> None:
    config = jay.work / "config.toml"
    config.write_text(f'notify_urls = ["json://{_SECRET}@localhost", "ntfy://{_SECRET}"]\n')
    config.chmod(0o644)
    done = jay("--config", str(config), "doctor")

    assert b"to 2 places" in done.stdout
    assert f"chmod 600 {config}" in done.stdout.decode()
    assert _SECRET not in (done.stdout + done.stderr).decode()
