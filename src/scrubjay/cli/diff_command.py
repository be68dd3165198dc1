"""``scrubjay diff``: what was changed in a pod's worktree, up to now or any instant."""

from __future__ import annotations

from typing import cast

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.inert import InertFilter
from scrubjay.cli.kept_worktrees import Kept, describe_moment, open_past
from scrubjay.cli.ps_command import plain
from scrubjay.errors import BadInput
from scrubjay.tape.record import Json

_TIMES = "12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET."


@click.command("diff")
@pod_argument
@click.option("--at", "raw_at", metavar="TIME", help=f"As its files were then: {_TIMES}")
@click.option("--since", "raw_since", metavar="TIME", help="Compare with then, instead of what it was made from.")
@click.option("--stat", is_flag=True, help="Only which files, and how many lines.")
@json_option
@pass_context
def command(
    context: Context, pod: str, raw_at: str | None, raw_since: str | None, *, stat: bool, as_json: bool
) -> None:
    """Show what a pod has changed in its worktree, committed or not: as it is now, or was at an instant.

    The files of an instant are those that were kept last: when its agent was idle, waited, or ended.
    """
    with open_past(context, pod) as past:
        at = past.find(raw_at) if raw_at is not None else None
        since = past.find(raw_since) if raw_since is not None else None
        if at is not None and since is not None and since.time > at.time:
            raise BadInput("--since is after --at", hint="exchange them")
        if as_json:
            emit(_with_ends(past.summary(at, since), at, since))
            return
        text = _table(past.summary(at, since)) if stat else past.patch(at, since)
    say(f"scrubjay: {past.name} {_words(at, since)}")
    if at is not None and at.checkpoint.left_out:
        say(f"scrubjay: left out: {plain(', '.join(at.checkpoint.left_out))}")
    inert = InertFilter(colours=False)
    click.echo(inert.feed(text.encode("utf-8", "replace")) + inert.finish(), nl=False)


def _with_ends(summary: Json, at: Kept | None, since: Kept | None) -> Json:
    return summary | {
        "at": at.describe() if at is not None else None,
        "since": since.describe() if since is not None else None,
    }


def _words(at: Kept | None, since: Kept | None) -> str:
    until = f"at {describe_moment(at)}" if at is not None else "now"
    start = describe_moment(since) if since is not None else "what its worktree was made from"
    return f"{until}, compared with {start}"


def _table(summary: Json) -> str:
    files = cast(list[Json], summary["files"])
    lines = [f"{_lines(file):>12}  {_path(file)}" for file in files]
    if (more := cast(int, summary["files_changed"]) - len(files)) > 0:
        lines.append(f"{'':>12}  and {more} more files")
    changed, commits = cast(int, summary["files_changed"]), cast(int, summary["commits"])
    files_, commits_ = f"file{'s' * (changed != 1)}", f"commit{'s' * (commits != 1)}"
    lines.append(f"{changed} {files_}, +{summary['insertions']} -{summary['deletions']}; {commits} {commits_}")
    return "\n".join(lines) + "\n"


def _lines(file: Json) -> str:
    return "binary" if file["insertions"] is None else f"+{file['insertions']} -{file['deletions']}"


def _path(file: Json) -> str:
    path, change = plain(str(file["path"])), str(file["change"])
    if file.get("old_path") is not None:
        return f"{path} ({change} from {plain(str(file['old_path']))})"
    return path if change == "modified" else f"{path} ({change})"
