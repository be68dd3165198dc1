"""Run, attach and detach in a real terminal."""

from __future__ import annotations

import os
import signal

import pytest

from cli.conftest import Jay

_DETACH = b"\x1c\x1c"


def test_the_terminal_becomes_the_programs_and_the_exit_status_too(jay: Jay) -> None:
    with jay.terminal("run", "--name", "shell", "--", "sh", "-c", 'read -r x; echo "got $x"; exit 7') as terminal:
        terminal.type(b"hello\r")
        terminal.read_until(b"got hello")

        assert terminal.wait() == 7
    assert jay.wait_until_ended("shell")["status"] == 7


def test_detaching_leaves_the_program_running_and_attaching_comes_back(jay: Jay) -> None:
    with jay.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"first\r")
        terminal.read_until(b"first\r\nfirst")
        terminal.type(_DETACH)
        terminal.read_until(b"left pod cat running")
        assert terminal.wait() == 0
    with jay.terminal("attach", "cat") as terminal:
        terminal.read_until(b"first\r\nfirst")
        terminal.type(b"second\r")
        terminal.read_until(b"second\r\nsecond")
        terminal.type(b"\x04")
        terminal.read_until(b"ended with 0")
        assert terminal.wait() == 0


def test_closing_the_terminal_leaves_the_program_running(jay: Jay) -> None:
    with jay.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        agent = jay.pods()["cat"]["agent_pid"]
        terminal.hang_up()

    os.kill(agent, 0)
    assert jay.pods()["cat"]["state"] == "running"


def test_killing_the_attached_command_leaves_the_program_running(jay: Jay) -> None:
    with jay.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        os.kill(terminal.pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)
        terminal.pid = 0

    jay("send", "cat", "still there", "--enter")
    jay.wait_for(lambda: jay("logs", "cat").stdout.count(b"still there") == 2)


def test_the_window_size_follows(jay: Jay) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    with jay.terminal("run", "--name", "size", "--", "bash", "-c", script, cols=101, rows=33) as terminal:
        terminal.read_until(b"33 101")
        terminal.resize(77, 22)
        terminal.read_until(b"22 77")

    assert b'"cols": 77, "rows": 22' in jay("export", "size", "--format", "jsonl").stdout


def test_attaching_makes_a_full_screen_program_draw_itself_again(jay: Jay) -> None:
    script = "trap 'echo drawn again' WINCH; echo ready; while :; do sleep 0.05; done"
    jay("run", "-d", "--name", "tui", "--cols", "90", "--rows", "30", "--", "bash", "-c", script)
    jay.wait_for(lambda: b"ready" in jay("logs", "tui").stdout)
    with jay.terminal("attach", "tui", cols=90, rows=30) as terminal:
        terminal.read_until(b"drawn again")


def test_leaving_puts_the_terminal_back(jay: Jay) -> None:
    script = r"printf '\033[?1049h\033[?1003h\033[?2004h\033[?25l\033[>5uready'; sleep 60"
    with jay.terminal("run", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        terminal.type(_DETACH)
        terminal.wait()

        left = terminal.seen.partition(b"ready")[2]
        for sequence in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h", b"\x1b[<99u"):
            assert sequence in left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ending_the_attached_command_puts_the_terminal_back_and_leaves_the_program_running(
    jay: Jay, number: signal.Signals
) -> None:
    script = r"printf '\033[?1049h\033[?1003hready'; exec cat"
    with jay.terminal("run", "--name", "cat", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        os.kill(terminal.pid, number)
        terminal.read_until(b"\x1b[?1003l")
        terminal.read_until(b"\x1b[?1049l")
        terminal.read_until(b"left pod cat running")

        assert terminal.wait() == 0
    assert jay.pods()["cat"]["state"] == "running"


def test_a_late_viewer_does_not_answer_old_queries(jay: Jay) -> None:
    jay("run", "-d", "--name", "asks", "--", "bash", "-c", r"printf '\033[6n\033[c'; echo asked; cat")
    jay.wait_for(lambda: b"asked" in jay("logs", "asks").stdout)
    with jay.terminal("attach", "asks") as terminal:
        shown = terminal.read_until(b"asked")

    assert b"\x1b[6n" not in shown
    assert b"\x1b[c" not in shown


def test_without_a_terminal_input_is_passed_on_and_ends(jay: Jay) -> None:
    done = jay("run", "--name", "piped", "--", "cat", stdin=b"hello\n")

    assert done.stdout.count(b"hello") == 2


def test_one_keystroke_of_the_detach_key_reaches_the_program(jay: Jay) -> None:
    script = "trap 'echo quit heard' QUIT; echo ready; while :; do sleep 0.05; done"
    with jay.terminal("run", "--", "bash", "-c", script) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1c")
        terminal.read_until(b"quit heard")


def test_a_pod_whose_keeper_dies_is_reported_to_whoever_is_attached(jay: Jay) -> None:
    with jay.terminal("run", "--name", "cat", "--", "cat") as terminal:
        terminal.type(b"x\r")
        terminal.read_until(b"x\r\nx")
        os.kill(jay.pods()["cat"]["keeper_pid"], signal.SIGKILL)
        terminal.read_until(b"was lost")

        assert terminal.wait() == 1
    assert jay.pods()["cat"]["description"] == "lost: keeper killed"
