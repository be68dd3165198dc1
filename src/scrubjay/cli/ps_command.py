"""``scrubjay ps``: which pods there are."""

from __future__ import annotations

import shlex
import shutil
import sys
import time

import click

from scrubjay.cli.context import Context, emit, human_bytes, human_span, json_option, pass_context
from scrubjay.errors import NotATape
from scrubjay.pods.pod import Observation, Pod
from scrubjay.tape.record import Json

_HEADINGS = ("NAME", "ID", "STATE", "AGE", "TAPE", "UNSYNCED", "COMMAND")


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
    }


def _row(pod: Pod, seen: Observation) -> tuple[str, ...]:
    unsynced = (seen.live or {}).get("unsynced_us")
    until = seen.ended_us / 1e6 if seen.ended_us is not None else time.time()
    return (
        pod.name,
        pod.id[:8],
        seen.describe(),
        human_span(until - pod.created_us / 1e6),
        human_bytes(_stored_bytes(pod)),
        f"{unsynced // 1000} ms" if isinstance(unsynced, int) else "-",
        one_line(pod.argv),
    )


def one_line(argv: tuple[str, ...]) -> str:
    """A command as a person would type it, without anything that could act on their terminal."""
    line = " ".join(shlex.join(argv).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


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
