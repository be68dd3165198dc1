"""What the model servers have in common: an answer in an agent's own terms, and what streams it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tests.real_agents.stub.tools import Schemas, ToolUse

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose tool call is translated."""

    text: str
    over_s: float = 0.0
    thinking: str = ""
    use: ToolUse | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a stream, and how long to wait before it."""

    data: str
    pause_s: float = 0.0


class Dialect(Protocol):
    """How one kind of model server speaks. Pure."""

    def tools(self, body: Body) -> Schemas:
        """The tools that a request offers."""
        ...

    def schema(self, body: Body) -> dict[str, Any] | None:
        """The JSON that the answer must be, if it must."""
        ...

    def answer(self, body: Body, reply: Reply) -> Iterator[Event] | Body:
        """A stream if that was asked for, else the whole."""
        ...

    def failure(self, status: int, text: str) -> Body:
        """An error."""
        ...


def part(body: Body, name: str) -> Body:
    """An object in a request; empty if it has none."""
    return body.get(name) or {}


def spoken(reply: Reply) -> Iterator[tuple[str, float]]:
    """The words of the text, each with the pause before it."""
    words = re.findall(r"\S+\s*|\s+", reply.text)
    for word in words:
        yield word, reply.over_s / len(words)


def server_sent(data: Body, *, event: str | None = None, pause_s: float = 0.0) -> Event:
    """A server-sent event."""
    name = f"event: {event}\n" if event is not None else ""
    return Event(f"{name}data: {json.dumps(data)}\n\n", pause_s)
