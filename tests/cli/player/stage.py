"""The player in a window that nobody sees, with a clock that moves when it is told to."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import ParamSpec

from textual import events
from textual.pilot import Pilot

from scrubjay.cli.player.app import Player, Start
from scrubjay.cli.player.bars import StatusBar, TimelineBar
from scrubjay.cli.player.film import Tools
from scrubjay.cli.player.prompt import Prompt
from scrubjay.cli.player.screen_view import ScreenView
from scrubjay.replay.instants import SECOND_US
from tests.cli.player.films import FakeFilm
from tests.support.conditions import DEADLINE_S

_NAMES = {" ": "space", ".": "full_stop", "%": "percent_sign", "-": "minus", "/": "slash"}
_CHARACTERS = {name: character for character, name in _NAMES.items()}
_Arguments = ParamSpec("_Arguments")


def scenario(test: Callable[_Arguments, Coroutine[None, None, None]]) -> Callable[_Arguments, None]:
    """Let a test be a coroutine."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Stage:
    """A player and what is to be seen of it."""

    def __init__(self, film: FakeFilm, start: Start, tools: Tools) -> None:
        self.now_s = 100.0
        self.film = film
        self.player = Player(film, start, tools, clock=lambda: self.now_s)
        self.pilot: Pilot[None] | None = None

    @property
    def view(self) -> ScreenView:
        return self.player.query_one(ScreenView)

    @property
    def status(self) -> str:
        return self.player.query_one(StatusBar).text

    @property
    def prompt(self) -> Prompt:
        return self.player.query_one(Prompt)

    @property
    def timeline(self) -> str:
        bar = self.player.query_one(TimelineBar)
        return "\n".join(bar.render_line(y).text for y in range(bar.size.height))

    @property
    def screen(self) -> str:
        """The text of the recorded screen as far as it is drawn."""
        edge = self.view.picture.cols
        rows = [self.view.render_line(y).text[:edge].rstrip() for y in range(self.view.size.height)]
        return "\n".join(rows).rstrip("\n")

    async def press(self, *keys: str) -> None:
        """Press keys as fast as a terminal sends them."""
        assert self.pilot is not None
        for key in keys:
            character = key if len(key) == 1 else _CHARACTERS.get(key)
            self.player.post_message(events.Key(key, character))
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type an answer and send it off."""
        await self.press(*[_NAMES.get(character, character) for character in text], "enter")

    async def until(self, condition: Callable[[], bool], *, passing_s: float = 0.0) -> None:
        """Wait until something holds; ``passing_s`` go by on the player's clock before each look.

        What a player does every second it may be doing already when the clock is moved once.
        """
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, (self.status, self.screen)
            self.now_s += passing_s
            await asyncio.sleep(0.005)

    async def sees(self, *texts: str) -> None:
        """Wait until all texts are on the recorded screen."""
        await self.until(lambda: all(text in self.screen for text in texts))

    async def reads(self, *texts: str, passing_s: float = 0.0) -> None:
        """Wait until all texts are in the line of words."""
        await self.until(lambda: all(text in self.status for text in texts), passing_s=passing_s)


@asynccontextmanager
async def on_stage(
    film: FakeFilm,
    *,
    size: tuple[int, int] = (80, 24),
    at_s: float = 0.0,
    playing: bool = False,
    speed: float = 1.0,
    idle_limit_s: float = 2.0,
    tools: Tools | None = None,
    say: str = "",
) -> AsyncGenerator[Stage]:
    """A player that has drawn its first picture."""
    start = Start("pod", round(at_s * SECOND_US), speed, idle_limit_s, playing=playing, say=say)
    stage = Stage(film, start, tools or Tools())
    async with stage.player.run_test(size=size) as pilot:
        stage.pilot = pilot
        await stage.until(lambda: bool(film.seeks) and stage.status.strip() != "")
        await stage.reads(" / ")
        yield stage
