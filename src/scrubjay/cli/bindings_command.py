"""``scrubjay bindings``: who may do what to whose terminal."""

from __future__ import annotations

import time
from typing import cast

import click

from scrubjay.cli.bindings import PATH
from scrubjay.cli.context import Context, complete_pods, emit, json_option, pass_context, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.ps_command import plain, print_table
from scrubjay.cli.said import age, short
from scrubjay.tape.record import Json

_HEADINGS = ("ID", "POD", "ON", "STATE", "GRANTED", "PENDING", "SINCE", "REASON")
_REASON_COLS = 48


@click.command("bindings")
@click.argument("pod", metavar="[POD]", required=False, shell_complete=complete_pods)
@at_option
@click.option("--all", "show_all", is_flag=True, help="Show those that were refused, expired or ended too.")
@json_option
@pass_context
def command(context: Context, pod: str | None, raw_at: str | None, *, show_all: bool, as_json: bool) -> None:
    """List the bindings there are, or those of a pod, on either side."""
    at = instant_of(raw_at)
    found = cast("list[Json]", context.client.get(PATH, pod=pod, at=at, all=str(show_all).lower()))
    if as_json:
        emit(found)
        return
    if not found:
        say("scrubjay: there are no bindings" + ("" if show_all else "; 'scrubjay bindings --all' shows ended ones"))
        return
    now_us = int(at) if at is not None else time.time_ns() // 1000
    print_table([_HEADINGS, *(_row(binding, now_us) for binding in found)])


def _row(binding: Json, now_us: int) -> tuple[str, ...]:
    granted, pending = (", ".join(cast("list[str]", binding[name])) for name in ("granted", "pending"))
    why = binding["answer"] or binding["reason"]
    return (
        str(binding["id"])[:8],
        plain(str(binding["initiator"])),
        plain(str(binding["target"])),
        str(binding["state"]),
        granted or "-",
        pending or "-",
        age(binding["since_us"], now_us),
        short(str(why), _REASON_COLS) if why is not None else "-",
    )
