"""``scrubjay stop``: end a pod."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.errors import PodNotRunning
from scrubjay.keeper.undertaker import bury
from scrubjay.pods.stopping import stop_pod


@click.command("stop")
@pod_argument
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(0, 3600),
    default=5.0,
    metavar="S",
    show_default=True,
    help="Seconds between TERM and KILL.",
)
@json_option
@pass_context
def command(context: Context, pod: str, grace_s: float, *, as_json: bool) -> None:
    """End a pod's program: TERM, then KILL after a grace. Returns when its tape is closed."""
    if context.server is not None:
        from scrubjay.cli.remote import stop_elsewhere

        stop_elsewhere(context, pod, grace_s, as_json=as_json)
        return
    found = context.home.find(pod)
    seen = found.observe()
    if seen.state == "lost":
        count = bury(found.id)
        say(f"scrubjay: pod {found.name} was lost before; ended {count} processes it left")
    elif seen.state in ("exited", "imported"):
        raise PodNotRunning(found.name, seen.describe())
    else:
        stop_pod(found, author=context.author, grace_s=grace_s)
    seen = found.observe()
    if as_json:
        emit({"id": found.id, "name": found.name, "state": seen.state, "status": seen.status})
    else:
        say(f"scrubjay: pod {found.name} {seen.describe()}")
