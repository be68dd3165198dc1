"""``scrubjay rm``: delete recordings."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, human_bytes, json_option, pass_context, pods_argument, say
from scrubjay.errors import BadInput


@click.command("rm")
@pods_argument
@json_option
@pass_context
def command(context: Context, pods: tuple[str, ...], *, as_json: bool) -> None:
    """Delete pods that have ended, with their tapes. This cannot be undone."""
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
        removed.append(pod.id)
        if not as_json:
            say(f"scrubjay: deleted {pod.name} ({human_bytes(size)})")
    if as_json:
        emit({"removed": removed})
