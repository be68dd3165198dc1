"""A tape that grows while a screen is kept up with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import TypeVar

from scrubjay.ids import PodId, new_pod_id
from scrubjay.runner.screens import Heard, LiveScreens
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_size
from scrubjay.tape.record import Record
from tests.support.conditions import DEADLINE_S
from tests.support.tapes import TapeOnDisk, begin_tape

_T = TypeVar("_T")


class GrowingTape:
    """What a keeper would write."""

    def __init__(self, root: Path, *, cols: int = 80, rows: int = 24) -> None:
        self.pod: PodId = new_pod_id()
        self._writer = begin_tape(root / self.pod, self.pod, watermark=False)
        self.disk = TapeOnDisk(root / self.pod, self.pod)
        self._at = 0
        self._add(Kind.HEAD, encode_json(format=1, argv=["agent"], cols=cols, rows=rows))

    def show(self, *outputs: bytes) -> list[Record]:
        """Output, a record each."""
        return [self._add(Kind.OUTPUT, data) for data in outputs]

    def resize(self, cols: int, rows: int) -> list[Record]:
        """Another size."""
        return [self._add(Kind.RESIZE, encode_size(cols, rows))]

    def _add(self, kind: Kind, payload: bytes) -> Record:
        offset = self._writer.offset
        self._at += 1000
        self._writer.append(kind, self._at, payload)
        self._writer.flush()
        return Record(offset, kind, self._at, payload, 0)

    @property
    def end(self) -> int:
        """After its last record."""
        return self._writer.offset


@dataclass(slots=True)
class Audience:
    """Keeps what screens tell."""

    heard: list[tuple[PodId, Heard]] = field(default_factory=list[tuple[PodId, Heard]])
    _changed: Condition = field(default_factory=Condition)

    def __call__(self, pod: PodId, heard: Heard) -> None:
        """For LiveScreens to call."""
        with self._changed:
            self.heard.append((pod, heard))
            self._changed.notify_all()

    def replies(self, pod: PodId) -> list[tuple[int, bytes]]:
        """Offset and bytes of every reply."""
        return [(heard.offset, heard.replies) for told, heard in self.heard if told == pod and heard.replies]

    def answers(self, pod: PodId) -> bytes:
        """All replies together."""
        return b"".join(replies for _, replies in self.replies(pod))

    def wait_for(self, condition: Callable[[], _T]) -> _T:
        """Wait until something was told that makes it true."""
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE_S), [heard for _, heard in self.heard]
            return condition()


@dataclass(slots=True)
class Stage:
    """Live screens, and who hears what they tell."""

    root: Path
    audience: Audience
    screens: LiveScreens
    bystanders: frozenset[int]  #: processes that have nothing to do with it
    pods: set[PodId] = field(default_factory=set[PodId])  #: whose screens were opened

    def open(self, tape: GrowingTape, *, answer_from: int = 0) -> None:
        """Keep the screen of a tape."""
        self.pods.add(tape.pod)
        self.screens.open(tape.pod, tape.disk.open(), tape.disk.root, answer_from=answer_from)

    def tape(self, *, cols: int = 80, rows: int = 24) -> GrowingTape:
        """A new tape, opened."""
        tape = GrowingTape(self.root, cols=cols, rows=rows)
        self.open(tape)
        return tape

    def ask(self, tape: GrowingTape, query: bytes = b"\x1b[c", answer: bytes = b"\x1b[?62;22c") -> None:
        """Ask something and wait for the answer."""
        (record,) = tape.show(query)
        self.screens.feed(tape.pod, [record])
        self.audience.wait_for(lambda: (record.end, answer) in self.audience.replies(tape.pod))
