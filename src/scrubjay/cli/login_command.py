"""``scrubjay login``: a new link for a browser."""

from __future__ import annotations

import webbrowser

import click

from scrubjay.cli.client import login_link_of
from scrubjay.cli.context import Context, emit, json_option, pass_context


@click.command("login")
@click.option("--role", type=click.Choice(["operator", "viewer"]), default="operator", help="What the browser may do.")
@click.option("--name", default="browser", metavar="N", help="What to call it.")
@click.option("--open", "open_browser", is_flag=True, help="Open it in a browser.")
@json_option
@pass_context
def command(context: Context, role: str, name: str, *, open_browser: bool, as_json: bool) -> None:
    """Print a link that logs one browser in, once, within ten minutes."""
    link = login_link_of(context.client, role=role, name=name)
    if as_json:
        emit({"login": link})
    else:
        click.echo(link)
    if open_browser:
        webbrowser.open(link)
