"""Ask xterm.js what it shows, for all recordings in one process (tests/js/judge.mjs)."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from scrubjay.screen.ghostty import Terminal, widths
from scrubjay.screen.picture import Line, Picture, Style
from scrubjay.screen.snapshot import read_snapshot
from scrubjay.screen.vt import encode_vt
from tests.support.corpus import Recording, Resize
from tests.support.paths import JS

_JS = JS
LOOKS = 20  # at each recording
TAIL_BYTES = 256 << 10  # between a keyframe and the instant, at most: as far apart as keyframes are made


class Run(NamedTuple):
    """Neighbouring cells that look the same."""

    cells: int
    style: Style
    link: str | None


class Row(NamedTuple):
    """What can be seen of a row: its characters, blanks included, and how they look."""

    text: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be seen of a screen."""

    rows: tuple[Row, ...]
    cursor: tuple[int, int, bool]
    alternate: bool
    wrapped: tuple[bool, ...]  #: whether each row continues the one before


class Stream(NamedTuple):
    """The output of a program in one piece."""

    name: str
    data: bytes
    sizes: tuple[tuple[int, int, int], ...]  #: offset, columns, rows; the first at the start

    def last_resize(self, at: int) -> int:
        """The offset of the last resize before or at an offset."""
        return max(offset for offset, _, _ in self.sizes if offset <= at)


@dataclass(frozen=True, slots=True)
class Look:
    """One instant of a stream."""

    stream: Stream
    at: int  #: bytes of output shown
    start: int  #: of which our keyframe stands for the first
    ours: Seen
    whole: Seen  #: by xterm.js, fed all bytes from the start
    rebuilt: Seen  #: by xterm.js, fed our keyframe and the bytes since
    replies: str  #: of xterm.js to the latter


def join(recording: Recording) -> Stream:
    """The recording as a stream."""
    data = bytearray()
    sizes = [(0, *recording.size)]
    for event in recording.events:
        if isinstance(event, Resize):
            sizes.append((len(data), event.cols, event.rows))
        else:
            data += event.data
    return Stream(recording.name, bytes(data), tuple(sizes))


def choose_instants(stream: Stream) -> list[tuple[int, int]]:
    """Where to look, and where the keyframe is from; the same for a stream whenever it is asked for."""
    rng = random.Random(stream.name)
    ats = sorted([rng.randrange(len(stream.data) + 1) for _ in range(LOOKS)])
    return [(at, rng.randint(max(stream.last_resize(at), at - TAIL_BYTES), at)) for at in ats]


def judge(streams: Iterable[tuple[Stream, list[tuple[int, int]]]], *, whole: bool = True) -> Iterator[Look]:
    """Look at each stream at its instants, which are in order; without ``whole`` at what our keyframes show alone."""
    ours: list[tuple[Stream, list[tuple[int, int]], list[Seen]]] = []
    with tempfile.TemporaryFile("w+") as answers:
        node = subprocess.Popen(["node", _JS / "judge.mjs"], stdin=subprocess.PIPE, stdout=answers, text=True)
        with node:
            assert node.stdin is not None
            print(json.dumps(widths()), file=node.stdin)
            for stream, instants in streams:
                job, seen = _show(stream, instants)
                ours.append((stream, instants, seen))
                print(json.dumps({"whole": whole, **job}), file=node.stdin)
        assert node.returncode == 0, "node failed; has `npm ci` been run in tests/js?"
        answers.seek(0)
        for (stream, instants, mine), line in zip(ours, answers, strict=True):
            answer = json.loads(line)
            rows = [_read_row(text, runs) for text, runs in answer["rows"]]
            for (at, start), seen, theirs in zip(instants, mine, answer["looks"], strict=True):
                rebuilt = _read_seen(theirs["rebuilt"], rows)
                all_bytes = _read_seen(theirs["whole"], rows) if whole else rebuilt
                yield Look(stream, at, start, seen, all_bytes, rebuilt, theirs["replies"])


def _show(stream: Stream, instants: list[tuple[int, int]]) -> tuple[dict[str, Any], list[Seen]]:
    """The job for the judge, and what the engine shows."""
    snapshots = dict(_snapshots(stream, sorted({offset for instant in instants for offset in instant})))
    looks: list[dict[str, Any]] = []
    for at, start in instants:
        state = read_snapshot(snapshots[start])
        keyframe = _base64(encode_vt(state))
        looks.append({"at": at, "from": start, "cols": state.cols, "rows": state.rows, "keyframe": keyframe})
    seen = [see(read_snapshot(snapshots[at]).picture()) for at, _ in instants]
    return {"data": _base64(stream.data), "resizes": stream.sizes, "looks": looks}, seen


def _snapshots(stream: Stream, offsets: list[int]) -> Iterator[tuple[int, bytes]]:
    """The engine's snapshot after that many bytes, and after any resize there."""
    _, cols, rows = stream.sizes[0]
    terminal = Terminal(cols, rows)
    sizes = list(stream.sizes[1:])
    position = 0
    for offset in offsets:
        while sizes and sizes[0][0] <= offset:
            resized, cols, rows = sizes.pop(0)
            terminal.feed(stream.data[position:resized])
            terminal.resize(cols, rows)
            position = resized
        terminal.feed(stream.data[position:offset])
        position = offset
        snapshot = terminal.snapshot(history=False)
        assert snapshot is not None, f"no snapshot of {stream.name} at {offset}"
        yield offset, snapshot
    terminal.close()


def see(picture: Picture) -> Seen:
    """What can be seen of a picture."""
    rows = tuple([_see_line(line, picture.cols) for line in picture.lines])
    wrapped = (False, *(line.wrapped for line in picture.lines[:-1]))
    return Seen(rows, picture.cursor[:3], picture.alternate, wrapped)


def _see_line(line: Line, cols: int) -> Row:
    runs = [Run(span.cells, span.style, span.link) for span in line.spans]
    rest = cols - sum(run.cells for run in runs)
    text = "".join([span.text for span in line.spans]) + " " * rest
    return Row(text, _merge([*runs, Run(rest, Style(), None)]))


def _merge(runs: list[Run]) -> tuple[Run, ...]:
    merged: list[Run] = []
    for cells, style, link in runs:
        if not cells:
            continue
        if not style.underline:
            style = style._replace(underline_colour=-1)  # xterm.js keeps it only where there is an underline
        if merged and merged[-1][1:] == (style, link):
            cells += merged.pop().cells
        merged.append(Run(cells, style, link))
    return tuple(merged)


def _read_row(text: str, flat: list[Any]) -> Row:
    runs = [Run(flat[i], Style(*flat[i + 1 : i + 6]), flat[i + 6]) for i in range(0, len(flat), 7)]
    return Row(text, _merge(runs))


def _read_seen(answer: dict[str, Any], rows: list[Row]) -> Seen:
    x, y, visible = answer["cursor"]
    wrapped = tuple(flag == "1" for flag in answer["wrapped"])
    numbers: list[int] = answer["rows"]
    return Seen(tuple([rows[number] for number in numbers]), (x, y, visible), answer["alternate"], wrapped)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
