"""``scrubjay send``: type into a pod."""

from __future__ import annotations

import time

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument
from scrubjay.cli.keys import encode_key
from scrubjay.errors import BadInput
from scrubjay.tape.record import Json

# Programs that take a burst for a paste do not take an Enter in it for one.
_BEFORE_ENTER_S = 0.1
_PIECE_BYTES = 64 << 10


@click.command("send")
@pod_argument
@click.argument("text", required=False)
@click.option("--enter", is_flag=True, help="Press Enter after the text and keys.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Press a key after the text: ctrl-c, esc, up, f5, …")
@json_option
@pass_context
def command(context: Context, pod: str, text: str | None, keys: tuple[str, ...], *, enter: bool, as_json: bool) -> None:
    """Type TEXT into a pod. It returns when what was typed is on the tape and synced."""
    if not text and not keys and not enter:
        raise BadInput("there is nothing to send", hint="give a TEXT, --key or --enter")
    data = (text or "").encode("utf-8", "surrogateescape") + b"".join(encode_key(key) for key in keys)
    if context.server is not None:
        from scrubjay.cli.remote import type_elsewhere

        type_elsewhere(context, pod, data, enter=enter, as_json=as_json)
        return
    with context.home.find(pod).connect() as keeper:
        request: Json = {"do": "write", "author": context.author}
        offset: object = None
        for start in range(0, len(data), _PIECE_BYTES):
            offset = keeper.ask(request, data[start : start + _PIECE_BYTES])["offset"]
        if enter:
            if data:
                time.sleep(_BEFORE_ENTER_S)
            offset = keeper.ask(request, encode_key("enter"))["offset"]
    if as_json:
        emit({"bytes": len(data) + enter, "offset": offset})
