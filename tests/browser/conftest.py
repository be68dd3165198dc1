"""A browser and recordings to look at with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.casts import AGENTS
from tests.support.chromium import Chromium
from tests.support.cli import Cli
from tests.support.corpus import recordings


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A data directory that holds recordings of agents."""
    root = tmp_path_factory.mktemp("browser")
    (root / "work").mkdir()
    runner = Cli(root / "data", root / "work")
    for recording in recordings():
        if recording.name in AGENTS:
            (runner.work / "agent.cast").write_bytes(recording.cast)
            runner("import", "agent.cast", "--name", recording.name)
    return runner
