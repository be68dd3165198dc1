"""What a runner does when it is asked to, where a pod is not as it should be."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import pytest

from scrubjay.errors import PodRunning, StartFailed, WorktreeError
from scrubjay.ids import new_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import write_facts
from scrubjay.runner.requests import carry_out
from scrubjay.runner.runner import GIT_THREADS, Runner
from scrubjay.runner.start import start
from scrubjay.runner.worktrees import Removal, Worktree, Worktrees
from scrubjay.settings import Settings
from scrubjay.tape.record import Json
from scrubjay.wire.messages import ListWorktrees, RemoveWorktree, Start
from tests.support.checkouts import Checkouts
from tests.support.conditions import DEADLINE_S, until

pytestmark = pytest.mark.anyio


@contextmanager
def _silent_pod(home: Home, worktree: str) -> Generator[None]:
    """A pod whose keeper lives and does not answer."""
    with home.changing():
        folder = home.make_folder(new_pod_id())
    write_facts(folder / "pod.json", name="silent", argv=["agent"], worktree=worktree)
    lock = os.open(folder / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


async def test_a_worktree_is_not_taken_from_a_pod_whose_keeper_does_not_answer(checkouts: Checkouts) -> None:
    tree = checkouts.create("ada", checkouts.make())
    home = Home(checkouts.home)
    runner = Runner(home, Settings(data=checkouts.home), checkouts.environ)

    with _silent_pod(home, tree.name), pytest.raises(PodRunning, match="silent"):
        await carry_out(runner, RemoveWorktree(name=tree.name, force=True))
    assert tree.path.exists()

    await carry_out(runner, RemoveWorktree(name=tree.name, force=True))
    assert not tree.path.exists()


async def test_a_worktree_that_is_removed_while_all_are_listed_is_left_out(
    checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = checkouts.make()
    gone, stays = checkouts.create("ada", project), checkouts.create("bob", project)
    runner = Runner(Home(checkouts.home), Settings(data=checkouts.home), checkouts.environ)

    def find(_: Worktrees) -> list[Worktree]:
        checkouts.worktrees.remove(gone, force=True)
        return [gone, stays]

    monkeypatch.setattr(Worktrees, "list", find)
    answer = await carry_out(runner, ListWorktrees())

    assert [row["name"] for row in cast(list[Json], answer["worktrees"])] == ["bob"]


async def test_requests_that_wait_for_git_hold_up_nothing_else(
    checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(Home(checkouts.home), Settings(data=checkouts.home), checkouts.environ)
    go_on = threading.Event()
    waiting: list[Worktrees] = []

    def wait(worktrees: Worktrees) -> list[Worktree]:
        waiting.append(worktrees)
        go_on.wait(DEADLINE_S)
        return []

    monkeypatch.setattr(Worktrees, "list", wait)
    asked = [asyncio.create_task(carry_out(runner, ListWorktrees())) for _ in range(GIT_THREADS)]
    try:
        await until(lambda: len(waiting) == GIT_THREADS, "all of them wait")
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "looked"), DEADLINE_S) == "looked"
        assert not any(task.done() for task in asked)
    finally:
        go_on.set()
        await asyncio.gather(*asked)


async def test_why_a_pod_did_not_start_is_said_even_if_its_worktree_cannot_be_removed(
    checkouts: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(worktrees: Worktrees, worktree: Worktree, *, force: bool) -> Removal:
        raise WorktreeError("cannot remove it")

    monkeypatch.setattr(Worktrees, "remove", refuse)
    request = Start(argv=("./missing",), repository=str(checkouts.make()), name="ada", cols=80, rows=24)

    with pytest.raises(StartFailed, match="missing") as failed:
        start(
            request,
            home=Home(checkouts.home),
            worktrees=checkouts.worktrees,
            settings=Settings(data=checkouts.home),
            environ=checkouts.environ,
        )

    assert "worktree ada is left behind: cannot remove it" in str(failed.value.hint)
