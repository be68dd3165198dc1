"""``scrubjay run``: start a program in a pod."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.cli.terminal import Outcome, join, terminal_size
from scrubjay.errors import BadInput
from scrubjay.ids import parse_pod_name
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod

_SIZE_WITHOUT_TERMINAL = (120, 36)
_LOST = 1


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--name", metavar="N", help="What to call the pod; by default it is named after the command.")
@click.option("-d", "--detach", is_flag=True, help="Return at once; the program runs in the background.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", help="Run the program in this directory.")
@click.option("--cols", type=int, metavar="C", help="Columns of the pod's terminal.")
@click.option("--rows", type=int, metavar="R", help="Rows of the pod's terminal.")
@json_option
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARG]...", type=click.UNPROCESSED)
@pass_context
def command(
    context: Context,
    name: str | None,
    cwd: Path | None,
    cols: int | None,
    rows: int | None,
    command: tuple[str, ...],
    *,
    detach: bool,
    as_json: bool,
) -> int:
    """Run a program and record everything it shows and is sent.

    Your terminal becomes the program's. Press ctrl-\\ twice, or close the terminal, to leave it running.
    The exit status is the program's.
    """
    if as_json and not detach:
        raise BadInput("--json would mix with what the program shows", hint="add --detach, or leave --json out")
    here = terminal_size() or _SIZE_WITHOUT_TERMINAL
    request = StartRequest(
        argv=command,
        cwd=cwd.absolute() if cwd is not None else Path.cwd(),
        cols=cols if cols is not None else here[0],
        rows=rows if rows is not None else here[1],
        name=parse_pod_name(name) if name is not None else None,
    )
    pod = start_pod(context.home, request, context.settings, os.environ)
    if detach:
        if as_json:
            emit({"id": pod.id, "name": pod.name, "session": pod.session})
        else:
            click.echo(pod.name)
        return 0
    return report(pod, join(pod, context.author, from_start=True))


def report(pod: Pod, outcome: Outcome) -> int:
    """Say how it ended and return the exit status that tells the same."""
    if outcome.lost:
        say(f"scrubjay: pod {pod.name} was lost: its keeper is gone; what it recorded: scrubjay logs {pod.id[:8]}")
        return _LOST
    if outcome.status is None:
        say(f"scrubjay: left pod {pod.name} running; come back with: scrubjay attach {pod.name}")
        return 0
    say(f"scrubjay: pod {pod.name} ended with {outcome.status}; what it did: scrubjay logs {pod.name}")
    return outcome.status
