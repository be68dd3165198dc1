"""Pods that start together, or are killed while they start, are not in each other's way."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from scrubjay.errors import BranchInUse, NoSuchWorktree, RepositoryBusy
from scrubjay.ids import PodName
from scrubjay.pods.pod import lock_is_held
from tests.support.checkouts import Checkouts
from tests.support.conditions import eventually
from tests.support.paths import PROGRAMS
from tests.support.tiers import sized

_INTERRUPTED = PROGRAMS / "interrupted_create.py"

Interrupt = Callable[[str, str, int], int]
"""Make a worktree of a repository and be killed ``before`` or ``during`` a call of git; the exit status."""


@pytest.fixture
def interrupt(checkouts: Checkouts) -> Iterator[Interrupt]:
    """Whose children are killed while they make the worktree of a pod called a."""
    with subprocess.Popen(
        [sys.executable, str(_INTERRUPTED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=checkouts.environ,
        text=True,
    ) as process:

        def ask(repository: str, moment: str, number: int) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([str(checkouts.home), repository, moment, number]) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield ask


def test_eight_pods_start_on_one_repository(checkouts: Checkouts) -> None:
    project = checkouts.make()
    start = Barrier(8)

    def create(number: int) -> str:
        start.wait()
        return checkouts.reopen().create(PodName(f"pod-{number}"), repository=str(project), branch=None).branch

    with ThreadPoolExecutor(8) as pool:
        branches = list(pool.map(create, range(8)))

    assert branches == [f"scrubjay/pod-{number}" for number in range(8)]
    assert all(checkouts.worktrees.inspect(tree).clean for tree in checkouts.worktrees.list())
    assert len(checkouts.known_worktrees(project)) == 8
    assert checkouts.git("fsck", cwd=project) == ""


def test_eight_pods_of_one_name_start_at_once(checkouts: Checkouts) -> None:
    project = checkouts.make()
    start = Barrier(8)

    def create(_: int) -> tuple[str, str]:
        start.wait()
        made = checkouts.worktrees.create(PodName("ada"), repository=str(project), branch=None)
        return made.name, made.branch

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(create, range(8)))

    names = {"ada", *(f"ada-{number}" for number in range(2, 9))}
    assert made == {(name, f"scrubjay/{name}") for name in names}


def test_one_branch_is_given_to_one_pod(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("branch", "topic", cwd=project)
    start = Barrier(4)

    def create(number: int) -> bool:
        start.wait()
        try:
            checkouts.create(f"pod-{number}", project, branch="topic")
        except BranchInUse:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(create, range(4)))

    assert won.count(True) == 1
    assert len(checkouts.worktrees.list()) == len(checkouts.known_worktrees(project)) == 1


def test_pods_come_and_go_at_once(checkouts: Checkouts) -> None:
    project = checkouts.make()
    stays = checkouts.create("stays", project)
    commit = checkouts.commit(stays.path, {"new": "1\n"})

    def live(number: int) -> None:
        for _ in range(3):
            made = checkouts.create(f"pod-{number}", project)
            checkouts.worktrees.remove(made, force=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))

    assert [tree.name for tree in checkouts.worktrees.list()] == ["stays"]
    assert checkouts.known_worktrees(project) == {str(stays.path)}
    assert checkouts.head(stays.path) == commit
    assert checkouts.leftovers() == []


def test_a_worktree_that_another_git_is_adding_is_not_in_the_way(checkouts: Checkouts) -> None:
    project, failed = checkouts.make(), checkouts.folder / "failed"
    checkouts.git("worktree", "add", "--quiet", "../other", cwd=project)
    commondir = project / ".git/worktrees/other/commondir"
    whole = commondir.read_bytes()
    commondir.write_bytes(b"")  # as git leaves it for a moment
    real, wrapped = shutil.which("git"), checkouts.folder / "bin/git"
    wrapped.parent.mkdir()
    wrapped.write_text(f'#!/bin/sh\n{real} "$@" || {{ status=$?; touch {failed}; exit $status; }}\n')
    wrapped.chmod(0o755)
    checkouts.environ["PATH"] = f"{wrapped.parent}{os.pathsep}{checkouts.environ['PATH']}"

    with ThreadPoolExecutor() as threads:
        making = threads.submit(checkouts.reopen().create, PodName("ada"), repository=str(project), branch=None)
        eventually(failed.exists, "git has come upon it")
        commondir.write_bytes(whole)

    assert making.result().branch == "scrubjay/ada"


@pytest.mark.parametrize("kind", ["new branch", "old branch", "clone"])
def test_killed_at_any_call_of_git_nothing_is_in_the_way_of_the_next(
    checkouts: Checkouts, interrupt: Interrupt, kind: str
) -> None:
    project = checkouts.make()
    address = f"file://{project}" if kind == "clone" else str(project)
    if kind == "old branch":
        checkouts.git("branch", "scrubjay/a", cwd=project)

    calls, reached_end = 0, False
    while not reached_end:
        calls += 1
        # At each call by turns; with more time, at each in both ways.
        for moment in sorted(["before", "during"], reverse=bool(calls % 2))[: sized(1, 2, 2)]:
            status = interrupt(address, moment, calls)
            if status == 0:
                reached_end = True
                break
            assert status == -signal.SIGKILL
            _await_orphans(checkouts)

            made = checkouts.create("a", address)

            assert (made.name, made.branch) == ("a", "scrubjay/a"), f"{moment} call {calls}"
            assert checkouts.worktrees.inspect(made).clean
            checkouts.worktrees.tidy()
            assert checkouts.leftovers() == []
            if kind != "clone":
                assert checkouts.known_worktrees(project) == {str(made.path)}
            checkouts.worktrees.remove(made, force=False)
            if kind == "new branch":
                checkouts.git("branch", "--delete", "scrubjay/a", cwd=project)
            if kind == "clone":
                shutil.rmtree(checkouts.home)
    assert calls > {"new branch": 7, "old branch": 5, "clone": 14}[kind]


def _leave_half_a_worktree(checkouts: Checkouts, interrupt: Interrupt, project: Path) -> None:
    """Kill one who makes a worktree when git knows of it already."""
    for number in range(1, 8):
        interrupt(str(project), "before", number)
        if checkouts.known_worktrees(project):
            return


def test_tidying_does_not_wait_for_a_repository_that_is_used(checkouts: Checkouts, interrupt: Interrupt) -> None:
    project = checkouts.make()
    _leave_half_a_worktree(checkouts, interrupt, project)
    [lock] = (checkouts.home / "repositories").glob("*.lock")

    with open(lock) as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        assert checkouts.worktrees.tidy() == []
    assert checkouts.worktrees.tidy() == ["a"]


def test_who_waits_for_a_repository_is_not_waited_for_at_the_end(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("a", project)
    [lock] = (checkouts.home / "repositories").glob("*.lock")

    with open(lock) as used, ThreadPoolExecutor() as threads:
        fcntl.flock(used, fcntl.LOCK_EX)
        waiting = threads.submit(checkouts.create, "b", project)
        eventually(lambda: (checkouts.home / "worktrees/.facts/b.json").exists(), "it is begun")
        checkouts.worktrees.stop()

    with pytest.raises(RepositoryBusy):
        waiting.result()
    assert [tree.name for tree in checkouts.reopen().list()] == [made.name]


def _await_orphans(checkouts: Checkouts) -> None:
    """Return when the git that a killed create has left running has ended; until then its name is not free."""
    lock = checkouts.home / "worktrees/.facts/a.lock"
    eventually(lambda: not lock_is_held(lock), "the last git has ended")


def test_what_was_interrupted_is_not_listed_and_can_be_tidied(checkouts: Checkouts, interrupt: Interrupt) -> None:
    project = checkouts.make()
    _leave_half_a_worktree(checkouts, interrupt, project)

    assert checkouts.worktrees.list() == []
    with pytest.raises(NoSuchWorktree):
        checkouts.worktrees.find("a")
    assert checkouts.worktrees.tidy() == ["a"]
    assert checkouts.known_worktrees(project) == set()
    assert not (checkouts.home / "worktrees" / "a").exists()
    assert checkouts.worktrees.tidy() == []
