"""What is known of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

INSTALLED = ROOT / ".agents"
KEY = "sk-test"  # made up; the stub asks for none


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent lives during a test."""

    home: Path
    project: Path
    model_url: str

    def write(self, path: str, content: str | dict[str, Any]) -> None:
        """Write a file of the home, a dictionary as JSON."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, how to set it up in a new home, and how to deal with it."""

    name: str  #: as ``scrubjay run --agent`` takes it
    settle: Callable[[Place], dict[str, str]]  #: write its configuration; the variables it needs besides
    asks: str  #: what its dialog shows that asks whether a command may run
    bin: str = "node_modules/.bin"  #: where its command is, in its folder
    approve: tuple[str, ...] = ("enter",)  #: keys that let a command run
    choose: tuple[str, ...] = (
        "enter",
    )  #: keys that take the first answer to a question; none if the stub cannot make it ask
    interrupt: tuple[str, ...] = ("esc",)  #: keys that end its turn
    leave: tuple[str, ...] = ("ctrl-c", "ctrl-c")  #: keys that end it
    has_tools: bool = True  #: without, every request is a turn
    required: bool = True  #: where it is not installed, its tests fail; those of others do not run

    @property
    def folder(self) -> Path:
        """Where scripts/install-agents puts it."""
        return INSTALLED / self.name

    @property
    def installed(self) -> bool:
        """Whether it is there, as a whole."""
        return (self.folder / "installed").exists()
