"""Who has a terminal that was offered to a keeper."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty

from scrubjay.keeper.seat import Seat
from tests.support.conditions import eventually
from tests.support.terminal import Terminal

# A program and another one of its terminal: SIGUSR1 gives the terminal to the other, SIGUSR2 takes it back.
_STOPPED_AND_CONTINUED = """
import os, signal, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
owner, other = os.getpid(), os.fork()
while not other and os.getppid() == owner:
    time.sleep(0.05)
if not other:
    os._exit(0)
os.setpgid(other, other)
signal.signal(signal.SIGUSR1, lambda *_: os.tcsetpgrp(0, other))
signal.signal(signal.SIGUSR2, lambda *_: os.tcsetpgrp(0, os.getpgrp()))
print("ready", flush=True)
while True:
    time.sleep(0.05)  # not pause(): a signal that comes right before it is not heard
"""


def test_a_terminal_that_a_shell_had_is_ours_again_when_it_is_raw() -> None:
    with Terminal([sys.executable, "-c", _STOPPED_AND_CONTINUED], dict(os.environ)) as owner:
        owner.read_until(b"ready")
        seat = Seat(owner.pid, "ada", 0)
        try:
            cooked = termios.tcgetattr(seat.terminal)
            tty.setraw(seat.terminal)
            assert seat.look()

            os.kill(owner.pid, signal.SIGUSR1)
            eventually(lambda: not seat.look(), "the other has it")
            termios.tcsetattr(seat.terminal, termios.TCSANOW, cooked)
            os.kill(owner.pid, signal.SIGUSR2)
            eventually(lambda: _foreground_group(owner.pid) == owner.pid, "its owner has it again")
            assert not seat.look()

            tty.setraw(seat.terminal)
            assert seat.look()
            termios.tcsetattr(seat.terminal, termios.TCSANOW, cooked)
            assert seat.look()  # whatever somebody does to it meanwhile
        finally:
            seat.close()


def _foreground_group(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[5])
