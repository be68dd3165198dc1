"""``scrubjay token``: who may come to the server."""

from __future__ import annotations

import time
from typing import cast, get_args

import click

from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, say
from scrubjay.cli.ps_command import print_table
from scrubjay.errors import BadInput
from scrubjay.fleet.access import Role
from scrubjay.tape.record import Json

_ROLES: tuple[str, ...] = get_args(Role)


@click.group("token")
def command() -> None:
    """Make, list and revoke the tokens that programs and machines log in with."""


@command.command("create")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What it may do.")
@click.option("--pod", metavar="POD", help="The pod it is for, with the role pod.")
@click.option("--name", metavar="N", help="What to call it; by default after its role.")
@click.option("--days", type=click.IntRange(1, 3660), metavar="D", help="Let it expire after so many days.")
@json_option
@pass_context
def create(context: Context, role: str, pod: str | None, name: str | None, days: int | None, *, as_json: bool) -> None:
    """Make a token and print it, alone on the last line. It is never shown again."""
    if (role == "pod") != (pod is not None):
        raise BadInput(
            "the role pod needs a pod" if pod is None else f"the role {role} is not for one pod",
            hint="give --role pod together with --pod POD",
        )
    client = context.client
    body: Json = {"role": role, "name": name or "", "pod": pod}
    if days is not None:
        body["expires_in_s"] = days * 86_400
    made = cast(Json, client.post("/api/v1/tokens", body))
    if as_json:
        emit(made)
        return
    say(f"scrubjay: token {made['id']} for {made['name']} ({made['role']}); it is shown only now:")
    click.echo(made["token"])


@command.command("list")
@json_option
@pass_context
def list_(context: Context, *, as_json: bool) -> None:
    """List the tokens that are good, never their secrets."""
    tokens = cast(list[Json], context.client.get("/api/v1/tokens"))
    if as_json:
        emit(tokens)
        return
    if not tokens:
        say("scrubjay: there are no tokens")
        return
    rows = [("ID", "ROLE", "NAME", "POD", "AGE", "USED", "EXPIRES")]
    for token in tokens:
        rows.append(
            (
                str(token["id"]),
                str(token["role"]),
                str(token["name"]),
                str(token["pod"] or "-")[:8],
                _ago(token["created_us"]),
                _ago(token["used_us"]) + " ago" if token["used_us"] else "never",
                _until(token["expires_us"]),
            )
        )
    print_table(rows)


@command.command("revoke")
@click.argument("token", metavar="ID")
@json_option
@pass_context
def revoke(context: Context, token: str, *, as_json: bool) -> None:
    """Revoke a token by its id. What it has open is closed at once."""
    context.client.delete(f"/api/v1/tokens/{_id_of(token)}")
    if as_json:
        emit({"revoked": _id_of(token)})
    else:
        say(f"scrubjay: token {_id_of(token)} is revoked")


def _id_of(raw: str) -> str:
    """The id within a whole token, if that is what was given: it is not sent anywhere."""
    words = raw.split("_")
    text = words[1] if len(words) >= 3 and words[0] == "sjt" else raw
    if not text.isalnum():
        raise BadInput(f"{text[:20]!r} is not a token's id", hint="'scrubjay token list' shows them")
    return text


def _ago(wall_us: object) -> str:
    return human_span(time.time() - wall_us / 1e6) if isinstance(wall_us, int) else "-"


def _until(wall_us: object) -> str:
    if not isinstance(wall_us, int):
        return "never"
    left = wall_us / 1e6 - time.time()
    return f"in {human_span(left)}" if left > 0 else "expired"
