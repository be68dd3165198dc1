"""What a runner does when it is asked to, where a pod is not as it should be."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from runner.checkouts import Checkouts
from scrubjay.errors import PodRunning
from scrubjay.ids import new_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import write_facts
from scrubjay.runner.requests import carry_out
from scrubjay.runner.runner import Runner
from scrubjay.settings import Settings
from scrubjay.wire.messages import RemoveWorktree

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
