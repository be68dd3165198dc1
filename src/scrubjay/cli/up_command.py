"""``scrubjay up``: server and runner of this machine."""

from __future__ import annotations

import os
import webbrowser
from dataclasses import replace
from pathlib import Path

import click

from scrubjay.cli.client import login_link_of
from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.settings import Settings


@click.command("up")
@click.option("--port", type=click.IntRange(0, 65535), metavar="P", help="Listen on this port (8477); 0 takes any.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address (127.0.0.1); others need TLS.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Keep recordings here.")
@json_option
@pass_context
def command(
    context: Context, port: int | None, host: str | None, data: Path | None, *, open_browser: bool, as_json: bool
) -> int:
    """Watch over the pods of this machine and serve them: page, API, live view, replay.

    Prints a link that logs a browser in, once. Where a server runs already it is found, and only a link is printed.
    Ctrl-C ends the server; pods go on.
    """
    settings = context.settings
    settings = replace(
        settings,
        port=port if port is not None else settings.port,
        host=host if host is not None else settings.host,
        data=data.absolute() if data is not None else settings.data,
    )
    running = context.local_client(settings.data)
    if running.answers():
        link = login_link_of(running)
        _greet(link.partition("/login")[0], link, as_json=as_json, open_browser=open_browser, new=False)
        return 0
    from scrubjay.cli.logging import set_up_logging

    set_up_logging(settings)
    return _run(settings, as_json=as_json, open_browser=open_browser)


def _run(settings: Settings, *, as_json: bool, open_browser: bool) -> int:
    import uvloop

    return uvloop.run(_serve(settings, as_json=as_json, open_browser=open_browser))


async def _serve(settings: Settings, *, as_json: bool, open_browser: bool) -> int:
    from scrubjay.cli.garbage import look_seldom
    from scrubjay.cli.machinery import (
        asked_to_stop,
        linked_locally,
        open_server,
        running_runner,
        shared_tapes,
    )

    async with (
        open_server(settings, shared_tapes(settings)) as server,
        running_runner(settings, os.environ) as uplink,
        linked_locally(uplink, server),
    ):
        stopping = asked_to_stop()
        await server.serve()  # not before: the first request must find this machine and its pods
        link = await server.first_login()
        look_seldom()
        _greet(server.url, link, as_json=as_json, open_browser=open_browser, new=True)
        await stopping.wait()
    if not as_json:
        say("scrubjay: stopped; pods go on, and 'scrubjay up' finds them again")
    return 0


def _greet(url: str, link: str | None, *, as_json: bool, open_browser: bool, new: bool) -> None:
    if as_json:
        emit({"url": url, "login": link, "pid": os.getpid() if new else None, "started": new})
    else:
        watching = "watching over this machine's pods; Ctrl-C ends the server, not the pods"
        say(f"scrubjay: {watching if new else 'a server is running already'}")
        say("scrubjay: log in once with:" if link is not None else "scrubjay: there is no space for a login link")
        click.echo(link if link is not None else url)
    if open_browser:
        webbrowser.open(link if link is not None else url)
