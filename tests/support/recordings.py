"""Tapes to be replayed, and what a terminal shows that was fed all of them from the start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import cast

from scrubjay.replay.frame import Frame
from scrubjay.replay.keyframes import Keyframes
from scrubjay.replay.replay import Progress, Replay
from scrubjay.replay.workers import Workers
from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.snapshot import WIDE_HEAD, Row, ScreenState, Snapshot, read_snapshot
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_size
from scrubjay.tape.record import Record
from tests.support.tapes import Content, TapeOnDisk, make_tape

WALL_US = 1_763_172_000_000_000


def head(cols: int, rows: int) -> Content:
    """The first record of a tape."""
    return int(Kind.HEAD), 0, encode_json(format=1, argv=["agent"], cols=cols, rows=rows, wall=WALL_US)


def output(at: int, data: bytes) -> Content:
    """Something shown."""
    return int(Kind.OUTPUT), at, data


def resize(at: int, cols: int, rows: int) -> Content:
    """Another size."""
    return int(Kind.RESIZE), at, encode_size(cols, rows)


def mark(at: int, label: str) -> Content:
    """A label."""
    return int(Kind.MARK), at, encode_json(label=label, author="ann")


def cut_up(rng: Random, data: bytes, *, largest: int = 4096, start: int = 1000) -> list[Content]:
    """A stream as records of any size at growing times, some at the same instant."""
    contents: list[Content] = []
    position, at = 0, start
    while position < len(data):
        size = rng.choice((1, 3, 50, 500, largest))
        contents.append(output(at, data[position : position + size]))
        position += size
        at += rng.choice((0, 100, 5_000, 200_000, 3_000_000))
    return contents


def open_replay(tape: TapeOnDisk, workers: Workers, *, progress: Progress = lambda _done, _all: None) -> Replay:
    """A replay of a tape."""
    return Replay(tape.open(), Keyframes(tape.root, tape.id, workers.identity), workers, progress=progress)


def record_tape(root: Path, contents: Iterable[Content]) -> TapeOnDisk:
    """A tape that has ended."""
    return make_tape(root, contents)


def shown_by(records: Iterable[Record], *, until_at: int | None = None, until_offset: int | None = None) -> Terminal:
    """A terminal that was fed everything up to an instant or the bytes up to an offset, without any keyframe."""
    terminal = Terminal(80, 24)
    for record in records:
        if until_at is not None and record.at > until_at:
            break
        payload = record.payload
        if until_offset is not None and record.end > until_offset:
            payload = payload[: max(0, until_offset - record.offset - 13)]
            if record.kind != Kind.OUTPUT:
                break
        if record.kind == Kind.HEAD:
            terminal.close()
            terminal = Terminal(int(str(record.json()["cols"])), int(str(record.json()["rows"])))
        elif record.kind == Kind.RESIZE:
            terminal.resize(*record.size())
        elif record.kind == Kind.OUTPUT and payload:
            terminal.feed(payload)
        if until_offset is not None and record.end >= until_offset:
            break
    return terminal


def everything(snapshot: bytes, *, history: int = 0) -> dict[str, object]:
    """All a screen holds, in a form that can be compared: ids and pages of the engine are resolved."""
    state = read_snapshot(snapshot, history=history)
    return {
        "size": (state.cols, state.rows),
        "margins": (state.top, state.bottom),
        "active": state.active,
        "modes": state.modes,
        "colours": (state.fg, state.bg, state.cursor_colour, sorted(state.palette.items())),
        "tabs": state.tabs,
        "title": state.title,
        "cwd": state.pwd,
        "unfinished": state.continuation,
        **{f"screen {key}": _screen(state, screen, history) for key, screen in state.screens.items()},
    }


def _screen(state: Snapshot, screen: ScreenState, history: int) -> dict[str, object]:
    saved = screen.saved
    return {
        "cursor": (screen.cursor_x, screen.cursor_y, screen.cursor_shape, screen.cursor_flags, screen.pen),
        "charsets": screen.charsets,
        "saved": None if saved is None else (saved.x, saved.y, saved.style, saved.flags, saved.charsets),
        "link": screen.link and screen.link.uri,
        "rows": [_row(row, wraps=history > 0) for row in screen.rows],
        "history": [_row(row, wraps=True) for row in screen.history[-history:]] if history else [],
    }


def _row(row: Row, *, wraps: bool) -> tuple[object, ...]:
    # A blank where a wide character did not fit looks like any other blank.
    cells = [(c.content, c.kind >> 1, c.style, c.width % WIDE_HEAD, c.link and c.link.uri, c.more) for c in row.cells()]
    while cells and cells[-1] == (0, 0, None, 0, None, ()):
        cells.pop()
    # A terminal that keeps no scrollback forgets on CSI S that a row goes on in the next. That shows only when it is
    # resized, and after a resize there is a keyframe.
    return (row.wrapped and wraps, *cells)


def differences(one: bytes, other: bytes, *, history: int = 0) -> list[str]:
    """What two snapshots do not have in common, in words."""
    a, b = everything(one, history=history), everything(other, history=history)
    found: list[str] = []
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            found.append(_describe(name, a.get(name), b.get(name)))
    return found


def _describe(name: str, a: object, b: object) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        one, other = cast(dict[str, object], a), cast(dict[str, object], b)
        parts = [part for part in one if one[part] != other.get(part)]
        return f"{name}: {parts} {[(one[part], other.get(part)) for part in parts][:1]!r:.600}"
    return f"{name}: {a!r:.200} / {b!r:.200}"


def truth_of(frame: Frame, tape: TapeOnDisk) -> bytes | None:
    """What a terminal holds that was fed everything up to a frame."""
    terminal = shown_by(tape.open().records(), until_offset=frame.offset)
    try:
        return terminal.snapshot(history=True)
    finally:
        terminal.close()
