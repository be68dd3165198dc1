"""A clip as a moving drawing, or one instant of it as a still one."""

from __future__ import annotations

from collections.abc import Iterator

from scrubjay.errors import BadInput
from scrubjay.replay.exports.clip import Clip, picture_of
from scrubjay.screen.picture import Picture
from scrubjay.screen.svg import Shot, encode_svg, encode_svg_clip

_EVERY_US = 100_000  # ten frames a second: a drawing that nobody can stop is no place to read fast output
_PAUSE_US = 3_000_000  # nor one to wait: a longer pause is shortened to this
_END_US = 2_000_000  # how long the last screen stands before it begins again
ROWS_MAX = 20_000  # that change in the course of it; a browser takes seconds to draw more


def encode_drawing(clip: Clip) -> Iterator[bytes]:
    """The drawing; BadInput if the clip is too long for one."""
    if clip.start == clip.stop:
        yield encode_svg(picture_of(clip.seek(clip.start))).encode()
        return
    for text in encode_svg_clip(_shots(clip)):
        yield text.encode()


def _shots(clip: Clip) -> Iterator[Shot]:
    last: tuple[int, Picture] | None = None
    changes = 0
    for time, picture, _ in clip.shots(_EVERY_US):
        if last is not None:
            changes += sum(row != before for row, before in zip(picture.lines, last[1].lines, strict=False))
            if changes > ROWS_MAX:
                raise BadInput("this is too much for a drawing", hint="choose less with --from and --to, or use html")
            yield Shot(last[1], min(time - last[0], _PAUSE_US))
        last = time, picture
    if last is not None:
        yield Shot(last[1], min(clip.duration - last[0], _PAUSE_US) + _END_US)
