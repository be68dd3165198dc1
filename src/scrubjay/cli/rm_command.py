"""``scrubjay rm``: delete recordings."""

from __future__ import annotations

import os

import click

from scrubjay.cli.context import Context, emit, human_bytes, json_option, pass_context, pods_argument, say
from scrubjay.errors import BadInput, RepositoryGone, ScrubjayError
from scrubjay.pods.pod import Pod


@click.command("rm")
@pods_argument
@json_option
@pass_context
def command(context: Context, pods: tuple[str, ...], *, as_json: bool) -> None:
    """Delete pods that have ended, with their tapes and checkpoints. This cannot be undone."""
    if not pods:
        raise BadInput("there is nothing to delete", hint="name one or more pods that have ended")
    if context.server is not None:
        from scrubjay.cli.remote import remove_elsewhere

        remove_elsewhere(context, pods, as_json=as_json)
        return
    found = [context.home.find(pod) for pod in pods]
    removed: list[str] = []
    for pod in found:
        size = pod.tape().stored_bytes
        context.home.remove(pod)
        if pod.worktree is not None:
            _forget_checkpoints(context, pod)
        removed.append(pod.id)
        if not as_json:
            say(f"scrubjay: deleted {pod.name} ({human_bytes(size)})")
    if as_json:
        emit({"removed": removed})


def _forget_checkpoints(context: Context, pod: Pod) -> None:
    from scrubjay.runner.checkpoints import Checkpoints
    from scrubjay.runner.worktrees import Worktrees

    try:
        Checkpoints(Worktrees(context.home.path, environ=os.environ)).forget(pod)
    except (OSError, RepositoryGone):
        pass  # then they are gone already
    except ScrubjayError as error:
        say(f"scrubjay: what was kept of the worktree of {pod.name} is still in its repository: {error}")
