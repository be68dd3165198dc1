"""``scrubjay reindex``: make keyframes and the search index anew."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, human_bytes, json_option, pass_context, pods_argument, say
from scrubjay.cli.indexing import Indexed, bring_up_to_date
from scrubjay.errors import BadInput
from scrubjay.replay.search import SearchIndex


@click.command("reindex")
@pods_argument
@click.option("--all", "every", is_flag=True, help="All pods.")
@json_option
@pass_context
def command(context: Context, pods: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    """Make keyframes and the search index of pods anew, out of their tapes.

    Both are made by themselves when a recording is first looked at or searched; deleting them loses nothing.
    """
    context.require_here("reindex")
    if every == bool(pods):
        raise BadInput("which pods?", hint="name some, or give --all")
    found = context.home.pods() if every else [context.home.find(pod) for pod in pods]
    with SearchIndex(context.home.search_path) as index:
        if every:
            index.clear()
        done = bring_up_to_date(index, found, fresh=True)
    rows: list[dict[str, object]] = []
    for indexed in done:
        rows.append(
            {
                "id": indexed.pod.id,
                "name": indexed.pod.name,
                "output_bytes": indexed.output_bytes,
                "keyframes": indexed.keyframes,
                "keyframe_bytes": indexed.keyframe_bytes,
                "left_out": indexed.holes,
                "fault": "another process is indexing it" if indexed.busy else indexed.fault,
            }
        )
        if not as_json:
            say(f"scrubjay: {_describe(indexed)}")
    if as_json:
        emit(rows)


def _describe(indexed: Indexed) -> str:
    name = indexed.pod.name
    if indexed.busy:
        return f"left {name} as it is: another process is indexing it"
    if indexed.fault is not None:
        return f"cannot index {name}: {indexed.fault}"
    holes = f"; {indexed.holes} parts could not be shown" if indexed.holes else ""
    return f"indexed {name}: {human_bytes(indexed.output_bytes)} of output, {indexed.keyframes} keyframes{holes}"
