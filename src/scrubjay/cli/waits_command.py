"""``scrubjay waits``: who waits for whom, and who does so in a circle."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

import click

from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.ps_command import plain, print_table
from scrubjay.cli.said import short
from scrubjay.cli.waiting import describe_circle, describe_target, describe_wait
from scrubjay.errors import BadInput
from scrubjay.tape.record import Json

_HEADINGS = ("ID", "WAITER", "FOR", "REASON", "SOURCE", "SINCE", "DEADLINE")
_TARGET_COLS, _REASON_COLS = 40, 48


@click.command("waits")
@at_option
@click.option("--cancel", "cancelled", metavar="ID", help="Cancel a wait, by its id or a unique beginning.")
@json_option
@pass_context
def command(context: Context, raw_at: str | None, cancelled: str | None, *, as_json: bool) -> None:
    """List who waits for what, why and how long, and name the circles among them."""
    if cancelled is not None:
        if raw_at is not None:
            raise BadInput("what was is not changed", hint="leave --at or --cancel out")
        wait = cancel_wait(context, cancelled)
        if as_json:
            emit(wait)
        else:
            say(f"scrubjay: {describe_wait(wait)} is {wait['state']}: {plain(str(wait['detail']))}")
        return
    answer = cast(Json, context.client.get("/api/v1/waits", at=instant_of(raw_at)))
    if as_json:
        emit(answer)
        return
    waits = cast("list[Json]", answer["waits"])
    if not waits:
        say("scrubjay: nobody waits")
        return
    print_table([_HEADINGS, *map(_row, waits)])
    for deadlock in cast("list[Json]", answer["deadlocks"]):
        _print_deadlock(deadlock)


def cancel_wait(context: Context, wait: str) -> Json:
    """Have a wait cancelled, and return what became of it."""
    return cast(Json, context.client.delete(f"/api/v1/waits/{quote(wait, safe='')}"))


def _row(wait: Json) -> tuple[str, ...]:
    return (
        str(wait["id"])[:8],
        plain(str(wait["waiter"])),
        short(describe_target(wait), _TARGET_COLS),
        short(str(wait["reason"]), _REASON_COLS) if wait["reason"] is not None else "-",
        str(wait["source"]),
        human_span(cast(float, wait["age_s"])),
        _deadline(wait),
    )


def _deadline(wait: Json) -> str:
    deadline_us = wait["deadline_us"]
    if not isinstance(deadline_us, int):
        return "starving" if wait["starving"] else "-"
    left_s = (deadline_us - cast(int, wait["since_us"])) / 1e6 - cast(float, wait["age_s"])
    return f"{human_span(-left_s)} ago, starving" if wait["starving"] else f"in {human_span(left_s)}"


def _print_deadlock(deadlock: Json) -> None:
    click.echo(f"\ndeadlock: {describe_circle(cast('list[str]', deadlock['pods']))}")
    edges = cast("list[Json]", deadlock["edges"])
    cut = next((edge for edge in edges if edge["id"] == deadlock["cut"]), None)
    if cut is not None:
        command = f"scrubjay waits --cancel {str(cut['id'])[:8]}"
        click.echo(f"  it costs least to cut {describe_wait(cut)}: {command}")
