"""The screen worker: a process that does nothing but run terminals for another one.

It reads requests from a socket and answers those that ask something, in order. It opens no file, and it may die at
any byte: whoever started it feeds another one. A request is a header (what, which terminal, length) and a payload.

Loading the engine takes 0.3 s, so one process, the template, loads it and forks a worker for every socket it is sent.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
from array import array
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

from scrubjay.screen.key_shapes import mask_full_rows
from scrubjay.screen.settle import Passage, SettledRows, Settling

if TYPE_CHECKING:
    from scrubjay.screen.ghostty import Terminal

REQUEST = Struct("<BII")  # what, terminal, length
ANSWER = Struct("<BI")  # ok or not, length
SIZE = Struct("<HH")
# At, offset, whether the whole screen is to be looked at, and until when it stands. Then how many lines had ended since
# the last look and by which offset, and so on.
LOOK = Struct("<QQBQ")
FOR_GOOD = (1 << 64) - 1
COUNT = Struct("<I")
OFFSET = Struct("<Q")
GLANCE = Struct("<H?")
PID = Struct("<I")  # of a worker that was forked
FAULT_MAX_BYTES = 100  # of what a worker is told to fail at
PAYLOAD_MAX_BYTES = 64 << 20

_MEMORY_BYTES = 4 << 30
_STUCK_S = 60.0  # of a processor: nothing takes this long; a worker that hangs after its parent died must end by itself


class Do(IntEnum):
    """What a worker can be asked. From SNAPSHOT on it answers."""

    NEW = 1  #: a terminal of a size
    RESTORE = 2  #: a terminal out of a snapshot, which the asker has verified
    RESTORE_SCREEN = 9  #: the same, of which only the screen matters from now on
    FREE = 3
    FEED = 4
    RESIZE = 5
    LISTEN = 6  #: keep replies, titles, notifications for EFFECTS; and whether it answers all a program asks
    SETTLE = 7  #: begin to take rows as they settle, from an offset and a state
    LOOK = 8  #: take what has settled by now
    SNAPSHOT = 16  #: with history or not, and only if it can be restored exactly
    TEXT = 17  #: with so many rows of history
    EFFECTS = 18
    ROWS = 19  #: what has settled since this was last asked
    STATE = 20  #: of settling, to go on from later
    CHANGED = 21  #: rows that were drawn on since this was last asked
    PING = 22  #: answers the engine's identity
    GLANCE = 23  #: the text of the screen, the cursor's row, and whether pastes are bracketed


class _Screen:
    """One terminal and what it was asked for."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.settling: Settling | None = None
        self.looked = 0  # the offset of the last look
        self.cursor = 0  # and the row the cursor was in


class _Desk:
    """The terminals of one worker."""

    def __init__(self, fault: str) -> None:
        from scrubjay.screen import ghostty  # native code: no other process may load it

        self._engine = ghostty
        self._screens: dict[int, _Screen] = {}
        self._broken: dict[int, str] = {}  # terminals that failed where nobody could be told
        self._fault = _read_fault(fault)
        self._fed = 0

    def do(self, what: int, number: int, payload: bytes) -> bytes | None:
        """Carry out one request; the answer, if it has one."""
        try:
            if what < Do.SNAPSHOT:
                if number not in self._broken or what in (Do.NEW, Do.RESTORE, Do.RESTORE_SCREEN, Do.FREE):
                    self._change(what, number, payload)
                return None
            if number in self._broken:
                return _answer(self._broken[number].encode(), ok=False)
            return _answer(self._ask(what, number, payload))
        except self._engine.EngineFailed as error:
            if what < Do.SNAPSHOT:
                self._broken[number] = str(error)
                return None
            return _answer(str(error).encode(), ok=False)

    def _change(self, what: int, number: int, payload: bytes) -> None:
        match what:
            case Do.NEW:
                self._adopt(number, self._engine.Terminal(*SIZE.unpack(payload)))
            case Do.RESTORE:
                self._adopt(number, self._engine.Terminal.restore(payload))
            case Do.RESTORE_SCREEN:
                self._adopt(number, self._engine.Terminal.restore(payload, scrollback=False))
            case Do.FREE:
                self._broken.pop(number, None)
                if (screen := self._screens.pop(number, None)) is not None:
                    screen.terminal.close()
            case Do.FEED:
                self._fed += len(payload)
                if self._fault is not None and self._fed >= self._fault:
                    os.kill(os.getpid(), signal.SIGSEGV)
                self._screens[number].terminal.feed(payload)
            case Do.RESIZE:
                screen = self._screens[number]
                cols, rows = SIZE.unpack(payload)
                screen.terminal.resize(cols, rows)
                if screen.settling is not None:
                    screen.terminal.skip_scrolled()  # rewrapped, not news
            case Do.LISTEN:
                self._screens[number].terminal.listen(answering=payload == b"\1")
            case Do.SETTLE:
                screen = self._screens[number]
                (screen.looked,) = OFFSET.unpack_from(payload)
                screen.settling = Settling(payload[OFFSET.size :])
                screen.cursor, _ = screen.terminal.cursor_row()
                screen.terminal.skip_scrolled()
            case Do.LOOK:
                lines = array("Q", payload[LOOK.size :])
                _look(self._screens[number], lines, *LOOK.unpack_from(payload))
            case _:
                raise AssertionError(what)

    def _adopt(self, number: int, terminal: Terminal) -> None:
        self._change(Do.FREE, number, b"")
        self._screens[number] = _Screen(terminal)

    def _ask(self, what: int, number: int, payload: bytes) -> bytes:
        if what == Do.PING:
            return self._engine.identity().encode()
        screen = self._screens[number]
        match what:
            case Do.SNAPSHOT:
                history, exact = payload
                return screen.terminal.snapshot(history=bool(history), exact=bool(exact)) or b""
            case Do.TEXT:
                return screen.terminal.text(*COUNT.unpack(payload)).encode("utf-8", "replace")
            case Do.EFFECTS:
                return json.dumps(
                    [
                        (effect.kind, effect.data.decode("latin-1"), effect.title.decode("latin-1"), *effect[3:])
                        for effect in screen.terminal.effects()
                    ]
                ).encode()
            case Do.GLANCE:
                terminal = screen.terminal
                seen = GLANCE.pack(terminal.cursor_row()[0], terminal.brackets_pastes())
                return seen + terminal.text(0).encode("utf-8", "replace")
            case Do.CHANGED:
                return json.dumps(screen.terminal.changed_rows()).encode()
            case Do.ROWS:
                return encode_rows(screen.settling.take() if screen.settling is not None else SettledRows())
            case Do.STATE:
                return screen.settling.state() if screen.settling is not None else b""
            case _:
                raise AssertionError(what)


def _look(screen: _Screen, lines: array[int], at: int, offset: int, whole: int, until: int) -> None:
    if screen.settling is None:
        return
    cursor, rows = screen.terminal.cursor_row()
    passage = Passage(screen.looked, offset, screen.cursor, rows, lines[::2], lines[1::2])
    cols = screen.terminal.cols()
    # Before anything is made of them: what has settled, and what is kept to go on from, ends in the search index.
    screen.settling.scrolled(mask_full_rows(screen.terminal.scrolled_rows(), cols), at, passage)
    screen.looked, screen.cursor = offset, cursor
    if whole:
        # All of the screen: the engine says it five times as fast as Python reads the cells of the rows that changed.
        rows = mask_full_rows(screen.terminal.text(0).split("\n"), cols)
        screen.settling.look(rows, at, offset, until=None if until == FOR_GOOD else until)


def encode_rows(rows: SettledRows) -> bytes:
    """Rows as one portion of bytes: a column after the other."""
    columns = (array("Q", rows.ats), array("Q", rows.offsets), array("i", rows.ys))
    joined = "\n".join(rows.texts).encode("utf-8", "replace")
    return COUNT.pack(len(rows.texts)) + b"".join([column.tobytes() for column in columns]) + joined


def decode_rows(data: bytes) -> SettledRows:
    """The rows that ``encode_rows`` was given."""
    (count,) = COUNT.unpack_from(data)
    position = COUNT.size
    columns: list[list[int]] = []
    for code in ("Q", "Q", "i"):
        column = array(code)
        column.frombytes(data[position : position + count * column.itemsize])
        columns.append(column.tolist())
        position += count * column.itemsize
    texts = data[position:].decode("utf-8", "replace").split("\n") if count else []
    ats, offsets, ys = columns
    return SettledRows(ats, offsets, ys, texts)


def _answer(payload: bytes, *, ok: bool = True) -> bytes:
    return ANSWER.pack(ok, len(payload)) + payload


def _read_fault(raw: str) -> int | None:
    """``screen:raise@1000`` makes the engine crash at the 1000th byte, to test what happens then."""
    name, _, after = raw.partition("@")
    return int(after) if name == "screen:raise" and after.isdigit() else None


def main() -> None:
    """Load the engine, then fork a worker for every socket that comes through standard input, until that ends."""
    from scrubjay.screen import ghostty

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks us
    signal.signal(signal.SIGCHLD, _reap)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ghostty.identity()
    gc.freeze()  # pages that the collector does not write to stay shared with the workers
    with socket.socket(fileno=os.dup(0)) as orders:
        while True:
            fault, descriptors, _, _ = socket.recv_fds(orders, FAULT_MAX_BYTES, 1)
            if not descriptors:
                return
            # Not reaped before it has a descriptor: its number could be another process's by then.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            pid = os.fork()
            if not pid:
                orders.close()
                os.close(0)
                _serve(descriptors[0], fault.decode())
                return
            handle = os.pidfd_open(pid)
            socket.send_fds(orders, [PID.pack(pid)], [handle])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            os.close(handle)
            os.close(descriptors[0])


def _reap(_signal: int, _frame: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(descriptor: int, fault: str) -> None:
    """Do what is asked through a socket until it ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    desk = _Desk(fault.rstrip("\n"))
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rb", buffering=1 << 18) as requests:
        while len(header := requests.read(REQUEST.size)) == REQUEST.size:
            what, number, length = REQUEST.unpack(header)
            payload = requests.read(length)
            if len(payload) < length:
                return
            signal.setitimer(signal.ITIMER_PROF, _STUCK_S)
            answer = desk.do(what, number, payload)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if answer is not None:
                connection.sendall(answer)


if __name__ == "__main__":
    main()
