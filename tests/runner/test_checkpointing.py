"""When worktrees are kept, and that nobody waits for it or is harmed by it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scrubjay.errors import GitFailed
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod, read_pod, write_facts
from scrubjay.runner import checkpointing as module
from scrubjay.runner.checkpointing import Checkpointing
from scrubjay.runner.checkpoints import Checkpoints, Moment
from scrubjay.runner.worktrees import Worktree
from scrubjay.tape.record import Json
from scrubjay.wire.checkpoints import Checkpoint
from tests.runner.test_checkpoints import pod_in
from tests.support.checkouts import Checkouts
from tests.support.conditions import until

pytestmark = pytest.mark.anyio


class Rig:
    """A pod with a worktree, and what keeps it."""

    def __init__(self, checkouts: Checkouts) -> None:
        self.checkouts = checkouts
        self.home = Home(checkouts.home)
        self.tree = checkouts.create("ada", checkouts.make())
        self.checkpoints = Checkpoints(checkouts.worktrees)
        self.keeping = self.restart()
        self.pod = self.add_pod(self.tree)

    def restart(self) -> Checkpointing:
        """As a runner that has just been started has it."""
        self.keeping = Checkpointing(self.home, self.checkpoints, lambda: time.time_ns() // 1000)
        return self.keeping

    def add_pod(self, tree: Worktree, *, age_us: int = 0) -> Pod:
        pod = pod_in(tree)
        with self.home.changing():
            folder = self.home.make_folder(pod.id)
        facts: Json = {"name": pod.name, "session": pod.session, "argv": ["agent"], "cwd": pod.cwd}
        facts |= {"created": tree.created_us + 1 - age_us, "repository": tree.repository, "worktree": tree.name}
        write_facts(folder / "pod.json", **facts)
        found = read_pod(folder)
        assert found is not None
        return found

    def become(self, activity: str, at: int, waiting_for: str | None = None) -> None:
        status: Json = {"activity": activity, "waiting_for": waiting_for, "at": at, "offset": 10 * at, "wall_us": at}
        self.keeping.status_changed(self.pod, status)

    def write(self, text: str) -> None:
        (self.tree.path / "README").write_text(text)

    def kept(self) -> list[tuple[str, int]]:
        return [(each.why, each.at) for each in self.checkpoints.list(self.pod)]

    async def settled(self) -> None:
        await asyncio.wait_for(self.keeping.settled([self.pod.id]), 30)


@pytest.fixture
def rig(checkouts: Checkouts) -> Rig:
    return Rig(checkouts)


@contextmanager
def _held_up(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[list[Moment], threading.Event]]:
    """Have every checkpoint wait; what was begun, and what lets them go on."""
    begun: list[Moment] = []
    go_on = threading.Event()
    make = Checkpoints.make

    def wait(
        checkpoints: Checkpoints, pod: Pod, moment: Moment, *, moved_on: Callable[[], bool] = lambda: False
    ) -> Checkpoint | None:
        begun.append(moment)
        assert go_on.wait(30)
        return make(checkpoints, pod, moment, moved_on=moved_on)

    monkeypatch.setattr(Checkpoints, "make", wait)
    try:
        yield begun, go_on
    finally:
        go_on.set()


async def test_a_worktree_is_kept_when_its_agent_comes_to_be_idle_or_to_wait(rig: Rig) -> None:
    states = [("executing", None), ("idle", None), ("executing", None), ("waiting", "person:permission")]
    for number, (activity, waiting_for) in enumerate([*states, ("waiting", "person:question"), ("idle", None)]):
        rig.write(f"{number}\n")
        rig.become(activity, number, waiting_for)
        rig.become(activity, number + 100, waiting_for)  # the same with other words is no change
        await rig.settled()

    assert rig.kept() == [("idle", 1), ("waiting", 3), ("waiting", 4), ("idle", 5)]


async def test_while_one_is_made_only_the_last_of_those_that_are_due_is_made_afterwards(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _held_up(monkeypatch) as (begun, go_on):
        rig.become("idle", 1)
        await until(lambda: len(begun) == 1, "one is begun")
        for at, activity in ((2, "waiting"), (3, "idle"), (4, "waiting"), (5, "idle")):
            rig.become(activity, at)
        rig.write("changed\n")
        go_on.set()
        await rig.settled()

    assert [moment.at for moment in begun] == [1, 5]


async def test_an_agent_that_goes_on_before_it_is_begun_is_not_kept_and_one_that_does_meanwhile_is_called_unsteady(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "THREADS", 1)
    rig.restart()
    with _held_up(monkeypatch) as (begun, go_on):
        rig.become("idle", 1)
        await until(lambda: len(begun) == 1, "one is begun")
        rig.become("executing", 2)
        rig.become("idle", 3)
        rig.become("executing", 4)
        go_on.set()
        await rig.settled()

    [kept] = rig.checkpoints.list(rig.pod)
    assert [moment.at for moment in begun] == [1]
    assert (kept.at, kept.unsteady) == (1, True)


async def test_what_fails_is_logged_once_and_tried_again_after_a_rest_and_at_the_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REST_MIN_S", 0.2)
    tried: list[str] = []

    def fail(
        _self: Checkpoints, _pod: Pod, moment: Moment, *, moved_on: Callable[[], bool] = lambda: False
    ) -> Checkpoint | None:
        tried.append(moment.why)
        raise GitFailed("add", "the disk is on fire", status=128, stderr="")

    monkeypatch.setattr(Checkpoints, "make", fail)
    with capture_logs() as said:
        began = time.monotonic()
        for at, activity in ((1, "idle"), (2, "executing"), (3, "idle")):
            rig.become(activity, at)
            if at == 1:
                await rig.settled()
        await rig.settled()
        rested_s = time.monotonic() - began
        await rig.keeping.ended(rig.pod)

    assert tried == ["idle", "idle", "exit"]
    assert rested_s >= 0.2
    assert [line["event"] for line in said] == ["checkpoint.not_made"]


async def test_an_exit_is_kept_once_also_if_nobody_was_there_to_see_it(rig: Rig) -> None:
    rig.write("at its end\n")
    await rig.keeping.ended(rig.pod)
    rig.write("somebody else, later\n")
    await rig.restart().ended(rig.pod)

    missed = rig.add_pod(rig.tree)
    await rig.restart().ended(missed)

    assert [why for why, _ in rig.kept()] == ["exit"]
    assert [each.why for each in rig.checkpoints.list(missed)] == ["exit"]


async def test_an_exit_that_was_missed_is_not_kept_where_a_later_pod_has_worked_since(rig: Rig) -> None:
    old = rig.add_pod(rig.tree, age_us=60_000_000)
    # Its worktree must be as old as it is.
    facts = rig.checkouts.home / "worktrees" / ".facts" / "ada.json"
    facts.write_text(facts.read_text().replace(str(rig.tree.created_us), str(rig.tree.created_us - 60_000_000)))
    rig.write("of the later one\n")

    await rig.keeping.ended(old)
    await rig.keeping.ended(rig.pod)

    assert rig.checkpoints.list(old) == []
    assert [why for why, _ in rig.kept()] == ["exit"]


async def test_a_worktree_that_is_gone_and_a_pod_without_one_are_no_trouble(rig: Rig) -> None:
    rig.checkouts.worktrees.remove(rig.tree, force=True)
    homeless = replace(rig.pod, worktree=None, repository=None, folder=Path("/nowhere"))
    with capture_logs() as said:
        rig.become("idle", 1)
        await rig.settled()
        await rig.keeping.ended(rig.pod)
        rig.keeping.status_changed(homeless, {"activity": "idle"})
        await rig.keeping.ended(homeless)

    assert said == []


async def test_of_a_pod_that_is_deleted_while_it_is_kept_nothing_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _held_up(monkeypatch) as (begun, go_on):
        rig.become("idle", 1)
        await until(lambda: len(begun) == 1, "it is begun")
        rig.home.remove(rig.pod)
        go_on.set()
        await rig.settled()

    assert rig.kept() == []
