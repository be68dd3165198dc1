"""Questions to the person, asked in the last row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from scrubjay.cli.player.text import short
from scrubjay.errors import ScrubjayError


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask, and what to do with the answer.

    ``answer`` returns the next question if there is one; if it raises, the person is told why and may change
    what they wrote.
    """

    label: str
    answer: Callable[[str], Awaitable[Question | None]]
    value: str = ""
    hint: str = ""


# Textual hands bindings to the app, behind letters that were typed after them; here they are taken in order.
_EDITS = {
    "backspace": "delete_left",
    "delete": "delete_right",
    "left": "cursor_left",
    "right": "cursor_right",
    "home": "home",
    "end": "end",
    "ctrl+a": "home",
    "ctrl+e": "end",
    "ctrl+u": "delete_left_all",
    "ctrl+k": "delete_right_all",
    "ctrl+w": "delete_left_word",
}


class _Line(Input):
    """A line to write in; what is typed after Enter waits until the answer was taken."""

    def __init__(self, take: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.cursor_blink = False
        self._take = take

    async def on_key(self, event: events.Key) -> None:
        """Take the keys that are not letters."""
        if event.key != "enter" and event.key not in _EDITS:
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            await self._take(self.value)
        else:
            await self.run_action(_EDITS[event.key])


class Prompt(Vertical):
    """Hidden until there is something to ask."""

    DEFAULT_CSS = """
    Prompt {
        height: auto; display: none; background: ansi_default;
        Static { width: 1fr; height: auto; max-height: 3; display: none; }
        Horizontal { height: 1; }
        Horizontal Static { width: auto; height: 1; display: block; }
        Input { width: 1fr; height: 1; background: ansi_default; pointer: default; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("up,down,pageup,pagedown", "nothing", show=False),
    ]

    def __init__(self, on_change: Callable[[], None]) -> None:
        """``on_change`` is called when it has appeared or gone."""
        super().__init__()
        self._on_change = on_change
        self._question: Question | None = None
        self._note, self._label = Static(id="note"), Static(id="label")
        self._input = _Line(self._take)

    def compose(self) -> ComposeResult:
        """What went wrong, then label and answer."""
        yield self._note
        with Horizontal():
            yield self._label
            yield self._input

    @property
    def open(self) -> bool:
        """Whether something is being asked."""
        return self._question is not None

    def ask(self, question: Question) -> None:
        """Ask; what was asked before is forgotten."""
        self._question = question
        self._label.update(Text(f"{question.label}: ", style="bold"))
        self._input.value = question.value
        self._input.placeholder = question.hint
        self._input.cursor_position = len(question.value)
        self._complain("")
        self.display = True
        # Not focus(), which takes effect later: what is typed at once belongs to the answer.
        self.screen.set_focus(self._input)
        self._on_change()

    def action_leave(self) -> None:
        """Ask no more."""
        self._question = None
        self.display = False
        self.screen.set_focus(None)
        self._on_change()

    def action_nothing(self) -> None:
        """These keys are for the recording, which does not have them now."""

    async def _take(self, raw: str) -> None:
        question = self._question
        if question is None:
            return
        try:
            following = await question.answer(raw)
        except ScrubjayError as error:
            self._complain(f"{error}; {error.hint}" if error.hint else str(error))
            return
        if self._question is not question:
            return  # the person left meanwhile
        if following is not None:
            self.ask(following)
        else:
            self.action_leave()

    def _complain(self, why: str) -> None:
        self._note.update(Text(short(why), style="bold yellow"))
        self._note.display = bool(why)
