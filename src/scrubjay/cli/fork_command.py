"""``scrubjay fork``: begin anew with the files a pod had at an instant."""

from __future__ import annotations

import uuid
from typing import cast

import click

from scrubjay.cli.client import pod_path
from scrubjay.cli.context import Context, complete_agents, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.kept_worktrees import Here, Kept, describe_moment, exact_instant, open_past
from scrubjay.cli.ps_command import plain
from scrubjay.cli.run_command import SIZE_WITHOUT_TERMINAL, report, start_here
from scrubjay.cli.terminal import join, terminal_size
from scrubjay.errors import BadInput
from scrubjay.tape.record import Json
from scrubjay.wire.messages import FromCheckpoint, Start

_FORK_WITHIN_S = 630.0  # as long as a start may take


@click.command("fork")
@pod_argument
@click.option(
    "--at",
    "raw_at",
    metavar="TIME",
    required=True,
    help="With its files of then: 12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET.",
)
@click.option("--name", metavar="N", help="What to call the new pod; by default NAME-fork.")
@click.option("-d", "--detach", is_flag=True, help="Return at once; it runs in the background.")
@click.option("--agent", metavar="A", help="Run this agent instead of the same again.", shell_complete=complete_agents)
@click.option("--prompt", metavar="TEXT", help="What to tell the agent first.")
@click.option("--no-mcp", is_flag=True, help="Do not give it the tools of the server.")
@json_option
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARG]...]", type=click.UNPROCESSED)
@pass_context
def command(
    context: Context,
    pod: str,
    raw_at: str,
    name: str | None,
    agent: str | None,
    prompt: str | None,
    command: tuple[str, ...],
    *,
    detach: bool,
    no_mcp: bool,
    as_json: bool,
) -> int:
    """Start a pod in a new worktree with the files another pod had at an instant, and a session of its own.

    It runs what that pod ran, in a new conversation, unless a command or agent is given. What was not committed then
    is not committed in the new worktree either. The files are those that were kept last up to then.
    """
    if as_json and not detach:
        raise BadInput("--json would mix with what the program shows", hint="add --detach, or leave --json out")
    cols, rows = terminal_size() or SIZE_WITHOUT_TERMINAL
    wanted = Start(argv=command, agent=agent, prompt=prompt, name=name, cols=cols, rows=rows)
    with open_past(context, pod) as past:
        kept = past.find(raw_at)
        local = isinstance(past, Here)
        wanted.checkpoint = FromCheckpoint(pod=kept.checkpoint.pod, commit=kept.checkpoint.commit)
    if not local:
        return _fork_elsewhere(context, pod, wanted, kept, mcp=not no_mcp, detach=detach, as_json=as_json)
    started = start_here(context, wanted, mcp=not no_mcp)
    _tell(started.name, past.name, kept)
    if not detach:
        return report(started, join(started, context.author, from_start=True))
    facts: Json = {"id": started.id, "name": started.name, "session": started.session, "branch": started.branch}
    _print(facts | {"cwd": started.cwd}, kept, as_json=as_json)
    return 0


def _fork_elsewhere(
    context: Context, pod: str, wanted: Start, kept: Kept, *, mcp: bool, detach: bool, as_json: bool
) -> int:
    body: Json = {
        "at": exact_instant(kept.checkpoint),
        "command": list(wanted.argv),
        "agent": wanted.agent,
        "prompt": wanted.prompt,
        "name": wanted.name,
        "cols": wanted.cols,
        "rows": wanted.rows,
        "mcp": mcp,
    }
    path, key = pod_path(pod, "fork"), uuid.uuid4().hex
    forked = cast(Json, context.client.post(path, body, timeout_s=_FORK_WITHIN_S, key=key))
    _tell(str(forked["name"]), pod, kept)
    if not detach:
        from scrubjay.cli.remote_terminal import join_elsewhere

        return join_elsewhere(context.client, str(forked["name"]))
    _print({name: forked[name] for name in ("id", "name", "session")}, kept, as_json=as_json)
    return 0


def _tell(name: str, source: str, kept: Kept) -> None:
    say(f"scrubjay: {name} begins with the files of {source} at {describe_moment(kept)}")
    if kept.checkpoint.left_out:
        say(f"scrubjay: without {plain(', '.join(kept.checkpoint.left_out))}")


def _print(facts: Json, kept: Kept, *, as_json: bool) -> None:
    if as_json:
        emit(facts | {"checkpoint": kept.describe()})
    else:
        click.echo(facts["name"])
