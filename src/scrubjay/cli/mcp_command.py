"""``scrubjay mcp``: the tools for agents over standard input and output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from scrubjay.cli.context import Context, pass_context, say

if TYPE_CHECKING:
    from scrubjay.cli.client import Client

SESSION_VARIABLE, TAKEOVER_VARIABLE = "SCRUBJAY_SESSION", "SCRUBJAY_TAKEOVER"


@click.command("mcp")
@click.option("--server", metavar="URL", help="The server, instead of JAY_MCP_URL or this machine's own.")
@pass_context
def command(context: Context, server: str | None) -> None:
    """Speak MCP on standard input and output, for agents that cannot speak it over HTTP.

    What comes in is carried to the server: the one that is named by --server or JAY_MCP_URL, with the token in
    SCRUBJAY_TOKEN or JAY_MCP_TOKEN, or else the one of this machine. SCRUBJAY_SESSION names the session to go on with;
    SCRUBJAY_TAKEOVER=1 takes it from a connection that still has it.
    """
    from scrubjay.cli.mcp_bridge import Bridge

    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)
        out.flush()

    session = os.environ.get(SESSION_VARIABLE, "").strip() or None
    takeover = os.environ.get(TAKEOVER_VARIABLE, "").strip().lower() in ("1", "true")
    bridge = Bridge(
        _client(context, server), write, lambda words: say(f"scrubjay: {words}"), session=session, takeover=takeover
    )
    bridge.run(sys.stdin.buffer)
    # What is still under way ends with us; the rest of Python's farewell would wait for it.
    os._exit(0)


def _client(context: Context, server: str | None) -> Client:
    from scrubjay.cli.client import Client
    from scrubjay.cli.mcp_bridge import PATH

    # Inside a pod it is the pod that speaks, wherever the person who started it has a server of their own.
    pod_url, pod_token = (os.environ.get(name) or None for name in ("JAY_MCP_URL", "JAY_MCP_TOKEN"))
    url = server or pod_url or context.server
    token = pod_token or context.token if url == pod_url else context.token or pod_token
    if url is not None:
        url = url.removesuffix("/").removesuffix(PATH)
    return Client(url, token, context.settings.data / "server.sock")
