"""A person's terminal is served by the keeper itself, and only for as long as it is that person's."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

from scrubjay.settings import user_name
from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S
from tests.support.processes import descriptors_of
from tests.support.terminal import Terminal
from tests.support.tiers import sized

_DETACH = b"\x1c\x1c"
_LINES = 200_000


def _terminals(pid: int) -> list[str]:
    """The terminals a process has open, but for its agent's."""
    return [link for link in descriptors_of(pid).values() if link.startswith("/dev/pts/") and "ptmx" not in link]


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _typed(cli: Cli, name: str) -> list[tuple[str, str]]:
    """Author and text of everything typed into a pod."""
    records = [json.loads(line) for line in cli("export", name, "--format", "jsonl").stdout.splitlines()]
    return [(record["author"], record["text"]) for record in records if record["kind"] == "input"]


def _wait_until_ended(cli: Cli, name: str) -> None:
    cli.wait_for(lambda: cli.pods().get(name, {}).get("state") == "exited")


def _all_lines() -> bytes:
    return b"".join(b"%d\r\n" % number for number in range(1, _LINES + 1))


def test_the_keeper_takes_the_terminal_and_gives_it_back(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        keeper = cli.pods()["cat"]["keeper_pid"]
        own = os.readlink(f"/proc/{terminal.pid}/fd/0")
        assert own in _terminals(keeper)

        terminal.type(_DETACH)
        terminal.wait()
        cli.wait_for(lambda: own not in _terminals(keeper))


def test_a_key_is_on_the_tape_with_its_author(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "sh", "-c", "echo ready; cat") as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"by hand\r")
        terminal.read_until(b"by hand\r\nby hand")

    typed = _typed(cli, "cat")
    assert "".join(text for _, text in typed) == "by hand\r"
    assert {author for author, _ in typed} == {f"person:{user_name()}"}


def test_a_stopped_command_leaves_keys_and_screen_to_the_shell(cli: Cli) -> None:
    shell = Terminal(["bash", "--norc", "--noprofile", "-i"], cli.env | {"PS1": "shell> "})
    with shell:
        shell.read_until(b"shell> ")
        shell.type(shlex.join([*cli.argv, "run", "--name", "cat", "--", "cat"]).encode() + b"\r")
        cli.wait_for(lambda: "cat" in cli.pods())
        shell.type(b"mine\r")
        shell.read_until(b"mine\r\nmine")
        os.kill(_child(shell.pid), signal.SIGSTOP)
        shell.read_until(b"Stopped")
        shell.read_until(b"shell> ")
        time.sleep(1.1)  # for a second the keeper trusts what it saw when it last looked who has the terminal
        cli("send", "cat", "behind the shell", "--enter")
        cli.wait_for(lambda: cli("logs", "cat").stdout.count(b"behind the shell") == 2)

        shell.type(b"echo for the $((40+2))nd shell\r")
        shown = shell.read_until(b"for the 42nd shell")
        assert b"behind the shell" not in shown

        shell.type(b"fg\r")
        shell.read_until(b"behind the shell\r\nbehind the shell")
        shell.type(b"mine again\r")
        shell.read_until(b"mine again\r\nmine again")
        shell.type(b"\x04")
        shell.read_until(b"ended with 0")

    assert "for the" not in "".join(text for _, text in _typed(cli, "cat"))


def test_a_terminal_that_is_slow_shows_everything_after_the_end_too(cli: Cli) -> None:
    with cli.terminal("run", "--name", "lines", "--", "seq", str(_LINES)) as terminal:
        _wait_until_ended(cli, "lines")
        terminal.read_until(b"ended with 0")

        assert terminal.wait() == 0
        assert terminal.seen.startswith(_all_lines())


def test_what_is_relayed_to_a_slow_pipe_is_complete_too(cli: Cli) -> None:
    command = subprocess.Popen(
        [*cli.argv, "run", "--name", "lines", "--", "seq", str(_LINES)],
        cwd=cli.work,
        env=cli.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    _wait_until_ended(cli, "lines")
    shown, _ = command.communicate(timeout=DEADLINE_S)

    assert command.returncode == 0
    assert shown.endswith(_all_lines())


def test_who_has_seen_enough_after_the_end_need_not_see_the_rest(cli: Cli) -> None:
    with cli.terminal("run", "--name", "lines", "--", "seq", str(_LINES)) as terminal:
        _wait_until_ended(cli, "lines")
        terminal.type(b"\x03")
        terminal.read_until(b"ended with 0")

        assert terminal.wait() == 0
        assert not terminal.seen.startswith(_all_lines())


def test_a_terminal_whose_output_goes_elsewhere_is_relayed(cli: Cli) -> None:
    command = shlex.join([*cli.argv, "run", "--name", "cat", "--", "cat"]) + " | sed -u 's/^/piped: /'"
    with Terminal(["bash", "-c", command], cli.env) as terminal:
        cli.wait_for(lambda: "cat" in cli.pods())
        terminal.type(b"x\r")
        terminal.read_until(b"piped: x")
        assert len(_terminals(cli.pods()["cat"]["keeper_pid"])) == 1  # its agent's
        terminal.type(_DETACH)
        terminal.read_until(b"left pod cat running")


def test_a_keeper_refuses_what_is_no_terminal(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    code = (
        "import os, sys; from pathlib import Path; from scrubjay.pods.home import Home\n"
        "pod = Home(Path(sys.argv[1])).find('cat')\n"
        "with pod.connect() as keeper:\n"
        "    try: keeper.ask({'do': 'seat', 'from': 0, 'author': 'x'})\n"
        "    except Exception as refused: print(refused)\n"
    )
    done = subprocess.run(
        [cli.argv[0], "-P", "-c", code, str(cli.data)], env=cli.env, stdin=subprocess.DEVNULL, capture_output=True
    )

    assert b"cannot take your terminal" in done.stdout, done


def test_two_terminals_at_one_pod_see_the_same(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    with cli.terminal("attach", "cat") as one, cli.terminal("attach", "cat") as other:
        cli.wait_for(lambda: cli.pods()["cat"]["followers"] == 2)
        other.type(b"from the other\r")
        one.read_until(b"from the other\r\nfrom the other")
        other.read_until(b"from the other\r\nfrom the other")
        one.type(b"from the one\r")
        other.read_until(b"from the one\r\nfrom the one")
        one.type(_DETACH)
        one.read_until(b"left pod cat running")
        other.type(b"still here\r")
        other.read_until(b"still here\r\nstill here")


def test_closing_the_terminal_in_the_middle_of_output_leaves_the_program_running(cli: Cli) -> None:
    cli("run", "-d", "--name", "yes", "--", "sh", "-c", "while :; do echo y; done")
    for _ in range(sized(2, 10, 100)):
        with cli.terminal("attach", "yes") as terminal:
            terminal.read_until(b"y\r\ny\r\ny\r\n")
            terminal.hang_up()

    assert cli.pods()["yes"]["state"] == "running"


def test_a_client_that_leaves_without_waiting_for_the_answer_hurts_nobody(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    code = (
        "import sys; from pathlib import Path; from scrubjay.pods.home import Home\n"
        "with Home(Path(sys.argv[1])).find('cat').connect() as keeper:\n"
        "    keeper.send({'do': 'seat', 'from': 0, 'author': 'x'})\n"
        "    keeper.ask({'do': 'status'})\n"
        "    keeper.send({'do': 'leave'})\n"
    )
    for _ in range(sized(2, 10, 100)):
        with Terminal([cli.argv[0], "-P", "-c", code, str(cli.data)], cli.env) as terminal:
            assert terminal.wait() == 0

    assert cli.pods()["cat"]["state"] == "running"
