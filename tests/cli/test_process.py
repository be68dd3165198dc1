"""What only a process shows: how it exits, what its streams and signals do, and what it leaves to others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S

_SCRIPTS = Path(sys.executable).parent
_SECRET = "sjt_aaaaaaaaaaaa_" + "b" * 52


def test_it_exits_with_0_1_or_2_and_an_error_is_one_line(cli: Cli) -> None:
    good = cli.process("ps", "--json")
    failed = cli.process("logs", "nobody", code=1)
    wrong = cli.process("fly", code=2)

    assert (good.stdout, good.stderr) == (b"[]\n", b"")
    assert (failed.stdout, wrong.stdout) == (b"", b"")
    assert failed.stderr == b"scrubjay: there is no pod 'nobody'; 'scrubjay ps --all' lists them\n"
    assert wrong.stderr == b"scrubjay: No such command 'fly'; see 'scrubjay --help'\n"


def test_both_scripts_are_the_same_program_and_call_it_as_it_was_called(cli: Cli) -> None:
    for name in ("scrubjay", "jay"):
        cli.argv = [str(_SCRIPTS / name)]

        assert cli.process("fly", code=2).stderr.endswith(f"see '{name} --help'\n".encode())


def test_input_is_passed_on_and_ends(cli: Cli) -> None:
    done = cli.process("run", "--name", "piped", "--", "cat", stdin=b"hello\n")

    assert done.stdout.count(b"hello") == 2


def test_a_pipe_whose_reader_has_seen_enough_is_no_error_to_speak_of(cli: Cli) -> None:
    events = [[second, "o", "x" * 100_000] for second in range(20)]  # more than a pipe holds
    lines = [{"version": 2, "width": 80, "height": 24}, *events]
    (cli.work / "long.cast").write_text("\n".join(map(json.dumps, lines)))
    cli("import", "long.cast")

    with _started(cli, "export", "long", "--format", "raw") as command:
        assert command.stdout is not None
        assert command.stdout.read(1) == b"x"
        command.stdout.close()
        assert command.stderr is not None
        assert (command.stderr.read(), command.wait(DEADLINE_S)) == (b"", 1)


def test_ctrl_c_ends_it_with_130_and_without_a_word(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sh", "-c", "echo ready; exec sleep 60")

    with _started(cli, "logs", "-f", "nap") as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"ready\n"
        command.send_signal(signal.SIGINT)
        _, complaint = command.communicate(timeout=DEADLINE_S)

    assert (command.returncode, complaint.strip()) == (130, b"")
    assert cli.pods()["nap"]["state"] == "running"


def test_what_a_command_starts_does_not_inherit_its_token(cli: Cli) -> None:
    cli.env["SCRUBJAY_TOKEN"] = _SECRET
    cli.process("run", "-d", "--name", "nap", "--", "sleep", "60")

    pod = cli.pods()["nap"]
    started = {what: Path(f"/proc/{pod[what]}/environ").read_bytes() for what in ("keeper_pid", "agent_pid")}
    assert [what for what, environ in started.items() if _SECRET.encode() in environ] == []


def _started(cli: Cli, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*cli.argv, *words],
        cwd=cli.work,
        env={**cli.env, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
