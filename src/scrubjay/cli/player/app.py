"""The player: keys in, a window out."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import WorkerFailed

from scrubjay.cli.player.bars import StatusBar, TimelineBar
from scrubjay.cli.player.film import Doing, Film, Found, Tools
from scrubjay.cli.player.hang_up import end_with_terminal
from scrubjay.cli.player.help import Help
from scrubjay.cli.player.projector import Projector, View
from scrubjay.cli.player.prompt import Prompt
from scrubjay.cli.player.questions import Cut, Questions
from scrubjay.cli.player.screen_view import ScreenView
from scrubjay.cli.player.status import Status
from scrubjay.cli.player.timeline import Signs
from scrubjay.cli.player.transport import Transport
from scrubjay.errors import ScrubjayError
from scrubjay.query import parse_query
from scrubjay.replay.instants import SECOND_US

_TICK_S = 0.04  # 25 pictures a second are enough for text, and for a slow line
_SURVEY_EVERY_S = 1.0  # how often the line of time of a running pod is drawn anew
_SAY_S = 4.0
_HISTORY_ROWS = 1000
_PAN_COLS, _PAN_ROWS = 8, 3
_TWO_ROWS_FROM = 16  # rows of a window in which the line of time may take two
_ALWAYS = frozenset({"leave", "suspend"})  # what keys do in the middle of an answer too


@dataclass(frozen=True, slots=True)
class Start:
    """How the player begins."""

    name: str  #: of the pod
    at: int = 0  #: microseconds on the reel
    speed: float = 1.0
    idle_limit_s: float = 2.0  #: 0 to sit through everything
    playing: bool = True
    say: str = ""  #: what the person should know at once


def play(player: Player) -> int:
    """Run it to its end and give the terminal back; the exit code. What made it fail is raised."""
    end_with_terminal(sys.stdin.fileno())
    player.run()
    # Textual leaves the mouse counting in pixels where a terminal can; the next program would be surprised.
    sys.stderr.write("\x1b[?1016l")
    sys.stderr.flush()
    if player.failure is not None:
        raise player.failure
    return player.return_code or 0


def _key(key: str, action: str) -> Binding:
    # With priority, keys are taken one after another: what is typed right after "g" belongs to the answer.
    return Binding(key, action, show=False, priority=True)


class Player(App[None]):
    """Plays one film."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False  # what is selected could be copied, and this never touches a clipboard
    AUTO_FOCUS = None
    CSS = "Screen { background: ansi_default; overflow: hidden; } Help { background: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("q", "quit"),
        _key("ctrl+c,ctrl+q", "leave"),
        _key("ctrl+z", "suspend"),
        _key("space", "play_or_pause"),
        _key("left", "jump(-5)"),
        _key("right", "jump(5)"),
        _key("shift+left", "jump(-60)"),
        _key("shift+right", "jump(60)"),
        _key("full_stop", "step(True)"),
        _key("comma", "step(False)"),
        _key("right_square_bracket", "to_mark(True)"),
        _key("left_square_bracket", "to_mark(False)"),
        _key("w", "to_question(True)"),
        _key("W", "to_question(False)"),
        _key("greater_than_sign", "change_speed(True)"),
        _key("less_than_sign", "change_speed(False)"),
        *[_key(str(tenth), f"tenth({tenth})") for tenth in range(10)],
        _key("home", "tenth(0)"),
        _key("end", "follow"),
        _key("slash", "search"),
        _key("n", "to_hit(True)"),
        _key("N", "to_hit(False)"),
        _key("g", "go_to"),
        _key("m", "mark"),
        _key("i", "cut(True)"),
        _key("o", "cut(False)"),
        _key("e", "export"),
        _key("h", f"pan(-{_PAN_COLS}, 0)"),
        _key("l", f"pan({_PAN_COLS}, 0)"),
        _key("k,shift+up", f"pan(0, -{_PAN_ROWS})"),
        _key("j,shift+down", f"pan(0, {_PAN_ROWS})"),
        _key("pageup", "look_back"),
        _key("pagedown", "look_forward"),
        _key("escape", "release"),
        _key("f", "screen_only"),
        _key("question_mark", "help"),
    ]

    def __init__(
        self,
        film: Film,
        start: Start,
        tools: Tools | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)  # the person's own sixteen colours
        self.theme = "ansi-dark"
        self._start, self._tools, self._clock = start, tools or Tools(), clock
        self._screen_view, self._timeline_bar = ScreenView(), TimelineBar()
        self._status_bar, self._prompt = StatusBar(), Prompt(self._arrange)
        self._cut = Cut()
        self._query, self._hits, self._hit_times = "", list[Found](), tuple[int, ...]()
        self._doings, self._asked = list[Doing](), tuple[int, ...]()
        self._said, self._said_until_s = start.say, clock() + 2 * _SAY_S
        self._screen_only = False
        self._pages_back, self._to_reveal = 0, False  # what to do once the next picture is here
        self._surveying, self._surveyed_s = False, clock()
        transport = Transport(time=start.at, speed=start.speed)
        idle_limit_us = round(start.idle_limit_s * SECOND_US)
        self._projector = Projector(film, transport, self, clock, idle_limit_us=idle_limit_us)
        self._questions = Questions(film, self._projector, self._tools, self)

    def compose(self) -> ComposeResult:
        """Screen above, lines below."""
        yield self._screen_view
        yield self._timeline_bar
        yield self._status_bar
        yield self._prompt

    async def on_mount(self) -> None:
        """Begin."""
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.spawn(self._begin)

    async def _begin(self) -> None:
        await self._projector.survey(1)  # which tells how long it is
        self._projector.go(self._start.at)
        if self._start.playing:
            self._projector.play()
        self.set_interval(_TICK_S, self._tick)
        await self._survey()

    def on_unmount(self) -> None:
        """End."""
        self._projector.close()

    @property
    def failure(self) -> BaseException | None:
        """What ended the player, if it was not the person."""
        return self._exception.error if isinstance(self._exception, WorkerFailed) else self._exception

    def _fatal_error(self) -> None:
        # Textual would print pages of traceback; the command says it in one line.
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """Never: it may be text of the recording."""

    def _set_pointer_shape(self, shape: str) -> None:
        # Textual would send OSC 22; only what is needed to draw is sent.
        pass

    def show(self, view: View) -> None:
        """Draw a view."""
        self._screen_view.show(view.picture)
        if self._pages_back and view.picture.history:
            self._screen_view.pan(0, -self._pages_back * self._page_rows)
        if self._to_reveal:
            self._screen_view.reveal()
        self._pages_back, self._to_reveal = 0, False
        self._arrange()
        self._draw_bars()

    def say(self, text: str) -> None:
        """Tell the person something for a while."""
        self._said, self._said_until_s = text, self._clock() + _SAY_S
        self._draw_bars()

    def spawn(self, task: Callable[[], Coroutine[None, None, None]]) -> None:
        """Have something run beside the keys; what cannot be done is said."""

        async def run() -> None:
            try:
                await task()
            except ScrubjayError as error:
                self.say(f"{error}; {error.hint}" if error.hint else str(error))

        self.run_worker(run)  # not run(): Python would complain of it if the player ended before it began

    def on_resize(self) -> None:
        """Fill the window again."""
        self._arrange()
        self.spawn(self._survey)

    def _arrange(self) -> None:
        """Give the lines the room the screen does not need."""
        picture, height = self._screen_view.picture, self.size.height
        roomy = height >= _TWO_ROWS_FROM and picture.rows + 3 <= height
        self._timeline_bar.styles.height = 2 if roomy else 1
        self._timeline_bar.display = not self._screen_only and height >= 4
        self._status_bar.display = not self._screen_only and height >= 2 and not self._prompt.open

    def _tick(self) -> None:
        self._projector.tick()
        if self._projector.live and self._clock() - self._surveyed_s >= _SURVEY_EVERY_S:
            self.spawn(self._survey)
        if self._projector.outgrown:
            self.spawn(partial(self._projector.index, self._survey))
        self._draw_bars()

    async def _survey(self) -> None:
        if self._surveying or not self.size.width:
            return
        self._surveying = True
        try:
            self._timeline_bar.timeline = await self._projector.survey(self.size.width)
            if self._tools.doings is not None:
                self._doings = await self._projector.ask(self._tools.doings)
                self._asked = tuple(doing.time for doing in self._doings if doing.asks)
        finally:
            self._surveying, self._surveyed_s = False, self._clock()
        self._draw_bars()

    def _draw_bars(self) -> None:
        projector = self._projector
        signs = Signs(projector.position, self._cut.start, self._cut.stop, self._hit_times, self._asked)
        doing = self._doing_at(projector.position)
        self._timeline_bar.show(self._timeline_bar.timeline, signs)
        self._status_bar.show(
            Status(
                playing=projector.playing,
                speed=projector.speed,
                position=projector.position,
                duration=projector.duration,
                wall_us=projector.wall_us,
                size=self._screen_view.extent,
                name=self._start.name,
                following=projector.following,
                live=projector.live,
                indexing=projector.indexing,
                doing=doing.words,
                asks=doing.asks,
                notes=tuple(self._notes()),
            )
        )

    def _doing_at(self, time: int) -> Doing:
        number = bisect_right(self._doings, time, key=lambda doing: doing.time)
        return self._doings[number - 1] if number else Doing(0, "")

    def _notes(self) -> list[str]:
        projector = self._projector
        view = projector.view
        notes = [self._said if self._clock() < self._said_until_s else ""]
        if view is not None:
            notes += [f"screen unavailable: {view.frame.unavailable}" if view.frame.unavailable else ""]
            notes += ["one moment…"] if projector.busy else []
            notes += [view.frame.doubtful or "", self._screen_view.history_note]
        return [note for note in notes if note]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys to whoever asks the person something."""
        if action in _ALWAYS or not (self._prompt.open or len(self.screen_stack) > 1):
            return super().check_action(action, parameters)
        return False

    def action_leave(self) -> None:
        """Quit, whatever is going on."""
        self.exit()

    def action_play_or_pause(self) -> None:
        """Play or pause."""
        if self._projector.playing:
            self._projector.pause()
        else:
            self._leave_history()
            self._projector.play()
        self._draw_bars()

    def action_jump(self, seconds: int) -> None:
        """So far forward or back."""
        self._go(self._projector.position + seconds * SECOND_US)

    def action_tenth(self, tenth: int) -> None:
        """To a tenth of the whole."""
        self._go(self._projector.duration // 10 * tenth)

    def on_timeline_bar_scrubbed(self, message: TimelineBar.Scrubbed) -> None:
        """Where the mouse points."""
        self._go(message.instant)

    def action_follow(self) -> None:
        """To the end, and on with it while it grows."""
        self._leave_history()
        self._projector.follow()
        self._draw_bars()

    def action_step(self, forward: bool) -> None:  # noqa: FBT001
        """By one change of the screen."""
        self._leave_history()
        self.spawn(partial(self._projector.step, forward=forward))

    def action_to_mark(self, forward: bool) -> None:  # noqa: FBT001
        """To a mark."""
        self._leave_history()
        self.spawn(partial(self._projector.to_mark, forward=forward))

    def action_to_question(self, forward: bool) -> None:  # noqa: FBT001
        """To where the agent began to wait for a person."""
        position = self._projector.position
        ahead = [time for time in self._asked if (time > position if forward else time < position)]
        if ahead:
            self._go(ahead[0 if forward else -1])
        elif not self._doings:
            self.say("nobody has watched what this agent did; 'scrubjay explain' tells it from the recording")
        else:
            self.say(f"it asks nothing {'after' if forward else 'before'} this")

    def action_change_speed(self, faster: bool) -> None:  # noqa: FBT001
        """Faster or slower."""
        self._projector.change_speed(faster=faster)
        self._draw_bars()

    def action_to_hit(self, forward: bool) -> None:  # noqa: FBT001
        """To the next or previous place of what was searched for."""
        if not self._hits:
            self.say("search for something first, with /")
            return
        position = self._projector.position
        numbers = range(len(self._hits)) if forward else range(len(self._hits) - 1, -1, -1)
        for number in numbers:
            ahead = self._hits[number].time - position
            if (ahead > 0) if forward else (ahead < 0):
                self._go_to_hit(number)
                return
        self.say(f"{self._query!r} is nowhere {'after' if forward else 'before'} this")

    def action_pan(self, dx: int, dy: int) -> None:
        """Look at another part of a screen that is larger than the window."""
        self._screen_view.pan(dx, dy)
        self._draw_bars()

    def action_look_back(self) -> None:
        """A page into what scrolled off."""
        if self._screen_view.picture.history:
            self._screen_view.pan(0, -self._page_rows)
            self._draw_bars()
            return
        self._projector.pause()
        self._pages_back = 1
        self._projector.look_back(_HISTORY_ROWS)

    def action_look_forward(self) -> None:
        """A page back to the screen."""
        if self._screen_view.viewport.y < 0:
            self._screen_view.pan(0, min(self._page_rows, -self._screen_view.viewport.y))
            if self._screen_view.viewport.y >= 0:
                self._screen_view.release()
            self._draw_bars()

    def action_release(self) -> None:
        """Back to the cursor, and nothing highlighted."""
        self._take_hits("", [])
        self._screen_view.release()
        self._draw_bars()

    def action_screen_only(self) -> None:
        """Give the lines' rows to the screen, or take them back."""
        self._screen_only = not self._screen_only
        self._arrange()

    def action_cut(self, begins: bool) -> None:  # noqa: FBT001
        """The clip to export begins or ends here."""
        position = self._projector.position
        if begins:
            self._cut = Cut(position, self._cut.stop if (self._cut.stop or 0) > position else None)
        else:
            self._cut = Cut(self._cut.start if (self._cut.start or 0) < position else None, position)
        self._draw_bars()

    def action_go_to(self) -> None:
        """Ask for a time."""
        self._leave_history()
        self._prompt.ask(self._questions.go_to())

    def action_search(self) -> None:
        """Ask for a text."""
        if self._tools.find is None:
            self.say("this recording cannot be searched")
        else:
            self._prompt.ask(self._questions.search(self._found))

    def action_mark(self) -> None:
        """Ask for a label."""
        if self._tools.mark is None:
            self.say("marks can only be put on running pods")
        else:
            self._prompt.ask(self._questions.mark(lambda: self.spawn(self._survey)))

    def action_export(self) -> None:
        """Ask for a clip."""
        if self._tools.export is None:
            self.say("this recording cannot be exported from here")
        else:
            self._projector.pause()
            self._prompt.ask(self._questions.export(self._cut, self._start.name))

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help(self.size.width))

    def action_suspend(self) -> None:
        """Let the shell have the terminal for a while."""
        self._projector.pause()
        self.action_suspend_process()

    @property
    def _page_rows(self) -> int:
        return max(1, self._screen_view.size.height - 2)

    def _go(self, time: int) -> None:
        self._leave_history()
        self._projector.go(time)
        self._draw_bars()

    def _leave_history(self) -> None:
        if self._screen_view.viewport.y < 0:
            self._screen_view.release()

    def _found(self, query: str, found: list[Found]) -> None:
        self._take_hits(query, found)
        if found:
            position = self._projector.position
            self._go_to_hit(next((n for n, hit in enumerate(found) if hit.time >= position), 0))

    def _take_hits(self, query: str, found: list[Found]) -> None:
        self._query, self._hits, self._hit_times = query, found, tuple(hit.time for hit in found)
        self._screen_view.highlight(parse_query(query) if found else None)

    def _go_to_hit(self, number: int) -> None:
        self._projector.pause()
        self._go(self._hits[number].time)
        self._to_reveal = True
        self.say(f"{number + 1} of {len(self._hits)}: {self._hits[number].text.strip()}")
