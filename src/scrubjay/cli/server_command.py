"""``scrubjay server``: the server alone, for runners elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, say


@click.command("server")
@click.option("--port", type=click.IntRange(0, 65535), metavar="P", help="Listen on this port (8477); 0 takes any.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address (127.0.0.1); others need TLS.")
@json_option
@pass_context
def command(context: Context, port: int | None, host: str | None, *, as_json: bool) -> int:
    """Serve runners on other machines, and keep copies of their tapes.

    'scrubjay token create --role runner' makes the token that 'scrubjay runner join' needs there.
    """
    from scrubjay.cli.logging import set_up_logging

    settings = context.settings
    settings = replace(
        settings, port=port if port is not None else settings.port, host=host if host is not None else settings.host
    )
    set_up_logging(settings)

    async def serve() -> int:
        from scrubjay.cli.garbage import look_seldom
        from scrubjay.cli.machinery import asked_to_stop, copied_tapes, first_of, keep_sealing, open_server

        tapes = copied_tapes(settings)
        try:
            async with open_server(settings, tapes) as server:
                stopping = asked_to_stop()
                await server.serve()
                link = await server.first_login()
                look_seldom()
                if as_json:
                    emit({"url": server.url, "login": link})
                else:
                    what = "log in once with:" if link is not None else "there is no space for a login link"
                    say(f"scrubjay: serving at {server.url}; {what}")
                    click.echo(link if link is not None else server.url)
                await first_of(keep_sealing(tapes), stopping.wait())
        finally:
            await asyncio.to_thread(tapes.close)
        return 0

    import uvloop

    return uvloop.run(serve())
