"""Terminals in worker processes, which may die at any byte without anybody losing a screen.

A WorkerTerminal remembers what it was last restored from and what it was fed since. When its worker dies or hangs,
it starts another, repeats that in small portions, and leaves out the portion that kills the second worker too.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from scrubjay.errors import EngineUnavailable
from scrubjay.replay.worker import (
    ANSWER,
    COUNT,
    FAULT_MAX_BYTES,
    FOR_GOOD,
    GLANCE,
    LOOK,
    OFFSET,
    PAYLOAD_MAX_BYTES,
    PID,
    REQUEST,
    SIZE,
    Do,
    decode_rows,
)
from scrubjay.screen.engine import ChangedRow, Effect
from scrubjay.screen.glance import Glance
from scrubjay.screen.settle import SettledRows
from scrubjay.screen.snapshot import read_size

_Given = TypeVar("_Given")
_Result = TypeVar("_Result")

TERMINALS_PER_WORKER = 8
ANSWER_WITHIN_S = 10.0  # of work, or of doing nothing: the slowest known input takes six, on a busy machine a minute
_LOOKS = 10  # in that time, at whether a worker works
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PORTION_BYTES = 64 << 10  # what is left out when it kills a worker
_STARTS_MAX = 3
_FORK_WITHIN_S = 60.0  # the engine is loaded before the first fork, on a busy machine slowly
_KILLERS_MAX = 3  # portions that are left out before giving up: each costs the start of a worker


class WorkerDied(Exception):
    """A worker ended or hung before it answered."""


class EngineRefused(Exception):
    """The engine answered that it cannot do what was asked."""


@dataclass(frozen=True, slots=True)
class _Forked:
    """A worker's process. It is the template's child, so its number alone could be another process's by now."""

    pid: int
    handle: int  #: a descriptor of the process

    def kill(self) -> None:
        """End it at once and wait until it is gone."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        gone = select.poll()
        gone.register(self.handle, select.POLLIN)
        gone.poll()
        os.close(self.handle)


class _Template:
    """The process that has loaded the engine and forks workers."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        with theirs:
            # Not a copy of this process: a worker must hold neither its files nor its memory.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrubjay.replay.worker"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("SCRUBJAY_DEBUG") else subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the person's terminal is not for it
            )
        self._socket = ours
        self._socket.settimeout(_FORK_WITHIN_S)
        atexit.register(self.close)

    def fork(self, connection: socket.socket) -> _Forked:
        """A new worker that serves ``connection``; OSError if there is none."""
        fault = os.environ.get("SCRUBJAY_FAULT", "").encode()[: FAULT_MAX_BYTES - 1] + b"\n"
        with self._lock:
            socket.send_fds(self._socket, [fault], [connection.fileno()])
            answer, handles, _, _ = socket.recv_fds(self._socket, PID.size, 1)
        if not handles:
            raise ConnectionError("the process that forks workers ended")
        return _Forked(PID.unpack(answer)[0], handles[0])

    def close(self) -> None:
        """End it; the workers go on."""
        atexit.unregister(self.close)
        self._socket.close()
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()


_template: _Template | None = None
_template_lock = threading.Lock()


def _fork_worker(connection: socket.socket) -> _Forked | None:
    """A new worker, from the template of this process; None if none can be had."""
    global _template
    for _ in range(_STARTS_MAX):
        with _template_lock:
            if _template is None or _template.owner != os.getpid():
                _template = _Template()
            template = _template
        try:
            return template.fork(connection)
        except OSError:
            with _template_lock:
                if _template is template:
                    _template = None
                    template.close()
    return None


class Worker:
    """One worker process."""

    def __init__(self) -> None:
        self.terminals = 0
        self._last = 0
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = _fork_worker(theirs)
        self.dead = self._process is None

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid if self._process is not None else 0

    def number(self) -> int:
        """A number no terminal of it has had."""
        self._last += 1
        return self._last

    def send(self, what: Do, number: int, payload: bytes = b"") -> None:
        """Ask for something that has no answer."""
        view = memoryview(REQUEST.pack(what, number, len(payload)) + payload)
        try:
            while view:
                view = view[self._patiently(self._socket.send, view) :]
        except OSError as error:
            self.kill()
            raise WorkerDied from error

    def ask(self, what: Do, number: int, payload: bytes = b"") -> bytes:
        """Ask, and wait for the answer; WorkerDied if none comes."""
        self.send(what, number, payload)
        try:
            ok, length = ANSWER.unpack(self._receive(ANSWER.size))
            if length > PAYLOAD_MAX_BYTES:
                raise ConnectionError("an answer no worker gives")
            answer = self._receive(length)
        except OSError as error:
            self.kill()
            raise WorkerDied from error
        if not ok:
            raise EngineRefused(answer.decode("utf-8", "replace"))
        return answer

    def _receive(self, length: int) -> bytes:
        parts: list[bytes] = []
        while length:
            part = self._patiently(self._socket.recv, min(length, 1 << 20))
            if not part:
                raise ConnectionError("the worker ended")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _patiently(self, call: Callable[[_Given], _Result], given: _Given) -> _Result:
        """Call and wait for as long as the worker works; TimeoutError once it has had its time, or does nothing."""
        limit_s = ANSWER_WITHIN_S
        self._socket.settimeout(limit_s / _LOOKS)
        began_s: float | None = None
        before_s, idle = 0.0, 0
        while True:
            try:
                return call(given)
            except TimeoutError:
                ready, worked_s = self._look()
                began_s = worked_s if began_s is None else began_s
                idle = 0 if ready or worked_s > before_s else idle + 1
                before_s = worked_s
                if idle >= _LOOKS or worked_s - began_s >= limit_s:
                    raise

    def _look(self) -> tuple[bool, float]:
        """Whether it would work if it got a processor, and for how long it has had one, which may be much less."""
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return False, 0.0  # it has ended, as the socket shows too
        return fields[0] == "R", (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def kill(self) -> None:
        """End it at once."""
        if self.dead:
            return
        self.dead = True
        self._socket.close()
        if self._process is not None:
            self._process.kill()


class Workers:
    """As many workers as the terminals in use need."""

    def __init__(self, *, terminals_each: int = TERMINALS_PER_WORKER) -> None:
        self._workers: list[Worker] = []
        self._identity = ""
        self._terminals_each = terminals_each

    @property
    def identity(self) -> str:
        """Which engine they run; EngineUnavailable if it cannot be started."""
        for _ in range(_STARTS_MAX):
            if self._identity:
                return self._identity
            with suppress(WorkerDied):
                self._identity = self.take().ask(Do.PING, 0).decode()
        if not self._identity:
            raise EngineUnavailable
        return self._identity

    @property
    def pids(self) -> list[int]:
        """Of those that live."""
        return [worker.pid for worker in self._workers if not worker.dead]

    def take(self) -> Worker:
        """A worker with room for another terminal."""
        self._workers = [worker for worker in self._workers if not worker.dead]
        for worker in self._workers:
            if worker.terminals < self._terminals_each:
                return worker
        self._workers.append(Worker())
        return self._workers[-1]

    def take_alone(self) -> Worker:
        """A worker for one that is known to kill them."""
        worker = Worker()
        worker.terminals = self._terminals_each
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """End them all."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True, eq=False)
class _Step:
    """Something a terminal was told since it was last restored."""

    what: Do
    payload: bytes
    offset: int  #: of the tape, after what is fed
    left_out: bool = False
    packed: bool = False  #: whether ``payload`` is compressed

    @property
    def sent(self) -> bytes:
        """What a worker gets."""
        return zlib.decompress(self.payload) if self.packed else self.payload


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bytes that killed the engine twice and are not shown."""

    start: int  #: offsets of the tape
    stop: int


class WorkerTerminal:
    """A terminal in a worker; it moves to another one when that dies."""

    def __init__(self, workers: Workers, cols: int, rows: int) -> None:
        self.left_out: list[LeftOut] = []
        self.restarts = 0
        self._workers = workers
        self._worker: Worker | None = None
        self._number = 0
        self._base = _Step(Do.NEW, SIZE.pack(cols, rows), 0)
        self._steps: list[_Step] = []
        self._listen: _Step | None = None

    def begin(self, cols: int, rows: int, *, offset: int = 0) -> None:
        """Start over with an empty screen."""
        self._rebase(_Step(Do.NEW, SIZE.pack(cols, rows), offset))

    def restore(self, snapshot: bytes, *, offset: int, scrollback: bool = True) -> None:
        """Go on from a snapshot, which must be verified; without ``scrollback`` what scrolls off is gone."""
        self._rebase(_Step(Do.RESTORE if scrollback else Do.RESTORE_SCREEN, snapshot, offset))

    def _rebase(self, base: _Step) -> None:
        self._base, self._steps = base, []
        self.left_out = []
        if self._worker is not None and not self._worker.dead:
            self._tell(base)
        if self._listen is not None:
            self._add(self._listen)

    def feed(self, data: bytes, *, offset: int) -> None:
        """Show output; ``offset`` is where the tape stands after it."""
        self.feed_parts([(data, offset)])

    def feed_parts(self, parts: Sequence[tuple[bytes, int]]) -> None:
        """Show output in parts, left out one by one if they crash the engine; each with the offset after it."""
        steps: list[_Step] = []
        for data, offset in parts:
            for start in range(0, len(data), _PORTION_BYTES):
                portion = data[start : start + _PORTION_BYTES]
                steps.append(_Step(Do.FEED, portion, offset - (len(data) - start - len(portion))))
        self._steps += steps
        if self._worker is not None and not self._worker.dead:
            # In one go: the engine is quicker with much at once.
            self._tell(_Step(Do.FEED, b"".join([step.payload for step in steps]), 0))

    def resize(self, cols: int, rows: int, *, offset: int) -> None:
        """Change the size."""
        self._add(_Step(Do.RESIZE, SIZE.pack(cols, rows), offset))

    def settle(self, state: bytes, *, offset: int) -> None:
        """Take rows as they settle, from now on."""
        self._add(_Step(Do.SETTLE, OFFSET.pack(offset) + state, 0))

    def look(self, at: int, offset: int, lines: bytes = b"", *, whole: bool, until: int | None = None) -> None:
        """Take the rows that have settled by now; of the ``whole`` screen those that stand, until then or for good.

        ``lines`` are numbers as ``LOOK`` says: where in the tape how many had ended.
        """
        look = LOOK.pack(at, offset, whole, FOR_GOOD if until is None else until)
        self._add(_Step(Do.LOOK, look + lines, offset))

    def listen(self, *, answering: bool = False) -> None:
        """Keep replies, titles and notifications; ``answering`` all that a program asks its own terminal."""
        self._listen = _Step(Do.LISTEN, bytes([answering]), 0)
        self._add(self._listen)

    def snapshot(self, *, history: bool = False, exact: bool = False) -> bytes:
        """Everything needed to go on; empty where the engine cannot say it or, if ``exact``, not restore it."""
        return self._ask(Do.SNAPSHOT, bytes([history, exact]))

    def text(self, history: int = 0) -> str:
        """The screen as plain text."""
        return self._ask(Do.TEXT, COUNT.pack(history)).decode("utf-8", "replace")

    def glance(self) -> Glance:
        """What is on the screen, as rules see it."""
        seen = self._ask(Do.GLANCE, b"")
        cursor, pastes = GLANCE.unpack_from(seen)
        return Glance(tuple(seen[GLANCE.size :].decode("utf-8", "replace").split("\n")), cursor, pastes=pastes)

    def effects(self) -> list[Effect]:
        """What output did besides drawing since this was last asked."""
        told = json.loads(self._ask(Do.EFFECTS, b""))
        if self._listen is not None:
            # Another worker begins to listen here, or it would tell again what was told.
            self._move_to_end(self._listen)
        return [
            Effect(kind, data.encode("latin-1"), title.encode("latin-1"), state, percent)
            for kind, data, title, state, percent in told
        ]

    def _move_to_end(self, step: _Step) -> None:
        # From the end, where it was put when this was last done.
        for position in range(len(self._steps) - 1, -1, -1):
            if self._steps[position] is step:
                del self._steps[position]
                break
        self._steps.append(step)

    def changed_rows(self) -> list[ChangedRow]:
        """The rows that were drawn on since this was last asked; at first all."""
        return [ChangedRow(*row) for row in json.loads(self._ask(Do.CHANGED, b""))]

    def rows(self) -> SettledRows:
        """What has settled since this was last asked."""
        return decode_rows(self._ask(Do.ROWS, b""))

    def state(self) -> bytes:
        """Of settling, to go on from later."""
        return self._ask(Do.STATE, b"")

    def checkpoint(self, snapshot: bytes, *, offset: int, settling: bytes | None = None, packed: bool = False) -> None:
        """Forget what was fed: ``snapshot`` was just taken, so that is where another worker would go on from.

        ``packed`` keeps it compressed, for who has many and does not take them often.
        """
        kept = zlib.compress(snapshot, 1) if packed else snapshot
        self._base, self._steps = _Step(Do.RESTORE, kept, offset, packed=packed), []
        if settling is not None:
            self._steps.append(_Step(Do.SETTLE, OFFSET.pack(offset) + settling, 0))
        if self._listen is not None:
            self._steps.append(self._listen)

    @property
    def offset(self) -> int:
        """Where the tape stands after what was last fed."""
        return next((step.offset for step in reversed(self._steps) if step.offset), self._base.offset)

    def close(self) -> None:
        """Free the terminal."""
        if self._worker is not None and not self._worker.dead:
            try:
                self._worker.send(Do.FREE, self._number)
            except WorkerDied:
                return
            self._worker.terminals -= 1
        self._worker = None

    def _add(self, step: _Step) -> None:
        self._steps.append(step)
        if self._worker is not None and not self._worker.dead:
            self._tell(step)

    def _tell(self, step: _Step) -> None:
        assert self._worker is not None
        try:
            self._worker.send(step.what, self._number, step.sent)
        except WorkerDied:
            return  # noticed again by whoever asks something, who can do something about it

    def _ask(self, what: Do, payload: bytes) -> bytes:
        if self._worker is None or self._worker.dead:
            # Not counted as a death of ours: another terminal of the same worker may have killed it.
            self._move(self._workers.take)
        try:
            return self._current().ask(what, self._number, payload)
        except WorkerDied:
            return self._recover(what, payload)

    def _current(self) -> Worker:
        assert self._worker is not None
        return self._worker

    def _move(self, take: Callable[[], Worker]) -> None:
        """Repeat everything in another worker."""
        self._worker = take()
        self._worker.terminals += 1
        self._number = self._worker.number()
        for step in self._repeated():
            self._tell(step)

    def _repeated(self) -> list[_Step]:
        """What another worker is told."""
        return [step for step in (self._base, *self._steps) if not step.left_out]

    def _recover(self, what: Do, payload: bytes) -> bytes:
        """Leave out what kills a second worker too, and ask again."""
        self.restarts += 1
        for killers in range(_KILLERS_MAX + 1):
            killer = self._move_carefully()
            if killer is None:
                break
            if killer is self._base:
                raise EngineRefused("the terminal engine fails on this keyframe")
            self._leave_out(killer, start_over=killers > 0)
        else:
            raise EngineRefused("the terminal engine keeps failing")
        try:
            return self._current().ask(what, self._number, payload)
        except WorkerDied as error:
            # Of what is asked, not of what was fed: there is nothing to leave out.
            raise EngineRefused("the terminal engine fails on this screen") from error

    def _leave_out(self, killer: _Step, *, start_over: bool) -> None:
        """Leave out what killed a worker; to ``start_over`` also all before it, keyframe included.

        What kills a second worker does so because of what stands on the screen, and so would many more.
        """
        position = self._steps.index(killer)
        first = position
        if start_over:
            first = 0
            self._base = _Step(Do.NEW, SIZE.pack(*self._base_size()), self._base.offset)
            for step in self._steps[:position]:
                step.left_out = step.left_out or step.what == Do.FEED
        killer.left_out = True
        start = self._steps[first - 1].offset if first else self._base.offset
        self.left_out.append(LeftOut(start, killer.offset))

    def _base_size(self) -> tuple[int, int]:
        if self._base.what == Do.NEW:
            cols, rows = SIZE.unpack(self._base.payload)
            return cols, rows
        return read_size(self._base.sent)

    def _move_carefully(self) -> _Step | None:
        """Repeat everything in a worker of our own, waiting after each step; the step it died of."""
        self._worker = self._workers.take_alone()
        self._number = self._worker.number()
        for step in self._repeated():
            try:
                self._worker.send(step.what, self._number, step.sent)
                self._worker.ask(Do.TEXT, self._number, COUNT.pack(0))
            except (WorkerDied, EngineRefused):
                return step
        return None
