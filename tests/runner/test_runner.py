"""The runner of one machine: how it finds pods, and what does not end it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scrubjay.errors import HomeUnusable, ScrubjayError
from scrubjay.ids import PodId, PodName, new_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod, write_facts
from scrubjay.runner.runner import Runner
from scrubjay.runner.worktrees import Worktrees
from scrubjay.settings import Settings
from scrubjay.tape.reader import Tape
from tests.runner.fake_keeper import FakeKeeper
from tests.support.conditions import until


@asynccontextmanager
async def _running(data: Path) -> AsyncGenerator[Runner]:
    home = Home(data)
    with home.changing():
        pass  # makes the folder
    runner = Runner(home, Settings(data=data), {})
    running = asyncio.create_task(runner.run())
    try:
        await asyncio.wait_for(runner.found_all.wait(), 10)
        yield runner
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.wait([running])


def _make_pod(data: Path) -> PodId:
    pod = new_pod_id()
    folder = data / "pods" / pod
    (folder / "tape").mkdir(parents=True)
    write_facts(folder / "pod.json", name="old", argv=["agent"], cwd="/", created=0, imported=True)
    return pod


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_read_for_a_while_is_looked_at_again(tmp_path: Path) -> None:
    folder = tmp_path / "pods"
    with capture_logs() as said:
        async with _running(tmp_path) as runner:
            folder.rename(tmp_path / "away")
            folder.touch()
            await until(lambda: [line for line in said if line["event"] == "pods.not_seen"], "it says so")
            folder.unlink()
            (tmp_path / "away").rename(folder)
            pod = _make_pod(tmp_path)
            await until(lambda: pod in runner.pods, "it is found")

    assert len([line for line in said if line["event"] == "pods.not_seen"]) == 1


@pytest.mark.anyio
async def test_a_pod_that_cannot_be_read_for_a_while_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = FakeKeeper(tmp_path / "pods")
    asked = 0
    tape = Pod.tape

    def read(pod: Pod) -> Tape:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return tape(pod)

    monkeypatch.setattr(Pod, "tape", read)
    monkeypatch.setattr("scrubjay.runner.runner.TEND_AGAIN_S", 0.01)
    async with keeper.keeping(), _running(tmp_path) as runner:
        await until(lambda: runner.pods[keeper.pod.id].report().process == "running", "it is listened to")

    assert asked > 1


@pytest.mark.anyio
async def test_pods_are_found_while_worktrees_are_tidied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied = threading.Event()

    def tidy(_: Worktrees) -> list[PodName]:
        tidied.wait(60)
        return []

    monkeypatch.setattr(Worktrees, "tidy", tidy)
    try:
        async with _running(tmp_path):  # which waits for it
            assert not tidied.is_set()
    finally:
        tidied.set()


def _make_runner(data: Path) -> Runner:
    return Runner(Home(data), Settings(data=data), {})


def test_a_runner_keeps_its_id(tmp_path: Path) -> None:
    assert _make_runner(tmp_path).id == _make_runner(tmp_path).id
    assert not (tmp_path / "runner.new").exists()


def test_an_id_that_could_not_be_written_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "runner").touch()

    assert _make_runner(tmp_path).id == _make_runner(tmp_path).id


def test_an_id_that_cannot_be_written_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(HomeUnusable, match="No space left"):
            _make_runner(tmp_path)

    assert not (tmp_path / "runner").exists()
    assert _make_runner(tmp_path).id


def test_what_is_no_id_is_said_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "runner").write_bytes(b"\xff nonsense\n")

    with pytest.raises(ScrubjayError) as raised:
        _make_runner(tmp_path)

    assert str(raised.value) == f"{tmp_path}/runner holds no runner's id"
    assert "delete it" in str(raised.value.hint)
