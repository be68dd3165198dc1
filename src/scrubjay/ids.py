"""Ids and names, made and parsed in one place.

An id is 26 lower-case base32 characters: 130 random bits, so ids need no counter, say
nothing, and a few leading characters are enough to tell a person's pods apart.
"""

from __future__ import annotations

import os
import re
from typing import NewType

from scrubjay.errors import BadId, BadName

PodId = NewType("PodId", str)
"""One run of one agent; also the id of its tape."""
SessionId = NewType("SessionId", str)
"""The thread of work that pods come and go under."""
PodName = NewType("PodName", str)
"""What people call a pod; one running pod has it at a time."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_ID_LENGTH = 26
_ID = re.compile(f"[{_ALPHABET}]{{{_ID_LENGTH}}}")
# A leading letter or digit keeps a name from being read as an option or a path.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")


def _new_id() -> str:
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(_ID_LENGTH))  # 256 is 8 times 32


def new_pod_id() -> PodId:
    """Make an id no other pod has."""
    return PodId(_new_id())


def new_session_id() -> SessionId:
    """Make an id no other session has and nobody can guess."""
    return SessionId(_new_id())


def parse_pod_id(raw: str) -> PodId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("pod", raw)
    return PodId(raw)


def parse_session_id(raw: str) -> SessionId:
    """Accept 26 lower-case base32 characters; anything else is BadId."""
    if not _ID.fullmatch(raw):
        raise BadId("session", raw)
    return SessionId(raw)


def parse_pod_name(raw: str) -> PodName:
    """Accept a lower-case name of at most 63 characters that is safe as a file and branch name."""
    if not _NAME.fullmatch(raw) or ".." in raw or raw.endswith((".", ".lock")):
        raise BadName(raw)
    return PodName(raw)


def suggest_pod_name(command: str, taken: set[str]) -> PodName:
    """Name a pod after its command: ``claude``, then ``claude-2``, ``claude-3``."""
    stem = _NOT_IN_NAMES.sub("-", command.lower()).strip("-._") or "pod"
    stem = stem.replace("..", "-")[:48].strip("-._").removesuffix(".lock") or "pod"
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return parse_pod_name(name)
