"""A clip as the text a person saw, in order and without the noise of redrawing.

That is every line that scrolled off or was cleared away, and the screen at the end. A full-screen program scrolls
nothing off: of it, rows are taken as they go. What a program erases and prints again is not taken twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from scrubjay.replay.exports.cast import drawn
from scrubjay.replay.exports.clip import Clip, Part
from scrubjay.replay.exports.lines import Printed, Stage
from scrubjay.replay.frame import Frame
from scrubjay.replay.workers import EngineRefused, Workers, WorkerTerminal
from scrubjay.screen.key_shapes import KeyedLines, mask_rows
from scrubjay.screen.picture import DEFAULT_SIZE
from scrubjay.screen.pieces import clean
from scrubjay.screen.snapshot import Row, Snapshot, read_snapshot
from scrubjay.screen.vt import encode_vt
from scrubjay.tape.format import Kind

_PAUSE_US = 150_000  # a screen that stood this long could be read
_LOOK_US = 1_000_000  # while output flows without a pause, what stands is looked at so often
_STOOD_US = 1_000_000  # what is erased and was there for so long was seen
_FEED_BYTES = 128 << 10
_FEED_ROWS = 1500  # that may scroll off between two looks; the engine keeps some thousands
_HISTORY_ROWS = 1000  # a terminal may have before it goes on without
_FED_BYTES = 4 << 20  # as well
_ALL = 1 << 30
_LINES = 256  # in which keys are looked for at once
# Before these the screen must be looked at: it is erased, or a full-screen program leaves it.
_TURN = re.compile(rb"(?=\x1b\[[23]J|\x1bc|\x1b\[\?(?:1049|1047|47)l)")
_ERASES = (b"\x1b[2J", b"\x1b[3J", b"\x1bc")


def encode_text(clip: Clip) -> Iterator[bytes]:
    """The text, a line at a time."""
    with Workers() as workers:
        for part in clip.parts():
            keyed, lines = KeyedLines(), _Reader(clip, part, workers).read()
            while some := list(islice(lines, _LINES)):
                for line in keyed.mask(some):
                    yield clean(line).rstrip().encode() + b"\n"


class _Reader:
    """Walks over one tape and takes its lines."""

    def __init__(self, clip: Clip, part: Part, workers: Workers) -> None:
        self._clip, self._part = clip, part
        self._terminal = WorkerTerminal(workers, *DEFAULT_SIZE)
        self._offset = part.first
        self._pending: list[bytes] = []
        self._pending_bytes = self._pending_rows = self._fed_bytes = 0
        self._state: Snapshot | None = None  # as of the last look
        self._known_rows = 0  # of the history, which were taken
        self._begun = ""  # a line of which more is to come
        self._printed, self._stage = Printed(), Stage()
        self._standing: dict[int, tuple[str, int]] = {}  # rows of the primary screen, and since when they stand

    def read(self) -> Iterator[str]:
        """The lines."""
        if self._part.first:
            self._begin(self._clip.seek(self._clip.start))
        shown_at = looked_at = 0
        for record in self._clip.records_of(self._part):
            if self._is_due(record.at - shown_at, record.at - looked_at) or record.kind == Kind.RESIZE:
                yield from self._read_pending(shown_at)
                looked_at = record.at
                if record.at - shown_at >= _PAUSE_US:
                    self._printed.rest(text for text, _ in self._standing.values())
            self._offset = record.end
            match record.kind:
                case Kind.OUTPUT:
                    self._take_output(record.payload)
                    shown_at = record.at
                case Kind.RESIZE:
                    self._drop_history()  # it would be wrapped anew, and rows could not be counted any more
                    self._terminal.resize(*record.size(), offset=record.end)
                case Kind.HEAD:
                    cols, rows = record.json().get("cols"), record.json().get("rows")
                    if isinstance(cols, int) and isinstance(rows, int):
                        self._terminal.begin(cols, rows, offset=record.end)
                case _:
                    pass
        yield from self._read_pending(shown_at)
        yield from self._finish(shown_at)
        self._terminal.close()

    def _take_output(self, payload: bytes) -> None:
        self._pending.append(payload)
        self._pending_bytes += len(payload)
        self._pending_rows += payload.count(b"\n")

    def _is_due(self, pause_us: int, since_us: int) -> bool:
        if not self._pending:
            return False
        enough = self._pending_bytes >= _FEED_BYTES or self._pending_rows >= _FEED_ROWS
        return enough or pause_us >= _PAUSE_US or since_us >= _LOOK_US

    def _read_pending(self, at: int) -> Iterator[str]:
        """Show what is pending, and take what can be read on the way."""
        pieces = _TURN.split(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = self._pending_rows = 0
        for number, piece in enumerate(pieces):
            if number:
                yield from self._take(at)
                if piece.startswith(_ERASES):
                    yield from self._clear(at)
            self._terminal.feed(piece, offset=self._offset)
            self._fed_bytes += len(piece)
        yield from self._take(at)
        if len(self._history()) > _HISTORY_ROWS or self._fed_bytes > _FED_BYTES:
            self._drop_history()

    def _take(self, at: int) -> Iterator[str]:
        """Take what scrolled off, and of a full-screen program what stands."""
        self._look()
        history = self._history()
        if len(history) < self._known_rows:  # it was erased
            self._known_rows = 0
        yield from self._join(history[self._known_rows :])
        self._known_rows = len(history)
        if self._state is None:
            return
        rows = self._state.screen.rows
        texts = mask_rows([row.text() for row in rows], [row.wrapped for row in rows])
        shown = [text.rstrip() for text in texts]
        if self._state.active == 1:
            yield from self._stage.look(shown, at)
            return
        yield from self._stage.leave(at)
        before = self._standing
        self._standing = {
            y: before[y] if y in before and before[y][0] == text else (text, at) for y, text in enumerate(shown)
        }

    def _clear(self, at: int) -> Iterator[str]:
        """Take what is about to be erased without having scrolled off: what stood, not what was just being drawn."""
        if self._state is None or self._state.active == 1:
            return
        stood = [text for text, since in self._standing.values() if at - since >= _STOOD_US]
        while stood and not stood[-1]:
            stood.pop()
        yield from self._news(stood)
        self._printed.erase()
        self._standing.clear()

    def _finish(self, at: int) -> Iterator[str]:
        """The last screen."""
        yield from self._stage.leave(at)
        if self._state is not None:
            rows = self._state.screens[0].rows
            used = max((y + 1 for y, row in enumerate(rows) if row.text().rstrip()), default=0)
            yield from self._join(rows[:used])
        if self._begun:
            yield from self._news([self._begun])

    def _join(self, rows: Iterable[Row]) -> Iterator[str]:
        """Lines out of the rows they were wrapped into."""
        for row in rows:
            if row.wrapped:
                self._begun += row.text()
            else:
                whole, self._begun = (self._begun + row.text()).rstrip(), ""
                yield from self._news([whole])

    def _news(self, lines: Iterable[str]) -> Iterator[str]:
        return (line for line in lines if self._printed.is_news(line))

    def _history(self) -> list[Row]:
        return self._state.screens[0].history if self._state is not None else []

    def _look(self) -> None:
        snapshot = b""
        with suppress(EngineRefused):
            snapshot = self._terminal.snapshot(history=True)
        if self._terminal.left_out:
            self._clip.doubts.add("the terminal engine failed on what was shown")
        if snapshot:
            self._state = read_snapshot(snapshot, history=_ALL)

    def _drop_history(self) -> None:
        """Go on from the screen alone."""
        if self._state is not None:
            self._begin(self._state)

    def _begin(self, screen: Frame | Snapshot) -> None:
        """Draw a screen on a fresh terminal: restored from a snapshot it would have rows above the screen."""
        data = drawn(screen) if isinstance(screen, Frame) else encode_vt(screen)
        self._terminal.begin(screen.cols, screen.rows, offset=self._offset)
        self._terminal.feed(data, offset=self._offset)
        self._known_rows = self._fed_bytes = 0
        self._look()
