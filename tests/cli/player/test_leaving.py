"""However the player ends, the terminal is as it was, and nobody is shown a traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import termios
import time
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from scrubjay.cli.modes import Modes
from tests.support.cli import Cli
from tests.support.terminal import Terminal

_COLOURS = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


def _chaos(value: object) -> ParameterSet:
    """A value that ``make test`` does without, for another shows the same."""
    return pytest.param(value, marks=pytest.mark.chaos)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A data directory with a recording of ten seconds, in colours, that no test changes."""
    folder = tmp_path_factory.mktemp("ten")
    runner = Cli(folder / "data", folder)
    events = [[second, "o", f"\x1b[3{second % 8}msecond {second}\r\n"] for second in range(1, 11)]
    lines = [{"version": 2, "width": 80, "height": 24}, *events]
    (folder / "ten.cast").write_text("\n".join(map(json.dumps, lines)))
    runner("import", str(folder / "ten.cast"))
    return runner


def _is_left_as_it_was(terminal: Terminal, before: list[object]) -> bool:
    modes = Modes()
    # The keyboard's mode is put back by taking it off a stack, which Modes does not follow.
    assert terminal.seen.count(b"\x1b[>25u") == terminal.seen.count(b"\x1b[<u")
    modes.feed(terminal.seen.replace(b"\x1b[>25u", b""))
    return modes.leave().startswith(b"\x1b[0m") and termios.tcgetattr(terminal.fd) == before


@pytest.mark.parametrize("keys", [b"q", b"g12\x03", _chaos(b"\x03")])
def test_keys_that_leave_give_the_terminal_back(cli: Cli, keys: bytes) -> None:
    with cli.terminal("replay", "ten") as terminal:
        before = termios.tcgetattr(terminal.fd)
        terminal.read_until(b"\x1b[?2048$p")
        terminal.type(b"\x1b[?2026;2$y\x1b[?2048;2$y")  # as a terminal of today answers
        terminal.read_until(b" / 0:10")
        terminal.type(keys)

        assert terminal.wait() == 0
        assert _is_left_as_it_was(terminal, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, _chaos(signal.SIGINT)])
def test_signals_give_the_terminal_back(cli: Cli, number: signal.Signals) -> None:
    with cli.terminal("replay", "ten") as terminal:
        before = termios.tcgetattr(terminal.fd)
        terminal.read_until(b" / 0:10")
        os.kill(terminal.pid, number)

        assert terminal.wait() == 128 + number
        assert _is_left_as_it_was(terminal, before)


@pytest.mark.parametrize("method", ["step", _chaos("seek"), _chaos("timeline")])
def test_a_failure_gives_the_terminal_back_and_is_said_in_one_line(cli: Cli, method: str) -> None:
    program = (
        "from scrubjay.cli import main; from scrubjay.replay.reel import Reel\n"
        f"def fail(*args, **options): raise RuntimeError('a \\x1b[5mbug\\n in {method}')\n"
        f"Reel.{method} = fail\n"
        "main()\n"
    )
    argv = [sys.executable, "-P", "-c", program, "replay", "ten"]
    with Terminal(argv, cli.env) as terminal:
        before = termios.tcgetattr(terminal.fd)
        if method == "step":
            terminal.read_until(b" / 0:10")
            terminal.type(b".")

        assert terminal.wait() == 1
        assert _is_left_as_it_was(terminal, before)
    said = terminal.seen.split(b"\x1b[?1049l")[1]
    assert b"the player failed: RuntimeError: a" in said
    assert b"bug in " + method.encode() in said
    assert b"Traceback" not in terminal.seen
    assert b"\x1b[5m" not in said
    assert said.count(b"\n") == 1


def test_a_window_that_closes_ends_the_player(cli: Cli) -> None:
    with cli.terminal("replay", "ten") as terminal:
        terminal.read_until(b" / 0:10")
        pid, terminal.pid = terminal.pid, 0
        terminal.hang_up()

        status = cli.wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0])
        assert status == pid


@pytest.mark.parametrize("delay_s", [0.0, _chaos(0.5), _chaos(0.8), _chaos(1.1)])
def test_a_window_that_closes_ends_a_player_that_is_not_told(cli: Cli, delay_s: float) -> None:
    argv = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *cli.argv, "replay", "ten"]
    with Terminal(argv, cli.env) as terminal:
        if delay_s:
            time.sleep(delay_s)  # at any time of its start, which takes about as long
        else:
            terminal.read_until(b" / 0:10")
        workers = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
        terminal.hang_up()

        def ended() -> bool:
            return os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

        cli.wait_for(ended)
        cli.wait_for(lambda: not any(Path("/proc", worker).exists() for worker in workers))


def test_the_shell_can_have_the_terminal_for_a_while(cli: Cli) -> None:
    shell = Terminal(["bash", "--norc", "--noprofile", "-i"], cli.env | {"PS1": "shell> "})
    with shell:
        shell.read_until(b"shell> ")
        shell.type(shlex.join([*cli.argv, "replay", "ten"]).encode() + b"\r")
        shell.read_until(b" / 0:10")
        shell.type(b"\x1a")
        shell.read_until(b"\x1b[?1049l")
        shell.read_until(b"shell> ")
        shell.type(b"echo $((40+2))nd\r")
        shell.read_until(b"42nd")
        shell.type(b"fg\r")
        shell.read_until(b"\x1b[?1049h")
        shell.read_until(b" / 0:10")
        shell.type(b"q")
        shell.read_until(b"\x1b[?1049l")
        shell.read_until(b"shell> ")


def test_the_size_may_change_while_it_plays(cli: Cli) -> None:
    with cli.terminal("replay", "ten", cols=80, rows=24) as terminal:
        terminal.read_until(b"\x1b[24;1H")
        for cols, rows in ((120, 40), (30, 6), (5, 2), (80, 24)):
            terminal.resize(cols, rows)
            terminal.read_until(b"\x1b[%d;1H" % rows)
        terminal.type(b"q")

        assert terminal.wait() == 0


def test_colours_are_the_persons_own_and_none_if_they_want_none(cli: Cli) -> None:
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal([*cli.argv, "replay", "ten", "--at", "-1s", "--paused"], cli.env | env) as terminal:
            terminal.read_until_all(b"second 9", b"90%")
            terminal.type(b"q")
            terminal.wait()

        assert bool(_COLOURS.search(terminal.seen)) is coloured
        assert b"\x1b[38;2;" not in terminal.seen


def test_without_a_terminal_it_says_what_works_instead(cli: Cli) -> None:
    assert "replay needs a terminal; 'scrubjay screen POD --at T'" in cli.error("replay", "ten", code=2)


def test_a_terminal_without_a_movable_cursor_is_refused(cli: Cli) -> None:
    with Terminal([*cli.argv, "replay", "ten"], cli.env | {"TERM": "dumb"}) as terminal:
        assert terminal.wait() == 2
    assert b"whose cursor can be moved" in terminal.seen


def test_what_cannot_be_played_is_said_before_the_screen_is_taken(cli: Cli) -> None:
    rows = {
        b"'25:99' is not a time": "ten --at 25:99",
        b"there is no pod 'nobody'": "nobody",
        b"Invalid value for '--speed'": "ten --speed 0",
        b"Invalid value for '--idle-limit'": "ten --idle-limit -1",
    }
    replay = shlex.join([*cli.argv, "replay"])
    with Terminal(["sh", "-c", "; ".join(f"{replay} {words}" for words in rows.values())], cli.env) as terminal:
        assert terminal.wait() == 2

    assert [why for why in rows if why not in terminal.seen] == []
    assert b"\x1b[?1049h" not in terminal.seen


def test_a_start_after_the_end_is_the_end_and_says_so(cli: Cli) -> None:
    with cli.terminal("replay", "ten", "--at", "1h", "--paused", cols=120) as terminal:
        terminal.read_until(b"is after the end of the recording")
        terminal.type(b"q")
        terminal.wait()


def test_the_command_loads_without_what_draws_it(cli: Cli) -> None:
    program = "import sys, scrubjay.cli.replay_command; print([m for m in sys.modules if m in ('textual', 'rich')])"
    with Terminal([sys.executable, "-P", "-c", program], cli.env) as terminal:
        terminal.read_until(b"[]")
