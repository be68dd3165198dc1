"""Programs and libraries: which are here, which version, and whether it will do."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

import scrubjay
from scrubjay.agents.library import Library
from scrubjay.cli.doctor.finding import Finding, ok, problem, warning
from scrubjay.errors import BadManifest, EngineUnavailable

_AGENT_WITHIN_S = 5.0
_GIT_MIN = (2, 34)
# A checkpoint could lose committed pages: https://sqlite.org/wal.html#walresetbug
_WAL_RESET_BUG = ((3, 7, 0), (3, 51, 2))
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said."""

    status: int
    output: str


def ask(argv: Sequence[str], *, timeout_s: float) -> Answer | None:
    """Run a program that nobody can type into; None if it is not here or does not end in time."""
    try:
        asked = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",  # not a project whose settings it would read
            start_new_session=True,  # without a terminal, and with its children it can be ended
        )
    except OSError:
        return None
    try:
        output, _ = asked.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.communicate()
        return None
    return Answer(asked.returncode, output.decode(errors="replace").strip())


def check_versions() -> list[Finding]:
    """Scrubjay, Python, the platform."""
    return [
        ok("scrubjay", scrubjay.__version__),
        ok("python", f"{platform.python_version()} ({sys.executable})"),
        ok("platform", f"{platform.system()} {platform.release()} {platform.machine()}"),
    ]


def check_git() -> Finding:
    """What worktrees need."""
    needed = ".".join(map(str, _GIT_MIN))
    answer = ask(["git", "--version"], timeout_s=5.0)
    if answer is None:
        return warning("git", "not found", f"install git {needed} or newer to give pods worktrees of their own")
    version = _VERSION.search(answer.output)
    if version is None:
        return warning("git", f"{answer.output[:60]!r} is no version", "check what 'git' on your PATH is")
    if _numbers(version[0]) < _GIT_MIN:
        return warning("git", f"{version[0]} is too old for worktrees", f"install git {needed} or newer")
    return ok("git", version[0])


def check_engine() -> Finding:
    """Whether a terminal engine starts."""
    from scrubjay.replay.workers import Workers

    try:
        with Workers() as workers:
            return ok("terminal engine", workers.identity)
    except EngineUnavailable as error:
        return problem("terminal engine", str(error), error.hint or "")


def check_sqlite() -> list[Finding]:
    """The library the catalog uses, and the one that search uses."""
    return [_check_catalog_sqlite(), _check_search_sqlite()]


def _check_catalog_sqlite() -> Finding:
    try:
        version = str(import_module("pysqlite3.dbapi2").sqlite_version)
    except ImportError as error:
        return problem("SQLite", f"pysqlite3 cannot be loaded: {error}", "pip install --upgrade pysqlite3")
    if not is_safe_for_wal(version):
        newer = f"pip install --upgrade pysqlite3, for SQLite {'.'.join(map(str, _after(_WAL_RESET_BUG[1])))} or newer"
        return problem("SQLite", f"{version} can damage the catalog (the WAL-reset bug)", newer)
    return ok("SQLite", f"{version}, of pysqlite3")


def _check_search_sqlite() -> Finding:
    import sqlite3

    version = sqlite3.sqlite_version
    try:
        with sqlite3.connect(":memory:") as trial:
            trial.execute("CREATE VIRTUAL TABLE trial USING fts5(text)")
        trial.close()
    except sqlite3.Error as error:
        return problem("SQLite for search", f"{version}: {error}", "use a Python whose SQLite has FTS5")
    # The bug is one of write-ahead logs, and these files have none.
    return ok("SQLite for search", f"{version}, of Python")


def is_safe_for_wal(version: str) -> bool:
    """Whether a version of SQLite is free of the WAL-reset bug."""
    first, last = _WAL_RESET_BUG
    return not first <= _numbers(version) <= last


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _after(version: tuple[int, int, int]) -> tuple[int, int, int]:
    return (*version[:2], version[2] + 1)


def check_agent(library: Library, name: str) -> Finding | None:
    """The version of an agent, or what is wrong with its manifest; None if it is not here."""
    try:
        program = library.find(name).program
    except BadManifest as error:
        return problem(name, str(error), error.hint or "")
    path = shutil.which(program)
    if path is None:
        return None
    answer = ask([path, "--version"], timeout_s=_AGENT_WITHIN_S)
    remedy = f"try: {program} --version"
    if answer is None:
        return warning(name, f"{path} did not answer within {_AGENT_WITHIN_S:g} s", remedy)
    version = _VERSION.search(answer.output)
    if answer.status != 0 or version is None:
        return warning(name, f"{path} says no version (exit {answer.status})", remedy)
    return ok(name, f"{version[0]} ({path})")
