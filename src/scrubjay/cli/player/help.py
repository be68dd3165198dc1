"""The keys, on one page of 80 by 24, or on a longer one where there is less room."""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_COLUMNS: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        ("space", "play, pause"),
        ("← →", "5 seconds"),
        ("shift ← →", "a minute"),
        (". ,", "next, previous change"),
        ("[ ]", "previous, next mark"),
        ("0 … 9", "tenths of it"),
        ("home end", "start; end, or live"),
        ("< >", "slower, faster"),
        ("g", "go to a time"),
        ("/", "search, then n N"),
    ),
    (
        ("pgup pgdn", "what scrolled off"),
        ("h j k l", "move a cropped view"),
        ("esc", "back to the cursor"),
        ("f", "screen only"),
        ("w W", "next, previous question"),
        ("m", "put a mark"),
        ("i o", "clip from, to here"),
        ("e", "export the clip"),
        ("?", "this page"),
        ("q", "quit"),
    ),
)
_KEY_WIDTH, _COLUMN_WIDTH = 11, 36
_PAGE_WIDTH = 78  # with its border
_NOTES = (
    "Times: 12.5s  1h2m  50%  -10m  02:14:07  2026-11-15T02:14",
    "▁▄█ activity  · quiet  ◆ mark  ? asks you  • hit  ┊ next tape  ┃ here",
)


def _page(width: int) -> Text:
    columns = _COLUMNS if width >= _PAGE_WIDTH else (tuple(key for column in _COLUMNS for key in column),)
    page = Text("scrubjay replay\n\n", style="bold")
    for row in zip_longest(*columns, fillvalue=("", "")):
        for key, meaning in row:
            page.append(f"{key:<{_KEY_WIDTH}}", style="bold cyan")
            page.append(f"{meaning:<{_COLUMN_WIDTH - _KEY_WIDTH}}", style="not bold")
        page.append("\n")
    page.append("\n" + "\n".join(_NOTES), style="not bold")
    return page


class Help(ModalScreen[None]):
    """Closed by the keys that close things."""

    AUTO_FOCUS = "VerticalScroll"

    DEFAULT_CSS = """
    Help {
        align: center middle;
        VerticalScroll {
            width: auto; height: auto; max-width: 100%; max-height: 100%; padding: 0 1;
            border: round ansi_cyan; background: ansi_default;
        }
        Static { width: auto; max-width: 100%; background: ansi_default; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,space,enter", "dismiss", show=False)]

    def __init__(self, width: int) -> None:
        """For a window of so many columns."""
        super().__init__()
        self._width = width

    def compose(self) -> ComposeResult:
        """The page."""
        with VerticalScroll():
            yield Static(_page(self._width))
