"""Recordings to look at with a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

AGENTS = ("claude-session", "codex-turn", "opencode-drop", "gemini-resize")


def make_cast(path: Path, *events: tuple[float, str, str], cols: int = 60, rows: int = 10) -> str:
    """A cast with these events."""
    lines = [{"version": 2, "width": cols, "height": rows, "timestamp": 1_763_172_000}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def every_agent(first: str) -> pytest.MarkDecorator:
    """Run a test with the recording of every agent; ``make test`` has it with the first."""
    others = [pytest.param(name, marks=pytest.mark.chaos) for name in AGENTS if name != first]
    return pytest.mark.parametrize("name", [first, *others])
