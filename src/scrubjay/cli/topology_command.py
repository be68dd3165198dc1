"""``scrubjay topology``: who is there, and what is between them."""

from __future__ import annotations

from typing import cast

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.topology_views import render_dot, render_mermaid, render_text
from scrubjay.errors import BadInput
from scrubjay.tape.record import Json


@click.command("topology")
@at_option
@click.option("--all", "show_all", is_flag=True, help="Also pods that have ended and have nothing to do with others.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart, as for a page in Markdown.")
@click.option("--dot", is_flag=True, help="Print a graph for Graphviz.")
@json_option
@pass_context
def command(context: Context, raw_at: str | None, *, show_all: bool, mermaid: bool, dot: bool, as_json: bool) -> None:
    """Show pods by machine with what they do, bindings, waits, deadlocks and messages, now or as they were."""
    if mermaid + dot + as_json > 1:
        raise BadInput("it is printed in one form at a time", hint="leave all but one of --json, --mermaid, --dot out")
    at = instant_of(raw_at)
    topology = cast(Json, context.client.get("/api/v1/topology", at=at, all=str(show_all).lower()))
    if as_json:
        emit(topology)
    elif mermaid:
        click.echo(render_mermaid(topology))
    elif dot:
        click.echo(render_dot(topology))
    elif topology["nodes"]:
        click.echo(render_text(topology))
    else:
        say("scrubjay: nobody is there" + ("" if show_all else "; 'scrubjay topology --all' shows who has ended"))
