"""``scrubjay attach``: join a running pod."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, pass_context, pod_argument
from scrubjay.cli.run_command import report
from scrubjay.cli.terminal import join, terminal_size
from scrubjay.pods.launch import check_size


@click.command("attach")
@pod_argument
@pass_context
def command(context: Context, pod: str) -> int:
    """Make your terminal a running pod's terminal.

    Press ctrl-\\ twice, or close the terminal, to leave it running again.
    """
    if context.server is not None:
        from scrubjay.cli.remote_terminal import join_elsewhere

        return join_elsewhere(context.client, pod)
    found = context.home.find(pod)
    size = terminal_size()
    if size is not None:
        check_size(*size)
    return report(found, join(found, context.author, from_start=False))
