"""``scrubjay unbind``: end a binding."""

from __future__ import annotations

import click

from scrubjay.cli.bindings import change_binding, reason_option, which_argument
from scrubjay.cli.context import Context, json_option, pass_context


@click.command("unbind")
@which_argument
@reason_option
@json_option
@pass_context
def command(context: Context, which: tuple[str, ...], reason: str | None, *, as_json: bool) -> None:
    """Take back all that pod A has on pod B, and all it asks for."""
    change_binding(context, which, "unbind", {"reason": reason}, as_json=as_json)
