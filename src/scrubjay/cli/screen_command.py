"""``scrubjay screen``: what a pod shows, now or at any instant."""

from __future__ import annotations

import sys

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.reels import open_reel
from scrubjay.errors import BadInput
from scrubjay.replay.frame import Frame
from scrubjay.replay.reel import Reel
from scrubjay.replay.still import STILL_FORMATS, StillFormat, describe_still, encode_still
from scrubjay.tape.record import Json


@click.command("screen")
@pod_argument
@click.option("--at", "raw_at", metavar="TIME", help="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET.")
@click.option("--format", "format_", type=click.Choice(STILL_FORMATS), help="By default ansi on a terminal, else text.")
@click.option(
    "--scrollback", type=click.IntRange(min=0), default=0, metavar="ROWS", help="Of what scrolled off before."
)
@json_option
@pass_context
def command(
    context: Context, pod: str, raw_at: str | None, format_: StillFormat | None, scrollback: int, *, as_json: bool
) -> int:
    """Print the screen of a pod as it is, was at the end, or was at an instant."""
    if as_json and format_ not in (None, "json"):
        raise BadInput(f"--json and --format {format_}", hint="choose one of them")
    chosen = "json" if as_json else format_ or ("ansi" if sys.stdout.isatty() else "text")
    if context.server is not None:
        from scrubjay.cli.remote import show_elsewhere

        query: Json = {"at": raw_at, "format": chosen, "scrollback": scrollback}
        click.echo(show_elsewhere(context, pod, query), nl=False)
        return 0
    with open_reel(context.home, pod) as reel:
        frame = _find(reel, raw_at, scrollback)
    if chosen == "json":
        emit(describe_still(frame))
    elif frame.unavailable is None:
        click.echo(encode_still(frame.picture, chosen), nl=False, color=True)
    if frame.unavailable is not None:
        say(f"scrubjay: screen unavailable: {frame.unavailable}")
        return 1
    if frame.doubtful is not None:
        say(f"scrubjay: this may differ from what was shown: {frame.doubtful}")
    return 0


def _find(reel: Reel, raw_at: str | None, history: int) -> Frame:
    if raw_at is None:
        return reel.seek(reel.duration, history=history)
    frame, clamped = reel.show(raw_at, history=history)
    if clamped is not None:
        say(f"scrubjay: {clamped}")
    return frame
