"""Worktrees as they were, over the API: kept when real pods are idle, wait and end, compared and forked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until
from tests.support.in_process_up import InProcessUp, open_in_process_up

pytestmark = pytest.mark.anyio

# Reports as agents do, changes a file by each line it reads, and ends at the third. It reports for the first time when
# its terminal is as it needs it: what is typed before that is lost.
_AGENT = """
import os, sys, tty
tty.setcbreak(0)
query, heard = b"\\x1b]7501;?\\x1b\\\\", b""
os.write(1, query)
while query not in heard: heard += os.read(0, 1000)
def say(state): os.write(1, b"\\x1b]7501;state=%s\\x1b\\\\" % state)
say(b"working")
for number, state in enumerate((b"done", b"blocked:kind=question", None)):
    line = b""
    while not line.endswith((b"\\r", b"\\n")):
        line += os.read(0, 1000)
    say(b"working")
    with open("work", "a") as work: work.write(f"{number}\\n")
    open("secret.log", "w").write("ignored\\n")
    if state is not None: say(state)
"""


def _make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "readme").write_text("hello\n")
    (folder / ".gitignore").write_text("*.log\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True)
    return folder


async def _start(up: InProcessUp, name: str, repository: Path) -> str:
    command = [sys.executable, "-I", "-S", "-c", _AGENT]
    return str((await up.post("/api/v1/pods", {"command": command, "name": name, "repository": str(repository)}))["id"])


async def _kept(up: InProcessUp, pod: str, count: int) -> list[Json]:
    """A pod's checkpoints, when there are so many."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        kept = cast(list[Json], await up.get(f"/api/v1/pods/{pod}/checkpoints"))
        if len(kept) >= count:
            assert len(kept) == count, kept
            return kept
        assert asyncio.get_running_loop().time() < deadline, (kept, await up.get(f"/api/v1/pods/{pod}/status"))
        await asyncio.sleep(0.01)


async def _work(up: InProcessUp, pod: str) -> None:
    pods = up.server.tower.pods
    await until(lambda: (known := pods.get(PodId(pod))) is not None and known.report.status, "it reads lines")
    await up.post(f"/api/v1/pods/{pod}/input", {"text": "go", "enter": True})


def _at(checkpoint: Json) -> str:
    return f"{cast(int, checkpoint['at']) / 1e6:.6f}s"


async def test_what_an_agent_did_turn_by_turn_is_kept_compared_and_forked(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(up, "ada", repository)
    await _work(up, pod)
    [first] = await _kept(up, pod, 1)
    await _work(up, pod)
    _, second = await _kept(up, pod, 2)
    await _work(up, pod)
    await until(lambda: up.server.tower.pods[up.home.find("ada").id].report.complete, "it ends")
    kept = await _kept(up, pod, 3)

    assert [(each["why"], each["number"]) for each in kept] == [("idle", 1), ("waiting", 2), ("exit", 3)]
    assert [each["at"] for each in kept] == sorted(cast(int, each["at"]) for each in kept)
    assert all(each["branch"] == "scrubjay/ada" and each["head"] == first["base"] for each in kept)
    history = cast(list[Json], await up.get(f"/api/v1/pods/{pod}/status/history"))
    idle = next(status for status in history if status["activity"] == "idle")
    assert cast(Json, idle["evidence"])["at"] == first["at"]

    async def lines(**query: str) -> tuple[int, int]:
        diff = cast(Json, await up.get(f"/api/v1/pods/{pod}/diff", **query))
        assert [file["path"] for file in cast(list[Json], diff["files"])] == ["work"]
        return cast(int, diff["insertions"]), cast(int, diff["deletions"])

    assert [await lines(at=_at(each)) for each in kept] == [(1, 0), (2, 0), (3, 0)]
    assert await lines(at="100%", since=_at(first)) == (2, 0)
    assert await lines(since=_at(second)) == (1, 0)
    patch = (await up.http.get(f"/api/v1/pods/{pod}/patch", params={"at": _at(second)})).text
    assert patch.endswith("@@ -0,0 +1,2 @@\n+0\n+1\n")

    body: Json = {"at": _at(second), "command": ["sleep", "100"], "name": "fork"}
    path, key = f"/api/v1/pods/{pod}/fork", {"Idempotency-Key": "fork-1"}
    forks = await asyncio.gather(*(up.post(path, body, **key) for _ in range(3)))
    assert len({str(fork["id"]) for fork in forks}) == 1
    fork = up.home.find(str(forks[0]["id"]))
    assert fork.session != up.home.find(pod).session
    report = up.server.tower.pods[fork.id].report
    assert report.forked_from is not None
    assert (report.forked_from.pod, report.forked_from.at) == (pod, second["at"])
    assert report.forked_from.session == up.home.find(pod).session
    files = {file.name: file.read_text() for file in Path(fork.cwd).iterdir() if file.name != ".git"}
    assert files == {"readme": "hello\n", ".gitignore": "*.log\n", "work": "0\n1\n"}
    assert fork.branch == "scrubjay/fork"
    await up.stop(fork)


async def test_without_a_command_a_fork_runs_the_same_again_in_the_same_folder(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(up, "bob", repository)
    await _work(up, pod)
    await _kept(up, pod, 1)

    started = await up.post(f"/api/v1/pods/{pod}/fork", {"at": "100%"})
    fork = up.home.find(str(started["id"]))
    assert (fork.name, fork.argv[-1]) == ("bob-fork", _AGENT)
    await _work(up, fork.id)
    [kept] = await _kept(up, fork.id, 1)

    diff = cast(Json, await up.get(f"/api/v1/pods/{fork.id}/diff", at=_at(kept)))
    assert diff["insertions"] == 2, "what it began with, and what it did itself"
    for each in (pod, fork.id):
        await up.stop(up.home.find(each))


async def test_an_exit_that_no_runner_saw_is_kept_when_one_is_there_again(tmp_path: Path) -> None:
    repository, go = _make_repository(tmp_path / "project"), tmp_path / "go"
    command = f"until [ -e '{go}' ]; do sleep 0.05; done; echo done > work"  # at work all the time, never idle
    async with open_in_process_up(tmp_path / "home", pods_go_on=True) as up:
        started = await up.post("/api/v1/pods", {"command": ["sh", "-c", command], "repository": str(repository)})
        pod = Home(tmp_path / "home").find(str(started["id"]))
    go.touch()
    await until(lambda: pod.has_ended, "it ends without a runner")

    async with open_in_process_up(tmp_path / "home") as up:
        [kept] = await _kept(up, pod.id, 1)
        assert kept["why"] == "exit"
        diff = cast(Json, await up.get(f"/api/v1/pods/{pod.id}/diff", at="100%"))
        assert [file["path"] for file in cast(list[Json], diff["files"])] == ["work"]


async def test_what_cannot_be_is_refused_with_a_reason_and_leaves_nothing(up: InProcessUp, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    plain = await up.start("cat", name="plain")
    pod = await _start(up, "eve", repository)
    await _work(up, pod)
    [kept] = await _kept(up, pod, 1)

    async def refusal(method: str, path: str, body: Json | None = None) -> tuple[int, str, str]:
        response = await up.http.request(method, f"/api/v1/pods/{path}", json=body)
        error = response.json()["error"]
        return response.status_code, error["code"], str(error["message"]) + str(error["hint"])

    assert (await refusal("GET", f"{plain.id}/checkpoints"))[:2] == (409, "no_worktree")
    assert (await refusal("GET", f"{plain.id}/diff"))[:2] == (409, "no_worktree")
    early = await refusal("GET", f"{pod}/diff?at=0s")
    assert early[:2] == (404, "no_checkpoint")
    assert "the first is" in early[2]
    assert (await refusal("GET", f"{pod}/patch?at=never"))[:2] == (400, "bad_instant")
    names = {row["name"] for row in cast(list[Json], await up.get("/api/v1/worktrees"))}
    missing = await refusal("POST", f"{pod}/fork", {"at": _at(kept), "command": ["./missing"], "name": "never"})
    assert missing[:2] == (400, "start_failed")
    assert {row["name"] for row in cast(list[Json], await up.get("/api/v1/worktrees"))} == names
    assert "never" not in {row["name"] for row in cast(list[Json], await up.get("/api/v1/pods"))}
    await up.stop(up.home.find(pod))
    await up.stop(plain)


async def test_a_worktree_that_is_removed_at_once_and_by_force_can_still_be_forked(
    up: InProcessUp, tmp_path: Path
) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(up, "max", repository)
    await _work(up, pod)
    await _kept(up, pod, 1)
    (up.settings.data / "worktrees" / "max" / "last").write_text("before it was stopped\n")

    await up.stop(up.home.find(pod))
    removed = await up.http.delete("/api/v1/worktrees/max", params={"force": "true"})
    forked = await up.post(f"/api/v1/pods/{pod}/fork", {"at": "100%", "command": ["sleep", "100"]})

    assert removed.status_code == 200
    fork = up.home.find(str(forked["id"]))
    assert (Path(fork.cwd) / "last").read_text() == "before it was stopped\n"
    await up.stop(fork)
    await _kept(up, fork.id, 1)
    assert (await up.http.delete(f"/api/v1/pods/{pod}")).status_code == 200
    refs = subprocess.run(
        ["git", "for-each-ref", "refs/scrubjay/checkpoints"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert pod not in refs.stdout
    assert fork.id in refs.stdout
