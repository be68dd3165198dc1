"""``scrubjay import``: take in a recording of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, progress, say
from scrubjay.ids import parse_pod_name
from scrubjay.pods.importing import import_pod


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.cast")
@click.option("--name", metavar="N", help="What to call the pod; by default it is named after the file.")
@click.option("--accept-truncated", is_flag=True, help="Import a file that is cut off, up to where it is.")
@json_option
@pass_context
def command(context: Context, file: Path, name: str | None, *, accept_truncated: bool, as_json: bool) -> None:
    """Import an asciicast (version 1, 2 or 3) as a pod that has ended."""
    context.require_here("import")
    size = file.stat().st_size if file.is_file() else 0
    with progress(f"importing {file.name}", size) as step:
        pod, imported = import_pod(
            context.home,
            file,
            parse_pod_name(name) if name is not None else None,
            accept_truncated=accept_truncated,
            progress=step,
        )
    if as_json:
        emit(
            {
                "id": pod.id,
                "name": pod.name,
                "events": imported.events,
                "duration_s": imported.last_at / 1e6,
                "truncated_line": imported.truncated_line,
            }
        )
        return
    click.echo(pod.name)
    if imported.truncated_line is not None:
        say(f"scrubjay: {file} is cut off in line {imported.truncated_line}; everything before it was imported")
