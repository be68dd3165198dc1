"""``scrubjay ps``: which pods there are."""

from __future__ import annotations

import shlex
import shutil
import sys
import time

import click

from scrubjay.cli.context import Context, emit, human_bytes, human_span, json_option, pass_context
from scrubjay.errors import NotATape
from scrubjay.fleet.process import describe_activity
from scrubjay.pods.pod import Observation, Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.tape.record import Json

_HEADINGS = ("NAME", "ID", "STATE", "SINCE", "AGE", "TAPE", "COMMAND")


@click.command("ps")
@click.option("-a", "--all", "show_all", is_flag=True, help="Show pods that have ended too.")
@json_option
@pass_context
def command(context: Context, *, show_all: bool, as_json: bool) -> None:
    """List the pods that run, and those that were lost."""
    if context.server is not None:
        from scrubjay.cli.remote import list_elsewhere

        list_elsewhere(context, show_all=show_all, as_json=as_json)
        return
    observed = context.home.observe(context.home.pods())
    shown = [(pod, seen) for pod, seen in observed if show_all or seen.state not in ("exited", "imported")]
    if as_json:
        emit([describe(pod, seen) for pod, seen in shown])
        return
    if not shown:
        click.echo(
            "no pods are running; 'scrubjay ps --all' shows the others"
            if observed
            else "no pods yet; try: scrubjay run -- bash",
            err=True,
        )
        return
    print_table([_HEADINGS, *(_row(pod, seen) for pod, seen in shown)])


def describe(pod: Pod, seen: Observation) -> Json:
    """A pod for a program."""
    live = seen.live or {}
    unsynced = live.get("unsynced_us")
    return {
        "id": pod.id,
        "name": pod.name,
        "session": pod.session,
        "state": seen.state,
        "description": seen.describe(),
        "reason": seen.reason,
        "paused": seen.paused,
        "status": seen.status,
        "argv": list(pod.argv),
        "cwd": pod.cwd,
        "created": _iso(pod.created_us),
        "ended": _iso(seen.ended_us) if seen.ended_us is not None else None,
        "keeper_pid": live.get("keeper_pid"),
        "agent_pid": live.get("agent_pid"),
        "cols": live.get("cols"),
        "rows": live.get("rows"),
        "tape_bytes": live.get("written", _tape_end(pod)),
        "stored_bytes": _stored_bytes(pod),
        "unsynced_ms": unsynced / 1000 if isinstance(unsynced, int) else None,
        "sync_failures": live.get("sync_failures"),
        "followers": live.get("followers"),
        "agent": pod.agent,
        "conversation": pod.conversation,
        "resumed_from": pod.resumed_from,
        **describe_activity_of(pod, seen),
    }


def describe_activity_of(pod: Pod, seen: Observation) -> Json:
    """What its agent does, for a program; nothing where no runner watches it."""
    row = _activity(pod, seen) or {}
    return {
        "activity": row.get("activity"),
        "waiting_for": row.get("waiting_for"),
        "detail": row.get("detail"),
        "problem": row.get("problem"),
        "confidence": row.get("confidence"),
        "since": _iso(activity_since_us(pod, row)) if row else None,
    }


def _activity(pod: Pod, seen: Observation) -> Json | None:
    # A status that nobody keeps up to date would be a lie.
    watched = seen.state == "running" and (seen.live or {}).get("answering") is True
    return StatusFile(pod.folder).last() if watched else None


def activity_since_us(pod: Pod, row: Json) -> int:
    """When a status began, by the wall clock."""
    wall_us, at = row.get("wall_us"), row.get("at")
    return wall_us if isinstance(wall_us, int) else pod.created_us + (at if isinstance(at, int) else 0)


def _row(pod: Pod, seen: Observation) -> tuple[str, ...]:
    row = _activity(pod, seen)
    since_us = activity_since_us(pod, row) if row is not None else None
    until = seen.ended_us / 1e6 if seen.ended_us is not None else time.time()
    return (
        pod.name,
        pod.id[:8],
        describe_state(seen, row),
        human_span(time.time() - since_us / 1e6) if since_us is not None else "-",
        human_span(until - pod.created_us / 1e6),
        human_bytes(_stored_bytes(pod)),
        one_line(pod.argv),
    )


def describe_state(seen: Observation, row: Json | None) -> str:
    """What a pod does in a few words: its agent, where that is known."""
    return seen.describe() if row is None or seen.paused is not None else describe_row(row)


def describe_row(row: Json) -> str:
    """A status that was kept, in a few words; none if it is that nobody watched, or that it ended."""
    if "activity" not in row:
        return ""
    waiting_for, problem = row.get("waiting_for"), row.get("problem")
    return plain(
        describe_activity(
            str(row.get("activity")),
            waiting_for if isinstance(waiting_for, str) else None,
            problem if isinstance(problem, str) else None,
        )
    )


def plain(text: str) -> str:
    """A text without anything that could act on a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def one_line(argv: tuple[str, ...]) -> str:
    """A command as a person would type it, without anything that could act on their terminal."""
    return plain(shlex.join(argv))


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Columns for people, cut at the edge of their terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for row in rows:
        line = "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        click.echo(line if len(line) <= width else line[: width - 1] + "…")


def _iso(wall_us: int) -> str:
    seconds, micros = divmod(wall_us, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{micros:06d}Z"


def _tape_end(pod: Pod) -> int | None:
    try:
        return pod.tape().end
    except NotATape:
        return None


def _stored_bytes(pod: Pod) -> int:
    try:
        return pod.tape().stored_bytes
    except (NotATape, FileNotFoundError):
        return 0
