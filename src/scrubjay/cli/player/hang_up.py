"""A terminal that is closed ends the player, whoever is told of it."""

from __future__ import annotations

import os
import select
import signal
from threading import Thread

_LOOK_EVERY_MS = 1000
_CLOSED = select.POLLHUP | select.POLLERR | select.POLLNVAL


def end_with_terminal(terminal: int) -> None:
    """From now on, end this process when the terminal is closed.

    SIGHUP says so only to the leader of a session, and only if it is not ignored; without it Textual reads the end of
    the terminal again and again.
    """
    Thread(target=_watch, args=(terminal,), name="hang-up", daemon=True).start()


def _watch(terminal: int) -> None:
    poll = select.poll()
    poll.register(terminal, 0)  # what was typed is not for us
    # The kernel need not wake one who waits for nothing but this.
    while not any(seen & _CLOSED for _, seen in poll.poll(_LOOK_EVERY_MS)):
        pass
    os._exit(128 + signal.SIGHUP)  # as SIGHUP would: there is no terminal to give back, and none to say it to
