"""``scrubjay mark``: label this moment of a pod."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument


@click.command("mark")
@pod_argument
@click.argument("label")
@json_option
@pass_context
def command(context: Context, pod: str, label: str, *, as_json: bool) -> None:
    """Put a LABEL on the tape at this moment, to find it again later."""
    if context.server is not None:
        from scrubjay.cli.remote import mark_elsewhere

        mark_elsewhere(context, pod, label, as_json=as_json)
        return
    with context.home.find(pod).connect() as keeper:
        answer = keeper.ask({"do": "mark", "label": label, "author": context.author})
    if as_json:
        emit({"label": label, "offset": answer["offset"]})
