"""Recordings of real agents: Claude Code, Codex, Gemini CLI, opencode, aider, Copilot CLI, Qwen Code.

One archive (tar, then zstd -19 --long) holds them all: 36 MB in 0.4 MB, because what they have in common is most of
them. Beside each ``NAME.cast`` lies ``NAME.json`` with the truth of what the agent was doing when.

Another holds recordings that were made when the rules by which a status is told were done: of the same agents in other
situations and windows, and of two that have no manifest (pi, vibe). No rule may be made to fit one of them.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scrubjay.tape.asciicast import parse_size, read_cast
from tests.support.paths import FIXTURES

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@dataclass(frozen=True, slots=True)
class Output:
    """What a program wrote."""

    at_us: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A new size of the window."""

    at_us: int
    cols: int
    rows: int


@dataclass(frozen=True)
class Recording:
    """One of them."""

    name: str
    cast: bytes  #: the file
    truth: Any  #: of its JSON file: ``states`` and how they are known

    @cached_property
    def size(self) -> tuple[int, int]:
        """Columns and rows at the start."""
        header = json.loads(self.cast[: self.cast.index(b"\n")])
        return header["width"], header["height"]

    @cached_property
    def events(self) -> tuple[Output | Resize, ...]:
        """What was shown and how the window changed, in order; what was typed is left out."""
        return tuple(self._events())

    def _events(self) -> Iterator[Output | Resize]:
        for event in read_cast(io.BytesIO(self.cast), self.name).events:
            if event.code == "o":
                yield Output(event.at_us, event.data.encode())
            elif event.code == "r":
                size = parse_size(event.data)
                assert size is not None
                yield Resize(event.at_us, *size)


def recordings(*, one_of: int = 1) -> Iterator[Recording]:
    """Those that rules were made with, by name: all 129 of them, or one of so many."""
    return _read("corpus.tar.zst", one_of)


def unseen_recordings(*, one_of: int = 1) -> Iterator[Recording]:
    """The others, by name: all of them, or one of so many."""
    return _read("unseen.tar.zst", one_of)


def recording(name: str) -> Recording:
    """One of those that rules were made with."""
    return next(each for each in recordings() if each.name == name)


def _read(archive: str, one_of: int) -> Iterator[Recording]:
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress((FIXTURES / archive).read_bytes()))) as tar:
        members = {member.name: member for member in tar}
        # Neighbors are of the same agent, so that a part has some of each.
        for cast in sorted(name for name in members if name.endswith(".cast"))[::one_of]:
            name = cast.removesuffix(".cast")
            yield Recording(name, _content(tar, members[cast]), json.loads(_content(tar, members[f"{name}.json"])))


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()
