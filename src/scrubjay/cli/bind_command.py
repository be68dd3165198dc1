"""``scrubjay bind``: let one pod at another's terminal."""

from __future__ import annotations

import uuid
from typing import cast

import click

from scrubjay.cli.bindings import PATH, describe, reason_option, scope_option
from scrubjay.cli.context import Context, complete_pods, emit, json_option, pass_context, say
from scrubjay.tape.record import Json


@click.command("bind")
@click.argument("initiator", metavar="A", shell_complete=complete_pods)
@click.argument("target", metavar="B", shell_complete=complete_pods)
@scope_option(required=True, help="terminal:read to see it and its past, terminal:write to type into it.")
@reason_option
@click.option("--accept", is_flag=True, help="Grant it at once; without, B or a person is asked.")
@json_option
@pass_context
def command(
    context: Context,
    initiator: str,
    target: str,
    scopes: tuple[str, ...],
    reason: str | None,
    *,
    accept: bool,
    as_json: bool,
) -> None:
    """Ask that pod A may do something to the terminal of pod B, and print the id of the binding."""
    body: Json = {
        "initiator": initiator,
        "target": target,
        "scopes": list(scopes),
        "reason": reason,
        "accept": accept,
    }
    kept = cast(Json, context.client.post(PATH, body, key=uuid.uuid4().hex))
    if as_json:
        emit(kept)
        return
    say(f"scrubjay: {describe(kept)}")
    click.echo(kept["id"])
