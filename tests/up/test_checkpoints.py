"""Worktrees as they were, over the API: kept when real pods are idle, wait and end, compared and forked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from chaos.machine import until
from scrubjay.pods.home import Home
from scrubjay.tape.record import Json
from up.machine import Machine, open_machine

pytestmark = pytest.mark.anyio

# Reports as agents do, changes a file by each line it reads, and ends at the third.
_AGENT = """
import os, select, sys, tty
tty.setcbreak(0)
os.write(1, b"\\x1b]7501;?\\x1b\\\\")
select.select([0], [], [], 5)
os.read(0, 1000)
def say(state): os.write(1, b"\\x1b]7501;state=%s\\x1b\\\\" % state)
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


async def _start(machine: Machine, name: str, repository: Path) -> str:
    command = [sys.executable, "-I", "-S", "-c", _AGENT]
    return str(
        (await machine.post("/api/v1/pods", {"command": command, "name": name, "repository": str(repository)}))["id"]
    )


async def _kept(machine: Machine, pod: str, count: int) -> list[Json]:
    """A pod's checkpoints, when there are so many."""
    deadline = asyncio.get_running_loop().time() + 20
    while True:
        kept = cast(list[Json], await machine.get(f"/api/v1/pods/{pod}/checkpoints"))
        if len(kept) >= count:
            assert len(kept) == count, kept
            return kept
        assert asyncio.get_running_loop().time() < deadline, (kept, await machine.get(f"/api/v1/pods/{pod}/status"))
        await asyncio.sleep(0.05)


async def _work(machine: Machine, pod: str) -> None:
    await machine.post(f"/api/v1/pods/{pod}/input", {"text": "go", "enter": True})


def _at(checkpoint: Json) -> str:
    return f"{cast(int, checkpoint['at']) / 1e6:.6f}s"


async def test_what_an_agent_did_turn_by_turn_is_kept_compared_and_forked(machine: Machine, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(machine, "ada", repository)
    await _work(machine, pod)
    [first] = await _kept(machine, pod, 1)
    await _work(machine, pod)
    _, second = await _kept(machine, pod, 2)
    await _work(machine, pod)
    await until(lambda: machine.server.tower.pods[machine.home.find("ada").id].report.complete, "it ends")
    kept = await _kept(machine, pod, 3)

    assert [(each["why"], each["number"]) for each in kept] == [("idle", 1), ("waiting", 2), ("exit", 3)]
    assert [each["at"] for each in kept] == sorted(cast(int, each["at"]) for each in kept)
    assert all(each["branch"] == "scrubjay/ada" and each["head"] == first["base"] for each in kept)
    history = cast(list[Json], await machine.get(f"/api/v1/pods/{pod}/status/history"))
    idle = next(status for status in history if status["activity"] == "idle")
    assert cast(Json, idle["evidence"])["at"] == first["at"]

    async def lines(**query: str) -> tuple[int, int]:
        diff = cast(Json, await machine.get(f"/api/v1/pods/{pod}/diff", **query))
        assert [file["path"] for file in cast(list[Json], diff["files"])] == ["work"]
        return cast(int, diff["insertions"]), cast(int, diff["deletions"])

    assert [await lines(at=_at(each)) for each in kept] == [(1, 0), (2, 0), (3, 0)]
    assert await lines(at="100%", since=_at(first)) == (2, 0)
    assert await lines(since=_at(second)) == (1, 0)
    patch = (await machine.http.get(f"/api/v1/pods/{pod}/patch", params={"at": _at(second)})).text
    assert patch.endswith("@@ -0,0 +1,2 @@\n+0\n+1\n")

    body: Json = {"at": _at(second), "command": ["sleep", "100"], "name": "fork"}
    path, key = f"/api/v1/pods/{pod}/fork", {"Idempotency-Key": "fork-1"}
    forks = await asyncio.gather(*(machine.post(path, body, **key) for _ in range(3)))
    assert len({str(fork["id"]) for fork in forks}) == 1
    fork = machine.home.find(str(forks[0]["id"]))
    assert fork.session != machine.home.find(pod).session
    report = machine.server.tower.pods[fork.id].report
    assert report.forked_from is not None
    assert (report.forked_from.pod, report.forked_from.at) == (pod, second["at"])
    assert report.forked_from.session == machine.home.find(pod).session
    files = {file.name: file.read_text() for file in Path(fork.cwd).iterdir() if file.name != ".git"}
    assert files == {"readme": "hello\n", ".gitignore": "*.log\n", "work": "0\n1\n"}
    assert fork.branch == "scrubjay/fork"
    await machine.stop(fork)


async def test_without_a_command_a_fork_runs_the_same_again_in_the_same_folder(
    machine: Machine, tmp_path: Path
) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(machine, "bob", repository)
    await _work(machine, pod)
    await _kept(machine, pod, 1)

    started = await machine.post(f"/api/v1/pods/{pod}/fork", {"at": "100%"})
    fork = machine.home.find(str(started["id"]))
    assert (fork.name, fork.argv[-1]) == ("bob-fork", _AGENT)
    await _work(machine, fork.id)
    [kept] = await _kept(machine, fork.id, 1)

    diff = cast(Json, await machine.get(f"/api/v1/pods/{fork.id}/diff", at=_at(kept)))
    assert diff["insertions"] == 2, "what it began with, and what it did itself"
    for each in (pod, fork.id):
        await machine.stop(machine.home.find(each))


async def test_an_exit_that_no_runner_saw_is_kept_when_one_is_there_again(tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    async with open_machine(tmp_path / "home", pods_go_on=True) as machine:
        started = await machine.post(
            "/api/v1/pods", {"command": ["sh", "-c", "read x; echo done > work"], "repository": str(repository)}
        )
        pod = Home(tmp_path / "home").find(str(started["id"]))
    with pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "test"}, b"\r")
    await until(lambda: pod.has_ended, "it ends without a runner")

    async with open_machine(tmp_path / "home") as machine:
        [kept] = await _kept(machine, pod.id, 1)
        assert kept["why"] == "exit"
        diff = cast(Json, await machine.get(f"/api/v1/pods/{pod.id}/diff", at="100%"))
        assert [file["path"] for file in cast(list[Json], diff["files"])] == ["work"]


async def test_what_cannot_be_is_refused_with_a_reason_and_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    repository = _make_repository(tmp_path / "project")
    plain = await machine.start("cat", name="plain")
    pod = await _start(machine, "eve", repository)
    await _work(machine, pod)
    [kept] = await _kept(machine, pod, 1)

    async def refusal(method: str, path: str, body: Json | None = None) -> tuple[int, str, str]:
        response = await machine.http.request(method, f"/api/v1/pods/{path}", json=body)
        error = response.json()["error"]
        return response.status_code, error["code"], str(error["message"]) + str(error["hint"])

    assert (await refusal("GET", f"{plain.id}/checkpoints"))[:2] == (409, "no_worktree")
    assert (await refusal("GET", f"{plain.id}/diff"))[:2] == (409, "no_worktree")
    early = await refusal("GET", f"{pod}/diff?at=0s")
    assert early[:2] == (404, "no_checkpoint")
    assert "the first is" in early[2]
    assert (await refusal("GET", f"{pod}/patch?at=never"))[:2] == (400, "bad_instant")
    names = {row["name"] for row in cast(list[Json], await machine.get("/api/v1/worktrees"))}
    missing = await refusal("POST", f"{pod}/fork", {"at": _at(kept), "command": ["./missing"], "name": "never"})
    assert missing[:2] == (400, "start_failed")
    assert {row["name"] for row in cast(list[Json], await machine.get("/api/v1/worktrees"))} == names
    assert "never" not in {row["name"] for row in cast(list[Json], await machine.get("/api/v1/pods"))}
    await machine.stop(machine.home.find(pod))
    await machine.stop(plain)


async def test_a_worktree_that_is_removed_at_once_and_by_force_can_still_be_forked(
    machine: Machine, tmp_path: Path
) -> None:
    repository = _make_repository(tmp_path / "project")
    pod = await _start(machine, "max", repository)
    await _work(machine, pod)
    await _kept(machine, pod, 1)
    (machine.settings.data / "worktrees" / "max" / "last").write_text("before it was stopped\n")

    await machine.stop(machine.home.find(pod))
    removed = await machine.http.delete("/api/v1/worktrees/max", params={"force": "true"})
    forked = await machine.post(f"/api/v1/pods/{pod}/fork", {"at": "100%", "command": ["sleep", "100"]})

    assert removed.status_code == 200
    fork = machine.home.find(str(forked["id"]))
    assert (Path(fork.cwd) / "last").read_text() == "before it was stopped\n"
    await machine.stop(fork)
    await _kept(machine, fork.id, 1)
    assert (await machine.http.delete(f"/api/v1/pods/{pod}")).status_code == 200
    refs = subprocess.run(
        ["git", "for-each-ref", "refs/scrubjay/checkpoints"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert pod not in refs.stdout
    assert fork.id in refs.stdout
