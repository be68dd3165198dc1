"""Begin anew with the files that a pod's worktree had at an instant: in a worktree and session of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from scrubjay.agents.launch import begins_no_conversation, without_conversation
from scrubjay.agents.library import Library
from scrubjay.errors import BadInput, NoSuchPod, WorktreeError
from scrubjay.ids import parse_pod_id, suggest_pod_name
from scrubjay.pods.home import Home
from scrubjay.pods.pod import ForkedFrom, Pod, read_pod
from scrubjay.runner.checkpoints import Checkpoints
from scrubjay.runner.worktrees import Worktrees
from scrubjay.tape.redaction import is_veiled
from scrubjay.wire.messages import FromCheckpoint, Start


@dataclass(frozen=True, slots=True)
class Fork:
    """What to start."""

    request: Start  #: with everything the checkpoint says filled in
    files: str  #: the commit whose files it begins with
    origin: ForkedFrom


def plan_fork(request: Start, wanted: FromCheckpoint, *, home: Home, worktrees: Worktrees, library: Library) -> Fork:
    """Find the checkpoint, and what to run where nothing was asked for: what its pod ran, in a new conversation."""
    source = read_pod(home.folder_of(parse_pod_id(wanted.pod)))
    if source is None:
        raise NoSuchPod(wanted.pod)
    checkpoint = Checkpoints(worktrees).find(source, wanted.commit)
    if checkpoint.head is None:
        raise WorktreeError(
            f"the branch of pod {source.name!r} had no commit then, so that none can begin there",
            hint=f"choose another instant; the files are in git: git checkout {checkpoint.commit[:12]} -- .",
        )
    filled = structs.replace(
        request,
        repository=source.repository,
        base=checkpoint.head,
        name=request.name if request.name is not None else _name(source, home, worktrees),
        cwd=request.cwd if request.cwd is not None else _folder(source, worktrees),
    )
    if not filled.argv and filled.agent is None:
        filled = _as_before(filled, source, library)
    return Fork(filled, checkpoint.commit, ForkedFrom(source.session, source.id, checkpoint.at))


def _name(source: Pod, home: Home, worktrees: Worktrees) -> str:
    taken = {str(name) for name in home.living_names()} | {str(tree.name) for tree in worktrees.list()}
    return suggest_pod_name(f"{source.name}-fork", taken)


def _folder(source: Pod, worktrees: Worktrees) -> str | None:
    """Where in its worktree a pod was started."""
    assert source.worktree is not None
    try:
        return str(Path(source.cwd).relative_to(worktrees.path_of(source.worktree)))
    except ValueError:
        return None


def _as_before(request: Start, source: Pod, library: Library) -> Start:
    words = source.argv if source.arguments is None else source.arguments
    if any(is_veiled(word) for word in words):
        raise BadInput(
            f"the command of pod {source.name!r} holds a secret, which is not kept",
            hint="give the command, or the agent and its arguments, after --",
        )
    if source.agent is None or source.arguments is None:
        return structs.replace(request, argv=source.argv)
    manifest = library.find(source.agent)
    arguments = source.arguments
    if not begins_no_conversation(manifest, arguments):
        # A conversation must never have two who write it.
        arguments = without_conversation(manifest, arguments)
    if Path(source.argv[0]).name == manifest.program and "/" not in source.argv[0]:
        return structs.replace(request, agent=source.agent, argv=arguments)
    return structs.replace(request, argv=(source.argv[0], *arguments))
