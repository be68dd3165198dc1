"""The command line to call, alone or beside a server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from scrubjay.cli import passes
from tests.support.cli import Cli, open_cli
from tests.support.conditions import DEADLINE_S
from tests.support.elsewhere import Elsewhere
from tests.support.pods import end_pods
from tests.support.up_process import UpProcess, open_up_process


@pytest.fixture
def cli(tmp_path: Path) -> Generator[Cli]:
    with open_cli(tmp_path) as cli:
        yield cli


@pytest.fixture(scope="session")
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Generator[UpProcess]:
    with open_cli(tmp_path_factory.mktemp("shared")) as cli, open_up_process(cli) as up:
        yield up


@pytest.fixture
def served(shared_up: UpProcess, monkeypatch: pytest.MonkeyPatch) -> Generator[UpProcess]:
    """A server that many tests use, each with pods and sessions of its own name and an environment of its own."""
    # A busy machine is no server that hangs.
    monkeypatch.setattr(passes, "WITHIN_S", DEADLINE_S)
    yield replace(shared_up, cli=Cli(shared_up.cli.data, shared_up.cli.work))
    end_pods(shared_up.cli.data)


@pytest.fixture
def elsewhere(served: UpProcess, tmp_path: Path) -> Elsewhere:
    return Elsewhere(served, tmp_path)


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that is copied and never changed."""
    folder = tmp_path_factory.mktemp("first") / "project"
    folder.mkdir()
    (folder / "readme").write_text("hello\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def project(first_commit: Path, tmp_path: Path) -> Path:
    """A repository with one file in one commit."""
    return Path(shutil.copytree(first_commit, tmp_path / "project"))
