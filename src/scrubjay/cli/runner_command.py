"""``scrubjay runner``: this machine's pods in a fleet whose server is elsewhere."""

from __future__ import annotations

import os

import click

from scrubjay.cli.client import check_address, check_token
from scrubjay.cli.context import Context, pass_context, say
from scrubjay.errors import BadInput


@click.group("runner")
def command() -> None:
    """Bring this machine's pods to a server elsewhere."""


@command.command("join")
@click.argument("url", metavar="URL")
@pass_context
def join(context: Context, url: str) -> int:
    """Join the fleet of the server at URL, with the token in SCRUBJAY_TOKEN.

    The server may be away: nothing is lost, and what it missed is sent when it is back. Ctrl-C ends the runner, not
    the pods.
    """
    check_address(url)
    token = context.token
    if token is None:
        raise BadInput(
            "there is no token for the server",
            hint="'scrubjay token create --role runner' there makes one; put it into SCRUBJAY_TOKEN",
        )
    check_token(token)
    from scrubjay.cli.logging import set_up_logging

    set_up_logging(context.settings)

    async def run() -> int:
        from scrubjay.cli.machinery import asked_to_stop, first_of, running_runner
        from scrubjay.runner.remote_link import stay_linked

        stopping = asked_to_stop()
        async with running_runner(context.settings, os.environ) as uplink:
            say(f"scrubjay: this machine's pods are in the fleet of {url}; Ctrl-C ends the runner, not the pods")
            await first_of(stay_linked(uplink, url, token), stopping.wait())
        return 0

    import uvloop

    return uvloop.run(run())
