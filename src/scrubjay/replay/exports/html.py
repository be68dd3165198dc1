"""A clip as one page that plays in any browser, with everything it needs inside.

The page holds every row that was ever shown once, and frames that say which row is where. Rows and frames are data
that the page's own script unpacks; nothing that a program printed stands in the page as markup or script.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterator
from hashlib import blake2b
from importlib import resources

from scrubjay.replay.exports.clip import Clip
from scrubjay.screen.html import SCREEN_CSS, Bit, Sheet, encode_head, policy_hash
from scrubjay.screen.palette import BACKGROUND, FOREGROUND, Ink, Look, ink_of
from scrubjay.screen.picture import Line, Picture
from scrubjay.screen.pieces import clean

_EVERY_US = 40_000  # 25 frames a second are enough for text
_WALL_STEADY_MS = 500  # what a clock may be corrected by without being told
_ICON = '\n<link rel="icon" href="data:,">'  # or a browser asks the site the page is on for one
_SHAPES = {"block": 1, "bar": 2, "underline": 3}


class _List:
    """A JSON array that is compressed as it grows."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(9)
        self._parts: list[bytes] = []
        self.count = 0

    def add(self, value: object) -> int:
        """Append; how many there were before."""
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        self._parts.append(self._packer.compress((b"," if self.count else b"[") + data))
        self.count += 1
        return self.count - 1

    def finish(self) -> bytes:
        """All of it."""
        self._parts.append(self._packer.compress(b"]" if self.count else b"[]"))
        self._parts.append(self._packer.flush())
        return b"".join(self._parts)


class _Film:
    """Screens as rows and frames; page/player.js reads what this writes."""

    def __init__(self) -> None:
        self.sheet = Sheet()
        self.rows, self.frames = _List(), _List()
        self.links: dict[str, int] = {}
        self.walls: list[tuple[int, int]] = []
        self._known: dict[bytes, int] = {}
        self._shown: list[int] = []
        self._lines: tuple[Line, ...] = ()  # that they are the numbers of
        self._ink: Ink | None = None
        self._ms: int = 0
        self._style: int = 0
        self._size: tuple[int, int] = (0, 0)
        self._cursor: tuple[int, int, int] = (0, 0, 0)
        self._row_number(Line(()), Ink(FOREGROUND, BACKGROUND, ()))

    def add(self, ms: int, picture: Picture, wall_ms: int | None) -> None:
        """One more screen."""
        ink = ink_of(picture)
        same = ink == self._ink
        shown = [
            self._shown[y] if same and y < len(self._lines) and line == self._lines[y] else self._row_number(line, ink)
            for y, line in enumerate(picture.lines)
        ]
        self._lines, self._ink = picture.lines, ink
        size = (picture.cols, picture.rows)
        before = self._shown if size == self._size else [*self._shown[: picture.rows], *[0] * picture.rows]
        changes = [part for y, row in enumerate(shown) if row != before[y] for part in (y, row)]
        cursor = picture.cursor
        place = (cursor.x, cursor.y, _SHAPES.get(cursor.shape, 1) if cursor.visible else 0)
        style = self._screen_style(ink)
        frame: list[object] = [
            ms - self._ms,
            changes or 0,
            place if place != self._cursor else 0,
            size if size != self._size else 0,
            style + 1 if style != self._style else 0,
        ]
        while frame[-1] == 0 and len(frame) > 1:
            frame.pop()
        self.frames.add(frame)
        self._ms, self._shown, self._size, self._cursor, self._style = ms, shown, size, place, style
        if wall_ms is not None and abs(wall_ms - ms - self._wall_offset) > _WALL_STEADY_MS:
            self.walls.append((ms, wall_ms))

    @property
    def _wall_offset(self) -> int:
        return self.walls[-1][1] - self.walls[-1][0] if self.walls else -(1 << 60)

    def _screen_style(self, ink: Ink) -> int:
        if (ink.fg, ink.bg) == (FOREGROUND, BACKGROUND):
            return 0
        return self.sheet.number(Look(ink.fg, ink.bg))

    def _row_number(self, line: Line, ink: Ink) -> int:
        row = [self._bit(bit) for bit in self.sheet.bits(line, ink)]
        # Only a digest is kept: a long recording shows more rows than a program should hold.
        key = blake2b(repr(row).encode("utf-8", "replace"), digest_size=16).digest()
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self.rows.add(row)
        return number

    def _bit(self, bit: Bit) -> object:
        if bit.link is not None:
            return (bit.text, bit.style, bit.cells, self.links.setdefault(bit.link, len(self.links)))
        if bit.cells:
            return (bit.text, bit.style, bit.cells)
        return (bit.text, bit.style) if bit.style else bit.text


def encode_player(clip: Clip) -> Iterator[bytes]:
    """The page."""
    film = _Film()
    for time, picture, frame in clip.shots(_EVERY_US):
        film.add(time // 1000, picture, frame.wall_us // 1000 if frame.wall_us is not None else None)
    about = {
        "title": clip.name,
        "duration": clip.duration // 1000,
        "marks": [(mark.time // 1000, clean(mark.label)) for mark in clip.marks()],
        "walls": film.walls,
        "links": list(film.links),
    }
    css = "\n".join((SCREEN_CSS, film.sheet.css(), _read("player.css")))
    script = _read("player.js")
    policy = f"; script-src {policy_hash(script)}; img-src data:; base-uri 'none'; form-action 'none'"
    head = encode_head(clip.name, css, policy=policy, more=_ICON)
    yield f"{head}<body>\n{_read('player.html')}".encode()
    yield from _data("about", zlib.compress(json.dumps(about, ensure_ascii=False).encode(), 9))
    yield from _data("rows", film.rows.finish())
    yield from _data("frames", film.frames.finish())
    yield f"<script>{script}</script>\n</body>\n</html>\n".encode()


def _data(name: str, packed: bytes) -> Iterator[bytes]:
    yield f'<script type="text/plain" id="{name}">'.encode()
    yield b64encode(packed)
    yield b"</script>\n"


def _read(name: str) -> str:
    return (resources.files("scrubjay.replay.exports") / "page" / name).read_text("utf-8")
