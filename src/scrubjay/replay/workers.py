"""Terminals in worker processes, which may die at any byte without anybody losing a screen.

A WorkerTerminal remembers what it was last restored from and what it was fed since. When its worker dies or hangs,
it starts another, repeats that in small portions, and leaves out the portion that kills the second worker too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from scrubjay.errors import EngineUnavailable
from scrubjay.replay.worker import (
    ANSWER,
    COUNT,
    FOR_GOOD,
    GLANCE,
    LOOK,
    OFFSET,
    PAYLOAD_MAX_BYTES,
    REQUEST,
    SIZE,
    Do,
    decode_rows,
)
from scrubjay.screen.engine import ChangedRow, Effect
from scrubjay.screen.glance import Glance
from scrubjay.screen.settle import SettledRows

TERMINALS_PER_WORKER = 8
ANSWER_WITHIN_S = 10.0  # the slowest known input takes six
_PORTION_BYTES = 64 << 10  # what is left out when it kills a worker
_STARTS_MAX = 3
_KILLERS_MAX = 3  # portions that are left out before giving up: each costs the start of a worker


class WorkerDied(Exception):
    """A worker ended or hung before it answered."""


class EngineRefused(Exception):
    """The engine answered that it cannot do what was asked."""


class Worker:
    """One worker process."""

    def __init__(self) -> None:
        self.terminals = 0
        self.dead = False
        self._last = 0
        ours, theirs = socket.socketpair()
        with theirs:
            # Not a copy of this process: the worker must hold neither its files nor its memory.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrubjay.replay.worker"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("SCRUBJAY_DEBUG") else subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the person's terminal is not for it
            )
        self._socket = ours

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def number(self) -> int:
        """A number no terminal of it has had."""
        self._last += 1
        return self._last

    def send(self, what: Do, number: int, payload: bytes = b"") -> None:
        """Ask for something that has no answer."""
        try:
            self._socket.settimeout(ANSWER_WITHIN_S)
            self._socket.sendall(REQUEST.pack(what, number, len(payload)) + payload)
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
            part = self._socket.recv(min(length, 1 << 20))
            if not part:
                raise ConnectionError("the worker ended")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def kill(self) -> None:
        """End it at once."""
        if self.dead:
            return
        self.dead = True
        self._socket.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


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

    def look(self, at: int, offset: int, *, whole: bool, until: int | None = None) -> None:
        """Take the rows that have settled by now; of the ``whole`` screen those that stand, until then or for good."""
        self._add(_Step(Do.LOOK, LOOK.pack(at, offset, whole, FOR_GOOD if until is None else until), offset))

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
        for _ in range(_KILLERS_MAX + 1):
            killer = self._move_carefully()
            if killer is None:
                break
            if killer is self._base:
                raise EngineRefused("the terminal engine fails on this keyframe")
            killer.left_out = True
            before = self._steps.index(killer) - 1
            start = self._steps[before].offset if before >= 0 else self._base.offset
            self.left_out.append(LeftOut(start, killer.offset))
        else:
            raise EngineRefused("the terminal engine keeps failing")
        try:
            return self._current().ask(what, self._number, payload)
        except WorkerDied as error:
            # Of what is asked, not of what was fed: there is nothing to leave out.
            raise EngineRefused("the terminal engine fails on this screen") from error

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
