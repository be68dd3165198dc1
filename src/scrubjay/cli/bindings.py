"""Bindings on the command line: which one is meant, and what is said of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar, cast
from urllib.parse import quote

import click

from scrubjay.cli.client import Client
from scrubjay.cli.context import Context, complete_pods, emit, say
from scrubjay.cli.ps_command import plain
from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.fleet.bindings import SCOPES
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.waits import REASON_MAX
from scrubjay.tape.record import Json

_Function = TypeVar("_Function", bound=Callable[..., object])

PATH = "/api/v1/bindings"


def which_argument(function: _Function) -> _Function:
    """A binding: by its id or a unique beginning, or by its two pods."""
    return click.argument("which", metavar="BINDING|A B", nargs=-1, required=True, shell_complete=complete_pods)(
        function
    )


def scope_option(*, required: bool, help: str) -> Callable[[_Function], _Function]:  # noqa: A002
    """``--scope``, any number of times."""
    return click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=required, help=help)


def reason_option(function: _Function) -> _Function:
    """``--reason``."""
    return click.option("--reason", metavar="R", callback=_check_reason, help="Why; the pods are told.")(function)


def _check_reason(_ctx: click.Context, _param: click.Parameter, reason: str | None) -> str | None:
    return None if reason is None else check_text(reason, REASON_MAX, "reason")


def change_binding(context: Context, which: tuple[str, ...], verb: str, body: Json, *, as_json: bool) -> None:
    """Have something become of a binding, and say what it is now."""
    client = context.client
    path = f"{PATH}/{quote(_find(client, which), safe='')}/{verb}"
    kept = cast(Json, client.post(path, body, key=uuid.uuid4().hex))
    if as_json:
        emit(kept)
    else:
        say(f"scrubjay: {describe(kept)}")


def describe(binding: Json) -> str:
    """A binding in a few words."""
    granted, pending = (", ".join(cast("list[str]", binding[name])) for name in ("granted", "pending"))
    parts = [f"has {granted}" if granted else "", f"{pending} pending" if pending else ""]
    what = " and ".join(part for part in parts if part) or str(binding["state"])
    return plain(f"{binding['initiator']} on {binding['target']}: {what}")


def _find(client: Client, which: tuple[str, ...]) -> str:
    if len(which) == 1:
        return which[0]
    if len(which) != 2:
        raise BadInput("a binding is between two pods", hint="give its id, or the two pods")
    initiator, target = which
    found = cast("list[Json]", client.get(PATH, initiator=initiator, target=target))
    if not found:
        raise ScrubjayError(
            f"{initiator} has no binding on {target}",
            hint="'scrubjay bindings' lists them; the first is who has it",
        )
    return str(found[0]["id"])
