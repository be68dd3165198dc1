"""Run, attach and detach in a real terminal."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.cli import Cli

_DETACH = b"\x1c\x1c"


def test_the_terminal_becomes_the_programs_and_the_exit_status_too(cli: Cli) -> None:
    with cli.terminal("run", "--name", "shell", "--", "sh", "-c", 'read -r x; echo "got $x"; exit 7') as terminal:
        terminal.type(b"hello\r")
        terminal.read_until(b"got hello")

        assert terminal.wait() == 7
    assert cli.wait_until_ended("shell")["status"] == 7


def test_detaching_leaves_the_program_running_and_attaching_comes_back(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"first\r")
        terminal.read_until(b"first\r\nfirst")
        terminal.type(_DETACH)
        terminal.read_until(b"left pod cat running")
        assert terminal.wait() == 0
    with cli.terminal("attach", "cat") as terminal:
        terminal.read_until(b"first\r\nfirst")
        terminal.type(b"second\r")
        terminal.read_until(b"second\r\nsecond")
        terminal.type(b"\x04")
        terminal.read_until(b"ended with 0")
        assert terminal.wait() == 0


def test_closing_the_terminal_leaves_the_program_running(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        agent = cli.pods()["cat"]["agent_pid"]
        terminal.hang_up()

    os.kill(agent, 0)
    assert cli.pods()["cat"]["state"] == "running"


def test_killing_the_attached_command_leaves_the_program_running(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        os.kill(terminal.pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)
        terminal.pid = 0

    cli("send", "cat", "still there", "--enter")
    cli.wait_for(lambda: cli("logs", "cat").stdout.count(b"still there") == 2)


def test_the_window_size_follows(cli: Cli) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    with cli.terminal("run", "--name", "size", "--", "bash", "-c", script, cols=101, rows=33) as terminal:
        terminal.read_until(b"33 101")
        terminal.resize(77, 22)
        terminal.read_until(b"22 77")

    assert b'"cols": 77, "rows": 22' in cli("export", "size", "--format", "jsonl").stdout


def test_attaching_makes_a_full_screen_program_draw_itself_again(cli: Cli) -> None:
    script = "trap 'echo drawn again' WINCH; echo ready; while :; do sleep 0.05; done"
    cli("run", "-d", "--name", "tui", "--cols", "90", "--rows", "30", "--", "bash", "-c", script)
    cli.wait_for(lambda: b"ready" in cli("logs", "tui").stdout)
    with cli.terminal("attach", "tui", cols=90, rows=30) as terminal:
        terminal.read_until(b"drawn again")


def test_leaving_puts_the_terminal_back(cli: Cli) -> None:
    script = r"printf '\033[?1049h\033[?1003h\033[?2004h\033[?25l\033[>5uready'; sleep 60"
    with cli.terminal("run", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        terminal.type(_DETACH)
        terminal.wait()

        left = terminal.seen.partition(b"ready")[2]
        for sequence in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h", b"\x1b[<99u"):
            assert sequence in left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ending_the_attached_command_puts_the_terminal_back_and_leaves_the_program_running(
    cli: Cli, number: signal.Signals
) -> None:
    script = r"printf '\033[?1049h\033[?1003hready'; exec cat"
    with cli.terminal("run", "--name", "cat", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        os.kill(terminal.pid, number)
        terminal.read_until(b"\x1b[?1003l")
        terminal.read_until(b"\x1b[?1049l")
        terminal.read_until(b"left pod cat running")

        assert terminal.wait() == 0
    assert cli.pods()["cat"]["state"] == "running"


def test_a_late_viewer_does_not_answer_old_queries(cli: Cli) -> None:
    cli("run", "-d", "--name", "asks", "--", "bash", "-c", r"printf '\033[6n\033[c'; echo asked; cat")
    cli.wait_for(lambda: b"asked" in cli("logs", "asks").stdout)
    with cli.terminal("attach", "asks") as terminal:
        shown = terminal.read_until(b"asked")

    assert b"\x1b[6n" not in shown
    assert b"\x1b[c" not in shown


def test_without_a_terminal_input_is_passed_on_and_ends(cli: Cli) -> None:
    done = cli("run", "--name", "piped", "--", "cat", stdin=b"hello\n")

    assert done.stdout.count(b"hello") == 2


def test_one_keystroke_of_the_detach_key_reaches_the_program(cli: Cli) -> None:
    script = "trap 'echo quit heard' QUIT; echo ready; while :; do sleep 0.05; done"
    with cli.terminal("run", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1c")
        terminal.read_until(b"quit heard")


def test_a_pod_whose_keeper_dies_is_reported_to_whoever_is_attached(cli: Cli) -> None:
    with cli.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        os.kill(cli.pods()["cat"]["keeper_pid"], signal.SIGKILL)
        terminal.read_until(b"was lost")

        assert terminal.wait() == 1
    assert cli.pods()["cat"]["description"] == "lost: keeper killed"
