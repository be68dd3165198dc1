"""Clips of tapes for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.reel import Reel, Source
from scrubjay.replay.workers import Workers
from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.snapshot import read_picture
from tests.support.corpus import Output, Recording
from tests.support.recordings import head, output, resize
from tests.support.tapes import Content, make_tape

SECOND = 1_000_000


def make_clip(
    root: Path, workers: Workers, *tapes: list[Content], start: int = 0, stop: int | None = None, name: str = "pod"
) -> Clip:
    """A part, by default all, of tapes that follow one another."""
    made = [make_tape(root / str(number), contents, "abcdefg"[number] * 26) for number, contents in enumerate(tapes)]
    reel = Reel([Source(tape.open(), tape.root, lambda: False) for tape in made], workers)
    return Clip(reel, [tape.open() for tape in made], name, start, reel.duration if stop is None else stop)


def part_of(clip: Clip, start: int, stop: int) -> Clip:
    """A part of the same reel."""
    return Clip(clip.reel, clip.tapes, clip.name, start, stop)


def contents_of(recording: Recording) -> list[Content]:
    """A recording of an agent as a tape."""
    events = [
        output(event.at_us, event.data) if isinstance(event, Output) else resize(event.at_us, event.cols, event.rows)
        for event in recording.events
    ]
    return [head(*recording.size), *events]


def text_at(clip: Clip, time: int) -> str:
    """What the reel shows then."""
    return clip.reel.seek(time).picture.text


def text_after(events: Sequence[tuple[str, str]], cols: int, rows: int) -> str:
    """What a terminal shows after output and resizes."""
    terminal = Terminal(cols, rows)
    try:
        for code, data in events:
            if code == "o":
                terminal.feed(data.encode())
            elif code == "r":
                terminal.resize(*(int(side) for side in data.split("x")))
        snapshot = terminal.snapshot(history=False)
        return terminal.text(0) if snapshot is None else read_picture(snapshot).text
    finally:
        terminal.close()
