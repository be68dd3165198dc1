"""What agents say to each other: channels, mentions, and how far a message has come with whom it is for.

queued ── deliver ──▶ delivered ── acknowledge ──▶ acknowledged
   └──────────────── acknowledge ──────────────────────▲
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scrubjay.errors import BadInput
from scrubjay.fleet.parties import Party

ChannelKind = Literal["open", "private", "inbox"]
"""Everybody may join an open channel; others join a private one by being asked in; an inbox is one party's own."""

DeliveryState = Literal["queued", "delivered", "acknowledged"]
DeliveryAction = Literal["deliver", "acknowledge"]
How = Literal["inbox", "typed"]

TRANSITIONS: Mapping[tuple[DeliveryState, DeliveryAction], DeliveryState] = {
    ("queued", "deliver"): "delivered",
    ("queued", "acknowledge"): "acknowledged",
    ("delivered", "acknowledge"): "acknowledged",
}
"""All that can happen; what is asked for again changes nothing."""

TEXT_MAX = 20_000  # characters
PURPOSE_MAX = 500
EVERYBODY = "everyone"  # mentions all members of a channel
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_MENTION = re.compile(rf"(?<![\w@.])@({_NAME.pattern})(?!\w)")
_ASKS = re.compile("[?\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}](?=[^\\w=&/]|$)")  # not one of an address


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages stand in order."""

    id: str
    name: str
    kind: ChannelKind
    purpose: str | None
    made_by: Party
    since_us: int = 0
    until_us: int | None = None  #: when it was archived


@dataclass(frozen=True, slots=True)
class Message:
    """Something that was said."""

    channel: str
    seq: int  #: counts up from 1 in a channel, without a gap
    author: Party
    author_name: str
    text: str
    reply_to: int | None
    asks: bool  #: whether an answer is expected
    mentions: tuple[Party, ...]
    wall_us: int
    about: Mapping[str, object] = field(default_factory=dict[str, object])  #: what a notice is about


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far a message has come with one party."""

    message: Message
    party: Party
    state: DeliveryState
    how: How | None
    queued_us: int
    delivered_us: int | None = None
    acknowledged_us: int | None = None
    attempts: int = 0  #: how often it was typed


def parse_channel_name(raw: str) -> str:
    """Accept a lower-case name of at most 63 characters, with or without ``#`` before it."""
    name = raw.removeprefix("#")
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{raw!r} cannot be a channel's name", hint="use lower-case letters, digits, dots, dashes and underscores"
        )
    return name


def check_text(text: str, most: int, what: str) -> str:
    """BadInput if a text says nothing, or too much, or is none."""
    if not text.strip():
        raise BadInput(f"the {what} says nothing", hint="give it some text")
    if len(text) > most:
        raise BadInput(
            f"the {what} has {len(text)} characters, and {most} are allowed",
            hint="put the rest into a file of your worktree and name it",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:  # nobody could be told of it
        raise BadInput(f"the {what} has half of a character in it", hint="send whole ones") from error
    return text


def mentioned(text: str, names: Iterable[str]) -> list[str]:
    """The names, of those given, that a text calls by ``@name``, in its order."""
    known = frozenset(names)
    found = (_known_part(name, known) for name in _MENTION.findall(text))
    return list(dict.fromkeys(name for name in found if name is not None))


def _known_part(name: str, known: frozenset[str]) -> str | None:
    # A sentence may end right behind a name, or go on with a dash or dots.
    while name and name not in known:
        shorter = re.sub(r"[._-][^._-]*$", "", name)
        if shorter == name:
            return None
        name = shorter
    return name or None


def asks(text: str) -> bool:
    """Whether a message reads like a question."""
    return _ASKS.search(text) is not None


def next_state(current: DeliveryState, action: DeliveryAction) -> DeliveryState | None:
    """What a delivery becomes; None if that changes nothing."""
    return TRANSITIONS.get((current, action))
