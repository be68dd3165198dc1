"""``scrubjay accept``: grant what is pending of a binding."""

from __future__ import annotations

import click

from scrubjay.cli.bindings import change_binding, scope_option, which_argument
from scrubjay.cli.context import Context, json_option, pass_context


@click.command("accept")
@which_argument
@scope_option(required=False, help="Grant only this; what is not granted is refused.")
@json_option
@pass_context
def command(context: Context, which: tuple[str, ...], scopes: tuple[str, ...], *, as_json: bool) -> None:
    """Grant what pod A asks for on pod B: by the id of the binding, or by its two pods."""
    change_binding(context, which, "accept", {"scopes": list(scopes)} if scopes else {}, as_json=as_json)
