"""A film in which everything that can be text is an attack. Run as a program, it is played in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from scrubjay.cli.player.app import Player, Start
from scrubjay.cli.player.film import Doing, Found, Tools
from scrubjay.errors import BadInput
from scrubjay.replay.frame import Frame, Idle, Mark, Timeline
from scrubjay.replay.instants import SECOND_US, Moment
from scrubjay.screen.ghostty import Terminal

ATTACKS = (
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b]52;c;?\x1b\\",
    "\x1b]0;title\x07\x1b]2;title\x1b\\\x1b[21t",
    "\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]8;;file:///etc/passwd\x07link\x1b]8;;\x07",
    "\x1b]1337;File=name=eA==:AAAA\x07",
    "\x1b]9;note\x07\x1b]777;notify;a;b\x07\x1b]99;;c\x1b\\",
    "\x1b]4;1;?\x07\x1b]10;?\x07\x1b]11;?\x07",
    "\x1bP$qm\x1b\\\x1bPq#0;2;0;0;0~\x1b\\",
    "\x1b_Ga=T,f=24;AAAA\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\",
    "\x1b[?1049h\x1b[?1049l\x1bc\x1b[!p\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[?u",
    "\x1b[?1000h\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[2J\x1b[3J\x1b[10;10H\x1b[5i",
    "\x9d52;c;aGVsbG8=\x9c\x9b6n\x90$qm\x9c\x9fG\x9c",
    "\x05\x07\x08\x0e\x0f\x11\x13\x1a\x00\x7f\r",
    "a\u202eb\u2066c\u200bd\u200ee\ufefff\u2028g",
    "tag \U000e0041\U000e0042 variation \u26a0\ufe0f family \U0001f468\u200d\U0001f469",
    "[@click=app.quit]markup[/] [link='https://evil.test']link[/]",
    "\ud800 lone",
)
ALL = " ".join(ATTACKS)
_STEPS = len(ATTACKS)
_TITLE = b"\x1b]2;" + b"T" * (1 << 20) + b"\x07"


class HostileFilm:
    """Odd seconds show attacks as the engine drew them, even seconds as if it had let them through."""

    duration = _STEPS * SECOND_US
    live = False
    indexed = True

    def seek(self, time: int, *, history: int = 0) -> Frame:
        second = min(_STEPS - 1, max(0, time // SECOND_US))
        attack = ATTACKS[second]
        snapshot = b""
        if second % 2:
            terminal = Terminal(80, 24)
            terminal.feed(_TITLE + attack.encode("utf-8", "replace") * 50)
            snapshot = terminal.snapshot(history=bool(history)) or b""
            terminal.close()
        return Frame(
            tape="a" * 26,
            at=second * SECOND_US,
            offset=second + 1,
            time=second * SECOND_US,
            wall_us=None,
            cols=80,
            rows=24,
            snapshot=snapshot,
            text="\n".join([attack * 3, "漢" + attack, "x" * 200]),
            history=history,
            unavailable=attack if second % 3 == 0 else None,
            doubtful=attack if second % 3 == 1 else None,
        )

    def seek_offset(self, offset: int) -> Frame:
        return self.seek(offset * SECOND_US)

    def step(self, frame: Frame, *, forward: bool) -> Frame | None:
        return self.seek(frame.time + (SECOND_US if forward else -SECOND_US))

    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        yield from (self.seek(time) for time in range(start, stop, SECOND_US))

    def next_mark(self, time: int) -> Mark | None:
        return Mark(min(self.duration, time + SECOND_US), ALL, ALL)

    def previous_mark(self, time: int) -> Mark | None:
        return Mark(max(0, time - SECOND_US), ALL, ALL)

    def timeline(self, parts: int) -> Timeline:
        marks = tuple(Mark(second * SECOND_US, ALL, ALL) for second in range(_STEPS))
        return Timeline(self.duration, (0.5,) * parts, marks, (Idle(0, SECOND_US),), (5 * SECOND_US,))

    def locate(self, raw: str) -> Moment:
        if "bad" in raw:
            raise BadInput(ALL, hint=ALL)
        return Moment(3 * SECOND_US, clamped=ALL)

    def wall_us(self, time: int) -> int | None:
        return None

    def refresh(self) -> None:
        pass

    def index(self) -> None:
        pass


def _export(start: int, stop: int, path: Path) -> str:
    return ALL


def _find(text: str) -> list[Found]:
    return [Found(second * SECOND_US, ALL) for second in range(_STEPS)]


def _mark(time: int, label: str) -> Mark:
    return Mark(time, ALL, ALL)


def _doings() -> list[Doing]:
    return [Doing(second * SECOND_US, ALL, asks=second % 2 == 0) for second in range(_STEPS)]


if __name__ == "__main__":
    player = Player(HostileFilm(), Start(ALL, say=ALL, speed=8.0), Tools(_find, _mark, _export, _doings))
    player.run()
    sys.exit(1 if player.failure else 0)
