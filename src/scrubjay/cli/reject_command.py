"""``scrubjay reject``: refuse what is pending of a binding."""

from __future__ import annotations

import click

from scrubjay.cli.bindings import change_binding, reason_option, which_argument
from scrubjay.cli.context import Context, json_option, pass_context


@click.command("reject")
@which_argument
@reason_option
@json_option
@pass_context
def command(context: Context, which: tuple[str, ...], reason: str | None, *, as_json: bool) -> None:
    """Refuse what pod A asks for on pod B; what was granted before stays."""
    change_binding(context, which, "reject", {"reason": reason}, as_json=as_json)
