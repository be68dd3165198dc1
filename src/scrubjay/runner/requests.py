"""What a runner does when it is asked to."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import assert_never

import msgspec
import structlog

from scrubjay.errors import KeeperRefused, NoSuchWorktree, PodRunning, ScrubjayError, StartFailed
from scrubjay.pods.launch import check_size
from scrubjay.pods.pod import Pod
from scrubjay.pods.stopping import END_WITHIN_S
from scrubjay.runner.resume import resume
from scrubjay.runner.runner import Runner
from scrubjay.runner.start import start
from scrubjay.runner.tended import Tended, showable
from scrubjay.runner.worktrees import Worktree
from scrubjay.tape.record import Json
from scrubjay.wire.messages import (
    DiffCheckpoint,
    DiffWorktree,
    Keyframe,
    ListCheckpoints,
    ListWorktrees,
    Mark,
    Remove,
    RemoveWorktree,
    Request,
    Resize,
    Resume,
    Signal,
    Start,
    Stop,
    Type,
)

log = structlog.get_logger()

_KNOWN_WITHIN_S = 5.0


async def carry_out(runner: Runner, request: Request) -> Json:
    """Do what is asked and return the answer; a ScrubjayError says why not."""
    match request:
        case Start():
            return await _start(runner, request)
        case Resume():
            return await _resume(runner, request)
        case Type():
            tended = runner.find(request.pod)
            typed = _with_epoch({"do": "write", "author": request.author}, request.epoch)
            return _offset(await tended.link.ask(typed, request.data))
        case Resize():
            check_size(request.cols, request.rows)
            resized: Json = {"do": "resize", "cols": request.cols, "rows": request.rows}
            return _offset(await runner.find(request.pod).link.ask(_with_epoch(resized, request.epoch)))
        case Signal():
            asked: Json = {"do": "signal", "signal": request.signal, "author": request.author}
            return _offset(await runner.find(request.pod).link.ask(asked))
        case Mark():
            marked: Json = {"do": "mark", "label": request.label, "author": request.author}
            return _offset(await runner.find(request.pod).link.ask(marked))
        case Stop():
            return await _stop(runner.find(request.pod), request)
        case Remove():
            return await _remove(runner, request)
        case Keyframe():
            return await _keyframe(runner, request)
        case ListWorktrees():
            return {"worktrees": await runner.in_git_thread(lambda: _list_worktrees(runner))}
        case DiffWorktree():
            return await runner.in_git_thread(lambda: _diff_worktree(runner, request))
        case ListCheckpoints():
            pod = runner.find(request.pod).pod
            listed = await runner.in_git_thread(lambda: runner.checkpoints.list(pod))
            return {"checkpoints": [msgspec.to_builtins(checkpoint) for checkpoint in listed]}
        case DiffCheckpoint():
            return await runner.in_git_thread(lambda: _diff_checkpoint(runner, request))
        case RemoveWorktree():
            # What its last pod left is kept before it goes.
            await runner.checkpointing.settled(
                tended.pod.id for tended in runner.pods.values() if tended.pod.worktree == request.name
            )
            return await runner.in_git_thread(lambda: _remove_worktree(runner, request))
    assert_never(request)


def type_at_once(runner: Runner, request: Type) -> None:
    """Type without waiting for it to be synced: somebody waits for the echo."""
    tended = runner.find(request.pod)
    tended.link.send(_with_epoch({"do": "write", "author": request.author}, request.epoch), request.data)


def _with_epoch(meta: Json, epoch: int | None) -> Json:
    return meta if epoch is None else meta | {"epoch": epoch}


def _offset(answer: Json) -> Json:
    return {"offset": answer.get("offset")}


# Starting.


async def _start(runner: Runner, request: Start) -> Json:
    pod = await runner.in_git_thread(
        lambda: start(
            request,
            home=runner.home,
            worktrees=runner.worktrees,
            settings=runner.settings,
            environ=runner.environ,
            mcp_url=runner.mcp_url,
        )
    )
    tended = await _await_known(runner, pod)
    return {"id": pod.id, "name": pod.name, "session": pod.session, "process": tended.report().process}


async def _resume(runner: Runner, request: Resume) -> Json:
    resumed = await runner.in_git_thread(
        lambda: resume(
            request,
            home=runner.home,
            worktrees=runner.worktrees,
            settings=runner.settings,
            environ=runner.environ,
            mcp_url=runner.mcp_url,
        )
    )
    if resumed.pod is None:
        return resumed.describe()
    tended = await _await_known(runner, resumed.pod)
    return resumed.describe() | {"process": tended.report().process}


async def _await_known(runner: Runner, pod: Pod) -> Tended:
    """The pod once its keeper is listened to, so that nothing it asks its terminal goes unanswered."""
    deadline = asyncio.get_running_loop().time() + _KNOWN_WITHIN_S
    while asyncio.get_running_loop().time() < deadline:
        tended = runner.pods.get(pod.id)
        if tended is not None and tended.report().process != "starting":
            return tended
        await asyncio.sleep(0.005)
    raise StartFailed(f"pod {pod.name!r} was started, but its keeper does not answer", hint="see 'scrubjay ps'")


# Ending.


async def _stop(tended: Tended, request: Stop) -> Json:
    await tended.link.ask({"do": "stop", "author": request.author, "grace_ms": request.grace_ms})
    loop = asyncio.get_running_loop()
    patience_s = request.grace_ms / 1000 + END_WITHIN_S
    deadline = loop.time() + patience_s
    while not tended.complete:
        if loop.time() > deadline:
            raise KeeperRefused(
                f"pod {tended.pod.name!r} has not ended after {patience_s:g} s",
                hint="its disk may be full: see 'scrubjay ps'",
            )
        await asyncio.sleep(0.01)
    report = tended.report()
    return {"process": report.process, "status": report.exit_status}


async def _remove(runner: Runner, request: Remove) -> Json:
    tended = runner.find(request.pod)
    if tended.running:
        raise PodRunning(tended.pod.name)
    await asyncio.to_thread(runner.home.remove, tended.pod)
    await runner.checkpointing.settled([tended.pod.id])
    await runner.in_git_thread(lambda: _forget_checkpoints(runner, tended.pod))
    return {"removed": tended.pod.id}


def _forget_checkpoints(runner: Runner, pod: Pod) -> None:
    if pod.worktree is None:
        return
    try:
        runner.checkpoints.forget(pod)
    except (OSError, ScrubjayError) as error:  # they stay in the repository, where nobody finds them any more
        log.warning("checkpoints.not_forgotten", pod=pod.id, error=str(error))


# Looking.


async def _keyframe(runner: Runner, request: Keyframe) -> Json:
    tended = runner.find(request.pod)
    _ = tended.link  # PodNotRunning
    frame = await runner.screens.keyframe(tended.pod.id, history=request.history > 0)
    return {
        "offset": frame.offset,
        "at": frame.at,
        "cols": frame.cols,
        "rows": frame.rows,
        "snapshot": frame.snapshot,
    }


# Worktrees.


def _list_worktrees(runner: Runner) -> list[Json]:
    rows: list[Json] = []
    for tree in runner.worktrees.list():
        with suppress(NoSuchWorktree):  # removed since
            rows.append(_describe_worktree(runner, tree))
    return rows


def _describe_worktree(runner: Runner, tree: Worktree) -> Json:
    state = runner.worktrees.inspect(tree)
    return {
        "name": tree.name,
        "path": showable(os.fspath(tree.path)),
        "repository": tree.repository,
        "branch": tree.branch,
        "base": tree.base,
        "created_us": tree.created_us,
        "head": state.head,
        "ahead": state.ahead,
        "staged": state.staged,
        "unstaged": state.unstaged,
        "untracked": state.untracked,
        "missing": state.missing,
        "pods": [tended.pod.id for tended in runner.pods.values() if tended.pod.worktree == tree.name],
    }


def _diff_worktree(runner: Runner, request: DiffWorktree) -> Json:
    tree = runner.worktrees.find(request.name)
    if request.patch:
        return {"patch": runner.worktrees.diff(tree)}
    summary = runner.worktrees.diff_summary(tree)
    return {
        "commits": summary.commits,
        "insertions": summary.insertions,
        "deletions": summary.deletions,
        "files": [
            {"path": file.path, "insertions": file.insertions, "deletions": file.deletions} for file in summary.files
        ],
        "untracked": list(summary.untracked),
    }


def _diff_checkpoint(runner: Runner, request: DiffCheckpoint) -> Json:
    pod, checkpoints = runner.find(request.pod).pod, runner.checkpoints
    at = checkpoints.find(pod, request.at) if request.at is not None else None
    since = checkpoints.find(pod, request.since) if request.since is not None else None
    if request.patch:
        return {"patch": checkpoints.patch(pod, at, since)}
    return checkpoints.summary(pod, at, since).describe()


def _remove_worktree(runner: Runner, request: RemoveWorktree) -> Json:
    tree = runner.worktrees.find(request.name)
    # Whether a keeper lives, not whether it answers; and not while one is being started.
    with runner.home.changing():
        for pod in runner.home.pods():
            if pod.worktree == tree.name and pod.alive:
                raise PodRunning(pod.name)
    runner.worktrees.remove(tree, force=request.force)
    return {"removed": tree.name}
