"""A person's terminal joined to a pod."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from types import FrameType

from scrubjay.cli.inert import catch_up
from scrubjay.cli.modes import Modes
from scrubjay.errors import KeeperGone, PodNotRunning
from scrubjay.keeper.detach import DetachKeys
from scrubjay.pods.connection import Connection
from scrubjay.pods.pod import Pod
from scrubjay.tape.format import RECORD_MAX_BYTES, Kind
from scrubjay.tape.record import Json
from scrubjay.tape.stream import RecordStream

_CATCH_UP_BYTES = 4 << 20  # of the tape, looked at for the modes in force
_SHOWN_BYTES = 64 << 10  # of it, shown
_EOF = b"\x04"
_ENOUGH = frozenset(b"\x03\x1c")  # ctrl-c and ctrl-\
_SEAT_ID = 1
_GOODBYE_S = 10.0  # from a keeper's last word to its end, on a slow disk
_REDRAW_S = 0.05  # in which a program has seen the other size


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: with a status if the agent ended, lost if its keeper did, else detached."""

    status: int | None = None
    lost: bool = False


def terminal_size() -> tuple[int, int] | None:
    """Columns and rows of the person's terminal, if there is one."""
    for stream in (sys.stdout, sys.stdin, sys.stderr):
        try:
            size = os.get_terminal_size(stream.fileno())
        except (OSError, ValueError):
            continue
        if size.columns > 0 and size.lines > 0:
            return size.columns, size.lines
    return None


def join(pod: Pod, author: str, *, from_start: bool) -> Outcome:
    """Show the pod and pass on what is typed, until its agent ends or the person leaves."""
    modes = Modes()
    try:
        with pod.connect() as keeper, _raw_mode(modes) as is_terminal, _signals() as signals:
            joined = _Joined(pod, keeper, author, modes, signals=signals, is_terminal=is_terminal)
            joined.catch_up(from_start=from_start)
            return joined.run()
    except PodNotRunning:
        if not from_start:
            raise
    except KeeperGone:
        if not from_start:
            return _find_out(pod)
    return _show_all(pod)


def _show_all(pod: Pod) -> Outcome:
    """What a pod showed that had ended before anybody could join it."""
    outcome = _find_out(pod)
    for record in pod.tape().records():
        if record.kind == Kind.OUTPUT:
            _show(record.payload)
    return outcome


def _find_out(pod: Pod) -> Outcome:
    """How a pod ended whose keeper left without a word; KeeperGone if its keeper lives on."""
    deadline = time.monotonic() + _GOODBYE_S
    while pod.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    seen = pod.observe()
    if seen.state == "lost":
        return Outcome(lost=True)
    if seen.status is None:
        raise KeeperGone(pod.name)
    return Outcome(status=seen.status)


class _Joined:
    """One person at one pod.

    A terminal is served by the keeper itself, and only its size and its modes are looked after here. Pipes,
    and a terminal the keeper cannot open, are relayed.
    """

    def __init__(
        self, pod: Pod, keeper: Connection, author: str, modes: Modes, *, signals: int, is_terminal: bool
    ) -> None:
        self._pod, self._keeper, self._author, self._signals = pod, keeper, author, signals
        self._modes, self._is_terminal = modes, is_terminal
        self._tape = pod.tape()
        self._stream = RecordStream(self._tape.id, 0)
        self._keys = DetachKeys()
        self._outcome: Outcome | None = None
        self._seated = is_terminal and _is_terminal_of(1, 0)  # the keeper may still refuse
        self._left_at: int | None = None  # the end of what the keeper showed
        self._poll = select.poll()
        self._redrawn_at: float | None = None

    def catch_up(self, *, from_start: bool) -> None:
        """Show what a late viewer needs, then follow from there."""
        # Before anything is shown: a keeper that dies meanwhile is then noticed like one that dies later.
        self._poll.register(self._keeper.socket, select.POLLIN)
        if not from_start:
            output: list[bytes] = []
            for record in self._tape.records(self._tape.align(max(0, self._tape.end - _CATCH_UP_BYTES))):
                if record.kind == Kind.OUTPUT:
                    output.append(record.payload)
                self._stream = RecordStream(self._tape.id, record.end)
            self._show(catch_up(b"".join(output), _SHOWN_BYTES))
        self._poll.register(self._signals, select.POLLIN)
        if self._seated:
            self._go_on()
        else:
            self._relay()
        self._send_size(redraw=not from_start)

    def run(self) -> Outcome:
        """Serve both sides until it ends."""
        keeper = self._keeper.socket
        while self._outcome is None:
            ready = self._poll.poll(self._patience_ms())
            self._finish_redraw()
            if not ready and self._redrawn_at is None:
                self._type(self._keys.release())
            for fd, _ in ready:
                if fd == keeper.fileno():
                    self._hear()
                elif fd == self._signals:
                    self._heed(os.read(self._signals, 4096))
                else:
                    self._read_keyboard()
        if self._seated:
            self._learn_modes()
        return self._outcome

    def _heed(self, signals: bytes) -> None:
        if signal.SIGTERM in signals or signal.SIGINT in signals:
            self._leave()
            return
        continued = signal.SIGCONT in signals
        if continued and self._is_terminal:
            tty.setraw(0, termios.TCSANOW)  # the shell that stopped us had the terminal in between
        self._send_size(redraw=continued)

    def _leave(self) -> None:
        """Leave the terminal as it was before ending; asked a second time, end at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if self._seated:
            self._send({"do": "leave"})  # and the keeper says what it has shown until then
        else:
            self._outcome = Outcome()

    def _go_on(self) -> None:
        """Have the keeper show what follows, or send it here."""
        if self._seated:
            self._send({"do": "seat", "id": _SEAT_ID, "from": self._stream.offset, "author": self._author})
        else:
            self._send({"do": "follow", "from": self._stream.wanted, "at_terminal": self._is_terminal})

    def _relay(self) -> None:
        self._seated = False
        self._poll.register(0, select.POLLIN)
        self._go_on()

    def _learn_modes(self) -> None:
        """See from the tape which modes the agent has switched on while the keeper showed what it did."""
        start = self._tape.align(max(self._stream.offset, self._tape.end - _CATCH_UP_BYTES))
        for record in self._tape.records(start):
            if self._left_at is not None and record.offset >= self._left_at:
                break
            if record.kind == Kind.OUTPUT:
                self._modes.feed(record.payload)

    def _hear(self) -> None:
        try:
            frames = self._keeper.receive()
        except KeeperGone:
            self._outcome = self._learn_end()
            return
        for meta, tail in frames:
            if "tape" in meta:
                self._show_records(tail)
            elif "ended" in meta:
                status, shown, but = meta["ended"], meta.get("shown"), meta.get("but")
                self._show_rest(
                    shown if isinstance(shown, int) else self._stream.offset, but if isinstance(but, int) else 0
                )
                self._outcome = Outcome(status=status if isinstance(status, int) else 1)
            elif "left" in meta:
                left_at = meta["left"]
                self._left_at = left_at if isinstance(left_at, int) else None
                self._outcome = Outcome()
            elif "sealed" in meta:
                self._read_from_files()
            elif meta.get("re") == _SEAT_ID and meta.get("ok") is False:
                self._relay()
            elif isinstance(meta.get("paused"), str):
                _show(f"\r\n[scrubjay: recording and agent paused: {meta['paused']}]\r\n".encode())

    def _learn_end(self) -> Outcome:
        """How it ended, when the keeper left without a word: it was killed, or had no time for one who was slow."""
        outcome = _find_out(self._pod)
        if not outcome.lost and not self._seated:
            self._show_rest(self._stream.offset, 0)
        return outcome

    def _show_records(self, data: bytes) -> None:
        shown = [record.payload for record in self._stream.feed(data) if record.kind == Kind.OUTPUT]
        if shown:
            self._show(b"".join(shown))

    def _show(self, output: bytes) -> None:
        self._modes.feed(output)
        _show(output)

    def _show_rest(self, offset: int, unshown_bytes: int) -> None:
        """Show what a slow terminal had not taken when the agent ended, unless the person has seen enough."""
        if unshown_bytes:
            start = self._tape.align(max(0, offset - 2 * RECORD_MAX_BYTES))
            before = takewhile(lambda record: record.offset < offset, self._tape.records(start))
            shown = b"".join(record.payload for record in before if record.kind == Kind.OUTPUT)
            self._show(shown[-unshown_bytes:])
        for record in self._tape.records(offset):
            if record.kind == Kind.OUTPUT:
                self._show(record.payload)
            if self._is_terminal and select.select([0], [], [], 0)[0] and set(os.read(0, 65536)) & _ENOUGH:
                return

    def _read_from_files(self) -> None:
        """Catch up with segments that were sealed before they were followed."""
        for record in self._tape.records(self._stream.offset):
            if record.kind == Kind.OUTPUT:
                self._show(record.payload)
            self._stream = RecordStream(self._tape.id, record.end)
        self._go_on()

    def _read_keyboard(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            if self._is_terminal:
                self._outcome = Outcome()  # the terminal was closed; the agent goes on
            else:
                self._poll.unregister(0)
                self._type(_EOF)
            return
        if not self._is_terminal:
            self._type(data)
            return
        passed, detach = self._keys.feed(data)
        self._type(passed)
        if detach:
            self._outcome = Outcome()

    def _type(self, data: bytes) -> None:
        if data:
            self._send({"do": "write", "author": self._author, "at_terminal": self._is_terminal}, data)

    def _send_size(self, *, redraw: bool) -> None:
        size = terminal_size()
        if size is None or not self._is_terminal:
            return
        cols, rows = size
        self._redrawn_at = time.monotonic() + _REDRAW_S if redraw else None
        # A program that draws the whole screen does so again only when it sees another size.
        self._send({"do": "resize", "cols": cols, "rows": max(2, rows - 1) if redraw else rows})

    def _finish_redraw(self) -> None:
        if self._redrawn_at is not None and time.monotonic() >= self._redrawn_at:
            self._send_size(redraw=False)

    def _patience_ms(self) -> float | None:
        if self._redrawn_at is not None:
            return max(0.0, self._redrawn_at - time.monotonic()) * 1000
        return DetachKeys.HOLD_S * 1000 if self._keys.holding else None

    def _send(self, meta: Json, tail: bytes = b"") -> None:
        try:
            self._keeper.send(meta, tail)
        except KeeperGone:
            if self._outcome is None:
                self._hear()  # it may have left its last words


def _is_terminal_of(one: int, other: int) -> bool:
    """Whether two descriptors are the same terminal."""
    return os.isatty(one) and os.fstat(one).st_rdev == os.fstat(other).st_rdev


def _show(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


@contextmanager
def _raw_mode(modes: Modes) -> Generator[bool]:
    """Pass every key on; whether there is a terminal to do so."""
    if not os.isatty(0):
        yield False
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSANOW)
        yield True
    finally:
        try:
            if os.isatty(1):
                _show(modes.leave())
            termios.tcsetattr(0, termios.TCSAFLUSH, before)
        except (OSError, termios.error):
            sys.stderr.close()  # the terminal is gone, and with it whoever would read this


@contextmanager
def _signals() -> Generator[int]:
    """A descriptor from which to read that the window's size has changed, we have the terminal again, or must end."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    before_fd = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    heeded = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, _heard) for number in heeded}
    try:
        yield readable
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        os.close(readable)
        os.close(writable)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """The number is in the pipe already; a handler must exist for it to get there."""
