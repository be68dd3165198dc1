"""What the person is asked: where to go, what to find, what to mark, what to export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from scrubjay.cli.player.film import Film, Found, Tools
from scrubjay.cli.player.projector import Audience, Projector
from scrubjay.cli.player.prompt import Question
from scrubjay.errors import BadInput
from scrubjay.replay.instants import SECOND_US, Moment

_CLIP_US = 30 * SECOND_US
_TIMES = "12.5s  1h2m  50%  -10m  02:14:07  2026-11-15T02:14"


def spell_span(us: int) -> str:
    """A span as it may be typed: ``1h2m3.5s``."""
    seconds, part = divmod(us, SECOND_US)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    small = f"{seconds}.{part // 1000:03d}".rstrip("0").rstrip(".") + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + small


@dataclass(slots=True)
class Cut:
    """The part to export, as far as the person has set it."""

    start: int | None = None
    stop: int | None = None

    def around(self, position: int) -> tuple[int, int]:
        """Where it begins and ends: what was set, else the last half minute."""
        stop = self.stop if self.stop is not None else max(position, self.start or 0)
        return self.start if self.start is not None else max(0, stop - _CLIP_US), stop


class Questions:
    """Each method is a question to begin with."""

    def __init__(
        self,
        film: Film,
        projector: Projector,
        tools: Tools,
        audience: Audience,
    ) -> None:
        self._film, self._projector, self._tools, self._audience = film, projector, tools, audience

    def go_to(self) -> Question:
        """Where to go."""

        async def answer(raw: str) -> None:
            if raw.strip():
                moment = await self._locate(raw)
                self._projector.go(moment.time)
                if moment.clamped:
                    self._audience.say(moment.clamped)

        return Question("go to", answer, hint=_TIMES)

    def search(self, take: Callable[[str, list[Found]], None]) -> Question:
        """What to find; an empty answer forgets what was found."""

        async def answer(raw: str) -> None:
            text, find = raw.strip(), self._tools.find
            if not text or find is None:
                take("", [])
                return
            found = await self._projector.ask(lambda: find(text))
            if not found:
                raise BadInput(f"nothing in this recording matches {text!r}", hint="change it, or leave with esc")
            take(text, found)

        return Question("search", answer)

    def mark(self, done: Callable[[], None]) -> Question:
        """How to label this moment."""

        async def answer(raw: str) -> None:
            put, label = self._tools.mark, raw.strip()
            if not label or put is None:
                return
            position = self._projector.position
            mark = await self._projector.ask(lambda: put(position, label))
            self._audience.say(f"marked {spell_span(mark.time)}: {mark.label}")
            done()

        where = "label for this very moment of the pod" if self._projector.live else "label"
        return Question("mark", answer, hint=where)

    def export(self, cut: Cut, name: str) -> Question:
        """From where, to where, into which file."""
        start, stop = cut.around(self._projector.position)

        async def take_start(raw: str) -> Question:
            begin = (await self._locate(raw)).time
            return Question("clip to", lambda raw: take_stop(begin, raw), spell_span(max(stop, begin)), _TIMES)

        async def take_stop(begin: int, raw: str) -> Question:
            end = (await self._locate(raw)).time
            if end <= begin:
                raise BadInput("the clip would end before it begins", hint=f"it begins at {spell_span(begin)}")
            return ask_file(begin, end, f"{name}-{spell_span(begin)}.cast")

        def ask_file(begin: int, end: int, value: str) -> Question:
            return Question("write to", lambda raw: take_file(begin, end, raw), value)

        async def take_file(begin: int, end: int, raw: str) -> Question | None:
            path = Path(raw.strip()).expanduser()
            if not raw.strip() or path.is_dir():
                raise BadInput(f"{raw.strip() or 'nothing'} is not the name of a file", hint="leave with esc")
            if not path.parent.is_dir():
                raise BadInput(f"there is no directory {path.parent}", hint="make it first, or choose another")
            if path.exists():
                return Question(f"{path.name} exists, replace it? y/n", lambda raw: confirm(begin, end, path, raw))
            self._audience.spawn(partial(self._write, begin, end, path))
            return None

        async def confirm(begin: int, end: int, path: Path, raw: str) -> Question | None:
            if raw.strip().lower() not in ("y", "yes"):
                return ask_file(begin, end, str(path))
            self._audience.spawn(partial(self._write, begin, end, path))
            return None

        return Question("clip from", take_start, spell_span(start), _TIMES)

    async def _write(self, begin: int, end: int, path: Path) -> None:
        export = self._tools.export
        assert export is not None
        self._audience.say(f"exporting {path.name}…")
        try:
            self._audience.say(await self._projector.ask(lambda: export(begin, end, path)))
        except OSError as error:
            self._audience.say(f"cannot write {path}: {error.strerror}")

    async def _locate(self, raw: str) -> Moment:
        def locate() -> Moment:
            moment = self._film.locate(raw)
            if moment.offset is None:
                return moment
            return replace(moment, time=self._film.seek_offset(moment.offset).time)

        return await self._projector.ask(locate)
