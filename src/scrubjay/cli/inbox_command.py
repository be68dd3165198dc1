"""``scrubjay inbox``: what is for a pod, and whether it has come there."""

from __future__ import annotations

from typing import cast

import click

from scrubjay.cli.client import pod_path
from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.said import print_message
from scrubjay.tape.record import Json

_LIMIT = 200


@click.command("inbox")
@pod_argument
@click.option("--all", "show_all", is_flag=True, help="Show what it has taken note of too.")
@json_option
@pass_context
def command(context: Context, pod: str, *, show_all: bool, as_json: bool) -> None:
    """Print the messages for a pod that it has not taken note of. Looking changes nothing."""
    answer = cast(Json, context.client.get(pod_path(pod, "inbox"), all=str(show_all).lower(), limit=_LIMIT))
    if as_json:
        emit(answer)
        return
    messages = cast("list[Json]", answer["messages"])
    for message in messages:
        print_message(message)
    if not messages:
        say(f"scrubjay: there is nothing for {answer['pod']}")
