"""Memories: the turns of a session, numbered from 1 without a gap."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from scrubjay.errors import BadInput
from scrubjay.fleet.messages import check_text
from scrubjay.ids import PodId, SessionId

TEXT_MAX = 100_000  # characters of each of prompt, thought and response
WORD_MAX = 200
TOOLS_MAX = 200
TOKENS_MAX = 1 << 53

Source = Literal["agent", "hook", "person"]
"""Who has written a memory down: the agent itself, Scrubjay from what its hooks say, a person."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be remembered."""

    prompt: str = ""
    thought: str = ""
    response: str = ""
    model: str | None = None
    tools: tuple[str, ...] = ()
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Instant:
    """Where on a tape something happened."""

    pod: PodId
    at: int | None = None  #: microseconds since the tape began
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A turn that is remembered."""

    session: SessionId
    seq: int
    turn: Turn
    source: Source
    epoch: int
    wall_us: int
    number: int  #: of all memories of the fleet, in the order they were written down
    key: str | None = None
    agent: str | None = None
    tape: Instant | None = None


def check_turn(turn: Turn) -> Turn:
    """BadInput if it says nothing, or too much."""
    texts = {"prompt": turn.prompt, "thought": turn.thought, "response": turn.response}
    if not any(text.strip() for text in texts.values()):
        raise BadInput("the memory says nothing", hint="give a prompt, a thought or a response")
    for what, text in texts.items():
        if text.strip():
            check_text(text, TEXT_MAX, what)
    for what, word in (("model", turn.model), *(("tool", tool) for tool in turn.tools)):
        if word is not None:
            check_text(word, WORD_MAX, what)
    if len(turn.tools) > TOOLS_MAX:
        raise BadInput(f"{len(turn.tools)} tools are more than {TOOLS_MAX}", hint="name each once")
    if turn.tokens is not None and not 0 <= turn.tokens <= TOKENS_MAX:
        raise BadInput(f"{turn.tokens} is no number of tokens", hint="give 0 or more")
    return turn


def input_hash(turns: Iterable[Turn]) -> str:
    """What a summary of these turns was made from, so that the same is not summarised twice."""
    digest = hashlib.sha256()
    for turn in turns:
        for text in (turn.prompt, turn.thought, turn.response):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def says_the_same(turn: Turn, others: Sequence[Turn]) -> bool:
    """Whether one of the others has the same prompt or the same response, blanks aside: the agent wrote it down."""
    prompt, response = _plain(turn.prompt), _plain(turn.response)
    return any(
        (prompt and _plain(other.prompt) == prompt) or (response and _plain(other.response) == response)
        for other in others
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
