"""What a stub model is to do, one step for each turn it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Shell:
    """A command for the agent's shell; ``asks`` makes those ask that would run it in a sandbox unasked."""

    command: str
    asks: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the person, with answers to choose from."""

    text: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Any other tool, by the end of the name that the agent gives it."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, and the tool it calls then."""

    text: str
    over_s: float = 0.0  #: how long the text takes to stream
    thinking: str = ""
    call: Shell | Question | Call | None = None
    silent_s: float = 0.0  #: before the first byte
    held: threading.Event | None = None  #: the second half is sent when this is set
    cut: bool = False  #: the connection breaks in the middle


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error instead of an answer."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


Step = Answer | Failure
