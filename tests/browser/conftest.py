"""A browser and recordings to look at with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Chromium
from cli.conftest import Jay
from corpus import recordings

AGENTS = ("claude-session", "codex-turn", "opencode-drop", "gemini-resize")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def jay(tmp_path_factory: pytest.TempPathFactory) -> Jay:
    """A data directory that holds recordings of agents."""
    root = tmp_path_factory.mktemp("browser")
    (root / "work").mkdir()
    runner = Jay(root / "data", root / "work")
    for recording in recordings():
        if recording.name in AGENTS:
            (runner.work / "agent.cast").write_bytes(recording.cast)
            runner("import", "agent.cast", "--name", recording.name)
    return runner


def make_cast(path: Path, *events: tuple[float, str, str], cols: int = 60, rows: int = 10) -> str:
    """A cast with these events."""
    lines = [{"version": 2, "width": cols, "height": rows, "timestamp": 1_763_172_000}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)
