"""``scrubjay tell``: say something to one pod."""

from __future__ import annotations

import uuid
from typing import cast

import click

from scrubjay.cli.client import pod_path
from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument
from scrubjay.cli.said import text_of
from scrubjay.tape.record import Json


@click.command("tell")
@pod_argument
@click.argument("text", metavar="TEXT")
@click.option("--ask", is_flag=True, help="Say that an answer is expected.")
@json_option
@pass_context
def command(context: Context, pod: str, text: str, *, ask: bool, as_json: bool) -> None:
    """Put TEXT into the inbox of a pod (- reads it from standard input), and print what the message is called.

    Its agent is told when it is idle at its prompt, or reads it by itself; 'scrubjay send' types at once.
    """
    body: Json = {"text": text_of(text), "expects_reply": ask}
    said = cast(Json, context.client.post(pod_path(pod, "messages"), body, key=uuid.uuid4().hex))
    if as_json:
        emit(said)
    else:
        click.echo(said["id"])
