"""``scrubjay resume``: go on with a session in a new pod."""

from __future__ import annotations

import os
import shlex
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import click

from scrubjay.cli.client import ServerRefused
from scrubjay.cli.context import Context, complete_sessions, emit, json_option, pass_context, say
from scrubjay.cli.run_command import parse_variable, report
from scrubjay.cli.terminal import join, terminal_size
from scrubjay.errors import BadInput, NoSuchPod, ScrubjayError
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.pods.stopping import is_ending
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Resume

if TYPE_CHECKING:
    from scrubjay.runner.findings import Finding

_RESUME_WITHIN_S = 630.0  # of which a clone of a large repository has 600
_NEWS_WITHIN_S, _AGAIN_S = 10.0, 0.1  # for a server to hear that an agent was killed, and what it left has ended


@click.command("resume", context_settings={"ignore_unknown_options": False})
@click.argument("target", metavar="SESSION|POD", shell_complete=complete_sessions)
@click.option("--takeover", is_flag=True, help="End the pod that has the session, if one does.")
@click.option("--reopen", is_flag=True, help="Also if the session is finished, or was left alone for too long.")
@click.option("--new-conversation", is_flag=True, help="Begin another conversation in the same session and worktree.")
@click.option("--check", is_flag=True, help="Only say what was found; exit 1 if something is in the way.")
@click.option("--prompt", metavar="TEXT", help="What to tell the agent first.")
@click.option("--name", metavar="N", help="What to call the pod, if not as before.")
@click.option("--runner", metavar="R", help="Go on at this machine of the server.")
@click.option("-d", "--detach", is_flag=True, help="Return at once; the agent runs in the background.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Set a variable for the agent.")
@click.option("--agent-args", metavar="ARGS", help="The same as what is after --, in one text.")
@json_option
@click.argument("arguments", nargs=-1, metavar="[-- ARG...]", type=click.UNPROCESSED)
@pass_context
def command(
    context: Context,
    target: str,
    prompt: str | None,
    name: str | None,
    runner: str | None,
    environment: tuple[str, ...],
    agent_args: str | None,
    arguments: tuple[str, ...],
    *,
    takeover: bool,
    reopen: bool,
    new_conversation: bool,
    check: bool,
    detach: bool,
    as_json: bool,
) -> int:
    """Go on with the work of a pod that has ended: same name, session, worktree, branch and conversation.

    What is after -- goes to the agent instead of what it was begun with. First everything is looked at: what is found
    is said, and if something is in the way nothing is changed.
    """
    if as_json and not detach and not check:
        raise BadInput("--json would mix with what the agent shows", hint="add --detach, or leave --json out")
    if not target:
        raise NoSuchPod(target)
    size = terminal_size() if not detach else None
    wanted = Resume(
        pod=target,
        check=check,
        takeover=takeover,
        new_conversation=new_conversation,
        arguments=_arguments(arguments, agent_args),
        prompt=prompt,
        environment=dict(parse_variable(word) for word in environment),
        cols=size[0] if size is not None else None,
        rows=size[1] if size is not None else None,
        author=context.author,
        name=name,
    )
    quiet = as_json or check
    if context.server is None and runner is None and _is_here(context, target):
        resumed = _resume_here(context, wanted, reopen=reopen, quiet=quiet)
    elif context.server is None and not context.client.answers():
        if runner is not None:
            raise BadInput("there is no server here that knows other machines", hint="give --server URL")
        raise NoSuchPod(target)
    else:
        resumed = _resume_elsewhere(context, wanted, reopen=reopen, runner=runner)
        _say_found(cast("list[Json]", resumed.get("findings") or []), quiet=quiet)
    if check:
        return _print_check(cast("list[Json]", resumed["findings"]), as_json=as_json)
    return _go_on(context, resumed, detach=detach, as_json=as_json)


def _arguments(after: tuple[str, ...], text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return after or None
    if after:
        raise BadInput("the agent's arguments were given twice", hint="give them after --, or with --agent-args")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(f"--agent-args cannot be read: {error}", hint="quote it as a shell would") from error


def _is_here(context: Context, raw: str) -> bool:
    """Whether the pod or session that somebody means is of this machine."""
    try:
        context.home.find(raw)
    except NoSuchPod:
        return False
    return True


# By a server, on another machine.


def _resume_elsewhere(context: Context, wanted: Resume, *, reopen: bool, runner: str | None) -> Json:
    body: Json = {
        "takeover": wanted.takeover,
        "reopen": reopen,
        "new_conversation": wanted.new_conversation,
        "check": wanted.check,
        "prompt": wanted.prompt,
        "arguments": None if wanted.arguments is None else list(wanted.arguments),
        "runner": runner,
        "name": wanted.name,
        "environment": wanted.environment,
        "cols": wanted.cols,
        "rows": wanted.rows,
    }
    path = f"/api/v1/sessions/{quote(wanted.pod, safe='')}/resume"
    return cast(Json, context.client.post(path, body, timeout_s=_RESUME_WITHIN_S, key=uuid.uuid4().hex))


# On this machine: by ourselves, for it is our environment that the agent is to have. A server is asked first.


def _resume_here(context: Context, wanted: Resume, *, reopen: bool, quiet: bool) -> Json:
    from msgspec import structs

    from scrubjay.runner.resume import resume
    from scrubjay.runner.worktrees import Worktrees

    pod = context.home.find(wanted.pod)
    wanted = structs.replace(wanted, pod=pod.id)

    def say_found(findings: Sequence[Finding]) -> None:
        _say_found([finding.describe() for finding in findings], quiet=quiet)

    with _claimed(context, pod, wanted, reopen=reopen) as claimed:
        if claimed is not None:
            wanted = structs.replace(wanted, new=str(claimed["new"]), mcp_token=cast("str | None", claimed["token"]))
        resumed = resume(
            wanted,
            home=context.home,
            worktrees=Worktrees(context.home.path, environ=os.environ),
            settings=context.settings,
            environ=os.environ,
            mcp_url=str(claimed["url"]) if claimed is not None else None,
            on_found=say_found,
        )
    return resumed.describe() | ({"epoch": claimed["epoch"]} if claimed is not None else {})


@contextmanager
def _claimed(context: Context, pod: Pod, wanted: Resume, *, reopen: bool) -> Generator[Json | None]:
    """What a server grants for the pod that is started inside, given back if that fails; None where there is none."""
    client = context.client
    if wanted.check or not client.answers():
        yield None
        return
    path = f"/api/v1/sessions/{pod.session}/claim"
    claimed = _claim(context, path, {"takeover": wanted.takeover, "reopen": reopen, "name": wanted.name}, pod)
    try:
        yield claimed
    except BaseException:
        if claimed is not None:
            with suppress(ScrubjayError):  # then it lapses by itself
                client.delete(f"{path}/{claimed['new']}")
        raise


def _claim(context: Context, path: str, body: Json, pod: Pod) -> Json | None:
    deadline = time.monotonic() + _NEWS_WITHIN_S
    while True:
        try:
            return cast(Json, context.client.post(path, body))
        except ServerRefused as error:
            if error.code == "no_such_session":  # it was begun without a server, which has not seen it yet
                return None
            if error.code != "lease_held" or time.monotonic() > deadline or not _has_just_ended(context.home, pod):
                raise
        time.sleep(_AGAIN_S)


def _has_just_ended(home: Home, pod: Pod) -> bool:
    """Whether a session's newest pod is on its way out, which the server will hear in a moment."""
    if home.of_session(pod.session)[-1].id != pod.id:  # another command has resumed it
        return False
    return is_ending(pod) or (pod.observe().ended_us or 0) > (time.time() - _NEWS_WITHIN_S) * 1e6


# What comes of it.


def _say_found(findings: list[Json], *, quiet: bool) -> None:
    """Tell a person what they should know; what is in the way is said as the reason of the failure."""
    for finding in findings:
        if not quiet and not finding["stops"]:
            say(f"scrubjay: {_line(finding)}")


def _print_check(findings: list[Json], *, as_json: bool) -> int:
    if as_json:
        emit({"findings": findings})
    for finding in [] if as_json else findings:
        click.echo(f"{'stops' if finding['stops'] else 'note'}: {_line(finding)}")
    if not findings and not as_json:
        say("scrubjay: nothing is in the way")
    return int(any(finding["stops"] for finding in findings))


def _line(finding: Json) -> str:
    return str(finding["text"]) if finding["hint"] is None else f"{finding['text']}; {finding['hint']}"


def _go_on(context: Context, resumed: Json, *, detach: bool, as_json: bool) -> int:
    if detach:
        if as_json:
            emit(resumed)
        else:
            click.echo(resumed["name"])
        return 0
    if context.server is not None:
        from scrubjay.cli.remote_terminal import join_elsewhere

        return join_elsewhere(context.client, str(resumed["id"]))
    pod = context.home.find(str(resumed["id"]))
    _warn_of_prompt(context, pod)
    return report(pod, join(pod, context.author, from_start=True))


def _warn_of_prompt(context: Context, pod: Pod) -> None:
    if pod.type_when_ready is not None and not context.local_client().answers():
        say(f"scrubjay: the prompt is typed when {pod.agent} waits for it, by 'scrubjay up', which does not run here")
