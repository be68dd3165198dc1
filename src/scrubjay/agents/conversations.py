"""Where agents keep conversations: whether one is there, and which of the agent's processes say they have it open.

Patterns of a manifest are paths with ``*``, ``~``, ``$NAME`` and ``${NAME:-instead}``, as the agent's own environment
has them; one that is not absolute begins at the folder the agent runs in.
"""

from __future__ import annotations

import glob
import json
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from scrubjay.agents.manifest import ConversationRules

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::-([^}]*))?\})")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CLAIM_MAX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent runs."""

    cwd: Path
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a conversation."""

    there: bool | None  #: None if its agent's manifest does not say where to look
    files: tuple[Path, ...] = ()  #: those that hold nothing else


@dataclass(frozen=True, slots=True)
class Claim:
    """What a file of the agent says of one of its processes. It stays behind when that is killed."""

    pid: int
    words: frozenset[str]  #: everything it says, the conversation that is open among it
    file: Path


def is_conversation_id(text: str) -> bool:
    """Whether it is a word that is neither a path, a pattern nor an option, wherever it is put in."""
    return _WORD.fullmatch(text) is not None


def find_conversation(rules: ConversationRules, conversation: str, place: Place) -> Kept:
    """Look for a conversation where its agent would."""
    files = tuple(path for pattern in rules.files for path in _matches(pattern, place, conversation))
    if files:
        return Kept(there=True, files=files)
    if any(_holds(path, conversation) for path in _newest_first(rules.inside, place)):
        return Kept(there=True)
    return Kept(there=False if rules.files or rules.inside else None)


def claims_of(rules: ConversationRules, place: Place) -> Iterator[Claim]:
    """What an agent says of its processes."""
    for path in _matches(rules.live, place) if rules.live is not None else ():
        try:
            with path.open("rb") as file:
                told: object = json.loads(file.read(_CLAIM_MAX_BYTES))
        except (OSError, ValueError):  # being written, or nothing of the kind
            continue
        facts = cast("dict[str, object]", told) if isinstance(told, dict) else {}
        pid = facts.get("pid")
        if isinstance(pid, int):
            yield Claim(pid, frozenset(value for value in facts.values() if isinstance(value, str)), path)


def _matches(pattern: str, place: Place, conversation: str | None = None) -> list[Path]:
    expanded = _expand(pattern, place, conversation)
    return [] if expanded is None else sorted(Path(found) for found in glob.glob(expanded, include_hidden=True))


def _expand(pattern: str, place: Place, conversation: str | None) -> str | None:
    """A pattern for this place; None if it needs a variable that is not set."""
    missing = False

    def value(found: re.Match[str]) -> str:
        nonlocal missing
        set_to = place.environ.get(found[1] or found[2])
        if set_to:
            return glob.escape(set_to)
        missing = missing or found[3] is None
        return found[3] or ""

    text = _VARIABLE.sub(value, pattern)
    if text == "~" or text.startswith("~/"):
        text = glob.escape(place.environ.get("HOME") or os.path.expanduser("~")) + text[1:]
    if conversation is not None:
        text = text.replace("{conversation}", glob.escape(conversation))
    return None if missing else os.path.join(glob.escape(str(place.cwd)), text)


def _newest_first(patterns: tuple[str, ...], place: Place) -> list[Path]:
    found = [path for pattern in patterns for path in _matches(pattern, place)]
    return sorted(found, key=_age, reverse=True)


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _holds(path: Path, conversation: str) -> bool:
    """Whether the bytes of a file have the id in them. Not asked of a database itself: that would write beside it."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(conversation.encode()) >= 0
    except (OSError, ValueError):  # gone, or empty
        return False
