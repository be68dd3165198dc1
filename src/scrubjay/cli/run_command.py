"""``scrubjay run``: start a program in a pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scrubjay.agents.library import Library
from scrubjay.cli.context import Context, complete_agents, emit, json_option, pass_context, say
from scrubjay.cli.passes import pass_for_pod
from scrubjay.cli.terminal import Outcome, join, terminal_size
from scrubjay.errors import BadInput
from scrubjay.ids import parse_pod_name
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod

if TYPE_CHECKING:
    from scrubjay.wire.messages import Start

SIZE_WITHOUT_TERMINAL = (120, 36)
_LOST = 1


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--name", metavar="N", help="What to call the pod; by default it is named after the command.")
@click.option("-d", "--detach", is_flag=True, help="Return at once; the program runs in the background.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", help="Run the program in this directory.")
@click.option("--cols", type=int, metavar="C", help="Columns of the pod's terminal.")
@click.option("--rows", type=int, metavar="R", help="Rows of the pod's terminal.")
@click.option("--repo", "repository", metavar="REPO", help="Give it a git worktree of its own of this path or URL.")
@click.option("--branch", metavar="B", help="The worktree's branch; by default a new one named after the pod.")
@click.option("--base", metavar="COMMIT", help="Where a new branch begins; by default where the repository is.")
@click.option(
    "--agent",
    metavar="A",
    help="Run an agent by its name: claude, codex, gemini, opencode, aider, …",
    shell_complete=complete_agents,
)
@click.option("--prompt", metavar="TEXT", help="What to tell the agent first.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Set a variable for the program.")
@click.option("--no-mcp", is_flag=True, help="Do not give it the tools of the server.")
@json_option
@click.argument("command", nargs=-1, metavar="-- COMMAND [ARG]...", type=click.UNPROCESSED)
@pass_context
def command(
    context: Context,
    name: str | None,
    cwd: Path | None,
    cols: int | None,
    rows: int | None,
    repository: str | None,
    branch: str | None,
    base: str | None,
    agent: str | None,
    prompt: str | None,
    environment: tuple[str, ...],
    command: tuple[str, ...],
    *,
    detach: bool,
    no_mcp: bool,
    as_json: bool,
) -> int:
    """Run a program and record everything it shows and is sent.

    Your terminal becomes the program's. Press ctrl-\\ twice, or close the terminal, to leave it running.
    The exit status is the program's.
    """
    if as_json and not detach:
        raise BadInput("--json would mix with what the program shows", hint="add --detach, or leave --json out")
    if not command and agent is None:
        raise BadInput("there is nothing to run", hint="give a command after --, or --agent NAME")
    here = terminal_size() or SIZE_WITHOUT_TERMINAL
    cols, rows = cols if cols is not None else here[0], rows if rows is not None else here[1]
    plain = repository is None and branch is None and base is None and agent is None and prompt is None
    plain = plain and Library(context.settings.agents).recognise(command[0]) is None
    if context.server is None and plain and not environment:
        # The way every keystroke-counting user starts pods: without what only worktrees and agents need loaded.
        with pass_for_pod(context, wanted=not no_mcp) as given:
            request = StartRequest(
                argv=command,
                cwd=cwd.absolute() if cwd is not None else Path.cwd(),
                cols=cols,
                rows=rows,
                name=parse_pod_name(name) if name is not None else None,
                id=given.pod if given is not None else None,
                environment=given.mcp.environment if given is not None else {},
            )
            pod = start_pod(context.home, request, context.settings, os.environ)
        return _go_on(context, pod, detach, as_json)
    from scrubjay.wire.messages import Start

    wanted = Start(
        argv=command,
        agent=agent,
        prompt=prompt,
        name=name,
        cwd=_cwd(context, cwd, repository),
        repository=_repository(context, repository),
        branch=branch,
        base=base,
        environment=dict(parse_variable(word) for word in environment),
        cols=cols,
        rows=rows,
    )
    if context.server is not None:
        from scrubjay.cli.remote import run_elsewhere

        return run_elsewhere(context, wanted, mcp=not no_mcp, detach=detach, as_json=as_json)
    return _go_on(context, start_here(context, wanted, mcp=not no_mcp), detach, as_json)


def start_here(context: Context, wanted: Start, *, mcp: bool) -> Pod:
    """Start a pod on this machine, with or without a server."""
    from msgspec import structs

    from scrubjay.runner.start import start
    from scrubjay.runner.worktrees import Worktrees

    worktrees = Worktrees(context.home.path, environ=os.environ)
    with pass_for_pod(context, wanted=mcp) as given:
        if given is not None:
            wanted = structs.replace(wanted, pod=given.pod, mcp_token=given.mcp.token)
        pod = start(
            wanted,
            home=context.home,
            worktrees=worktrees,
            settings=context.settings,
            environ=os.environ,
            mcp_url=given.mcp.url if given is not None else None,
        )
    if pod.type_when_ready is not None and not context.local_client().answers():
        say(f"scrubjay: the prompt is typed when {pod.agent} waits for it, by 'scrubjay up', which does not run here")
    return pod


def _go_on(context: Context, pod: Pod, detach: bool, as_json: bool) -> int:  # noqa: FBT001
    if not detach:
        return report(pod, join(pod, context.author, from_start=True))
    if as_json:
        emit({"id": pod.id, "name": pod.name, "session": pod.session, "branch": pod.branch, "cwd": pod.cwd})
    else:
        click.echo(pod.name)
    return 0


def _cwd(context: Context, cwd: Path | None, repository: str | None) -> str | None:
    if repository is not None or context.server is not None:
        return None if cwd is None else str(cwd)  # inside the worktree, or on another machine
    return str(cwd.absolute() if cwd is not None else Path.cwd())


def _repository(context: Context, repository: str | None) -> str | None:
    """A path as it is meant here; an address, or a path on another machine, as it was given."""
    if repository is None or context.server is not None or not Path(repository).exists():
        return repository
    return str(Path(repository).absolute())


def parse_variable(word: str) -> tuple[str, str]:
    """A variable and its value; BadInput if it is not NAME=VALUE."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise BadInput(f"{name!r} is not NAME=VALUE", hint="like --env EDITOR=vi")
    return name, value


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
