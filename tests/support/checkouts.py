"""Real repositories to make worktrees of, in a world without anybody's own git configuration."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from scrubjay.ids import PodName
from scrubjay.runner.worktrees import Worktree, Worktrees
from tests.support.conditions import DEADLINE_S, eventually

_CONFIG = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch=main\n\ttemplateDir=\n"
_FILES = {"README": "hello\n", "src/main.py": "print(1)\n", ".gitignore": "*.log\nbuild/\n"}


class Checkouts:
    """A folder with repositories and a data directory beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        (folder / "gitconfig").write_text(_CONFIG)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.worktrees = self.reopen()

    def reopen(self) -> Worktrees:
        """The worktrees as a runner sees them that has just been started."""
        return Worktrees(self.home, environ=self.environ)

    def create(self, name: str, repository: Path | str, branch: str | None = None, base: str | None = None) -> Worktree:
        """A worktree for a pod."""
        return self.worktrees.create(PodName(name), repository=str(repository), branch=branch, base=base)

    def git(self, *words: str, cwd: Path, check: bool = True) -> str:
        """What git answers a person."""
        done = subprocess.run(
            ["git", *words],
            cwd=cwd,
            env=self.environ,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=DEADLINE_S,
        )
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    def make(self, name: str = "project", *, commits: int = 1) -> Path:
        """A repository with that many commits on main."""
        path = self.folder / name
        shutil.copytree(_prepared(commits), path, symlinks=True)
        # The index knows other files than these, and a person's own git would write it anew at its first look.
        self.git("update-index", "-q", "--refresh", cwd=path)
        return path

    def prepare(self, path: Path, *, commits: int) -> None:
        """Make a repository in a folder that is there."""
        self.git("init", "--quiet", cwd=path)
        for number in range(commits):
            self.commit(path, {**_FILES, "number": f"{number}\n"}, f"commit {number}")

    def make_bare(self, name: str = "project.git") -> Path:
        """A bare repository with one commit on main."""
        source = self.make(f"{name}-source")
        self.git("clone", "--quiet", "--bare", "--", str(source), str(self.folder / name), cwd=self.folder)
        return self.folder / name

    def commit(self, path: Path, files: dict[str, str], subject: str = "work") -> str:
        """Write files and commit them; the commit."""
        for file, text in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text)
        self.git("add", "--all", cwd=path)
        self.git("commit", "--quiet", "--message", subject, cwd=path)
        return self.head(path)

    def head(self, path: Path) -> str:
        """The commit a checkout is at."""
        return self.git("rev-parse", "HEAD", cwd=path)

    def branches(self, path: Path) -> set[str]:
        """The branches of a repository."""
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=path).split())

    def known_worktrees(self, path: Path) -> set[str]:
        """The folders a repository knows of besides its own."""
        lines = self.git("worktree", "list", "--porcelain", cwd=path).splitlines()
        return {line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")} - {str(path)}

    def leftovers(self) -> list[str]:
        """What is in the data directory that belongs to no worktree and no repository."""
        removed = list((self.home / "worktrees" / ".removed").glob("*"))
        staged = list((self.home / "repositories").glob("*.new-*"))
        new = list((self.home / "worktrees" / ".facts").glob("*.new"))
        return sorted(path.name for path in [*removed, *staged, *new])


@cache
def _prepared(commits: int) -> Path:
    """A repository to copy: git is not run five times for each."""
    checkouts = Checkouts(Path(tempfile.mkdtemp(prefix="scrubjay-repository-")))
    atexit.register(shutil.rmtree, checkouts.folder, ignore_errors=True)
    path = checkouts.folder / "project"
    path.mkdir()
    checkouts.prepare(path, commits=commits)
    return path


@contextmanager
def git_daemon(checkouts: Checkouts) -> Generator[str]:
    """A server of all repositories; gives the beginning of their URLs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Not "git daemon", which would leave the server running when it is ended.
    program = f"{checkouts.git('--exec-path', cwd=checkouts.folder)}/git-daemon"
    server = subprocess.Popen(
        [program, "--listen=127.0.0.1", f"--port={port}", f"--base-path={checkouts.folder}", "--export-all"],
        env=checkouts.environ,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _answers(port), "git daemon answers")
        yield f"git://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
