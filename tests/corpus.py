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
from pathlib import Path
from typing import Any

from scrubjay.tape.asciicast import parse_size, read_cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_FIXTURES = Path(__file__).parent / "fixtures"


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


def recordings() -> Iterator[Recording]:
    """Those that rules were made with, by name."""
    return _read("corpus.tar.zst")


def unseen_recordings() -> Iterator[Recording]:
    """The others, by name."""
    return _read("unseen.tar.zst")


def _read(name: str) -> Iterator[Recording]:
    archive = io.BytesIO(zstd.decompress((_FIXTURES / name).read_bytes()))
    with tarfile.open(fileobj=archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        for name in sorted(files):
            if name.endswith(".cast"):
                cast, truth = files[name], files[name.removesuffix("cast") + "json"]
                assert cast is not None
                assert truth is not None
                yield Recording(name.removesuffix(".cast"), cast.read(), json.loads(truth.read()))
