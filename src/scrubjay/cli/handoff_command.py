"""``scrubjay handoff``: outputs that are handed over."""

from __future__ import annotations

import time
import uuid
from typing import cast
from urllib.parse import quote

import click

from scrubjay.cli.context import Context, complete_pods, emit, json_option, pass_context, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.ps_command import plain, print_table
from scrubjay.cli.said import age, short, text_of
from scrubjay.errors import BadInput
from scrubjay.fleet.handoffs import KEY_MAX, NOTE_MAX
from scrubjay.fleet.messages import check_text
from scrubjay.tape.record import Json

_PATH = "/api/v1/handoffs"
_HEADINGS = ("ID", "FROM", "FOR", "STATE", "TAKEN BY", "AGE", "NOTE")
_NOTE_COLS, _TAKERS_COLS = 60, 30


@click.group("handoff")
def command() -> None:
    """Handoffs: offer an output, see what is offered, and take it."""


@command.command("offer")
@click.argument("note", metavar="NOTE")
@click.option("--to", metavar="POD", shell_complete=complete_pods, help="The pod it is for.")
@click.option("--artifact", metavar="KEY", help="What it is waited for by; without --to it is for whoever does.")
@click.option("--file", "files", multiple=True, metavar="P", help="A file that belongs to it.")
@click.option("--commit", metavar="C", help="The commit it is in.")
@json_option
@pass_context
def offer(
    context: Context,
    note: str,
    to: str | None,
    artifact: str | None,
    files: tuple[str, ...],
    commit: str | None,
    *,
    as_json: bool,
) -> None:
    """Offer something, described by NOTE (- reads it from standard input), and print the id of the handoff."""
    if to is None and artifact is None:
        raise BadInput("say whom it is for", hint="give --to POD, or --artifact KEY for whoever waits for that")
    if artifact is not None:
        check_text(artifact, KEY_MAX, "artifact's key")
    body: Json = {
        "note": text_of(note, most=NOTE_MAX, what="note"),
        "to": to,
        "artifact": artifact,
        "files": list(files),
        "commit": commit,
    }
    offered = cast(Json, context.client.post(_PATH, body, key=uuid.uuid4().hex))
    if as_json:
        emit(offered)
        return
    met = cast("list[str]", offered["met"])
    if met:
        say(f"scrubjay: {plain(', '.join(met))} waited for it and can go on")
    click.echo(offered["id"])


@command.command("accept")
@click.argument("handoff", metavar="ID|KEY")
@json_option
@pass_context
def accept(context: Context, handoff: str, *, as_json: bool) -> None:
    """Take what is offered, by its id or the artifact's key; what is for one pod is taken on its behalf."""
    _change(context, handoff, "accept", as_json=as_json)


@command.command("decline")
@click.argument("handoff", metavar="ID")
@json_option
@pass_context
def decline(context: Context, handoff: str, *, as_json: bool) -> None:
    """Do not take what is offered; of your own, offer it no longer."""
    _change(context, handoff, "decline", as_json=as_json)


def _change(context: Context, handoff: str, verb: str, *, as_json: bool) -> None:
    path = f"{_PATH}/{quote(handoff, safe='')}/{verb}"
    kept = cast(Json, context.client.post(path, {}, key=uuid.uuid4().hex))
    if as_json:
        emit(kept)
        return
    takers = cast("list[str]", kept["takers"])
    by = f" by {plain(', '.join(takers))}" if takers else ""
    say(f"scrubjay: handoff {str(kept['id'])[:8]} of {plain(str(kept['offered_by']))} is {kept['state']}{by}")


@command.command("list")
@click.option("--all", "show_all", is_flag=True, help="Show what was taken, declined or withdrawn too.")
@at_option
@json_option
@pass_context
def list_(context: Context, raw_at: str | None, *, show_all: bool, as_json: bool) -> None:
    """List what is offered."""
    at = instant_of(raw_at)
    found = cast("list[Json]", context.client.get(_PATH, at=at, all=str(show_all).lower()))
    if as_json:
        emit(found)
        return
    if not found:
        say("scrubjay: nothing is offered" + ("" if show_all else "; 'scrubjay handoff list --all' shows the rest"))
        return
    now_us = int(at) if at is not None else time.time_ns() // 1000
    print_table([_HEADINGS, *(_row(handoff, now_us) for handoff in found)])


def _row(handoff: Json, now_us: int) -> tuple[str, ...]:
    key = f"artifact {handoff['key']}" if handoff["key"] is not None else None
    whom = [str(part) for part in (handoff["recipient"], key) if part is not None]
    return (
        str(handoff["id"])[:8],
        plain(str(handoff["offered_by"])),
        plain(", ".join(whom)),
        str(handoff["state"]),
        short(", ".join(cast("list[str]", handoff["takers"])), _TAKERS_COLS) or "-",
        age(handoff["offered_us"], now_us),
        short(str(handoff["note"]), _NOTE_COLS),
    )
