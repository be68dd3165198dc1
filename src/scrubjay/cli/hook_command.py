"""``scrubjay hook``: for agents, which tell by it what they are doing. It is run without the rest of this package."""

from __future__ import annotations

import click

from scrubjay.hook import main


@click.command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("source")
@click.argument("event", required=False)
def command(source: str, event: str | None) -> None:
    """Tell the pod this runs in what its agent, the SOURCE, is doing: for the agent's own hooks.

    What happened is JSON on standard input, or the name of an EVENT. Outside a pod it does nothing; it always exits
    with 0.
    """
    main([source] if event is None else [source, event])
