"""``scrubjay sessions``: threads of work, who holds each, and how it is gone on with."""

from __future__ import annotations

import time
import uuid
from typing import cast

import click

from scrubjay.cli.context import Context, complete_pods, emit, json_option, pass_context, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.ps_command import plain, print_table
from scrubjay.cli.said import age, short, text_of
from scrubjay.cli.sessions import PATH, describe_state, session_argument, session_path, short_id, speaking_to_people
from scrubjay.errors import BadInput
from scrubjay.fleet.handoffs import NOTE_MAX
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.waits import REASON_MAX
from scrubjay.tape.record import Json

_HEADINGS = ("ID", "NAME", "AGENT", "STATE", "MEMORIES", "USED", "BRANCH", "DOING")
_NAME_COLS, _STATE_COLS, _BRANCH_COLS, _DOING_COLS = 20, 30, 30, 80
_LISTED_MAX = 1000  # what a server gives in one answer


@click.group("sessions", invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
@click.option("--all", "show_all", is_flag=True, help="Show those that are finished, expired or empty too.")
@at_option
@json_option
@click.pass_context
def command(ctx: click.Context, raw_at: str | None, *, show_all: bool, as_json: bool) -> None:
    """List sessions, last used first: who holds each, and what it was doing.

    A session is a thread of work that pods and connections come and go under.
    """
    if ctx.invoked_subcommand is None:
        _list(cast(Context, ctx.obj), raw_at, show_all=show_all, as_json=as_json)
    elif show_all or as_json or raw_at is not None:
        # It would be taken for an option of what follows, and have no effect.
        raise BadInput(
            f"what is before '{ctx.invoked_subcommand}' is for the list of sessions",
            hint=f"put options behind '{ctx.invoked_subcommand}'",
        )


def _list(context: Context, raw_at: str | None, *, show_all: bool, as_json: bool) -> None:
    at = instant_of(raw_at)
    found = cast("list[Json]", context.client.get(PATH, at=at, limit=_LISTED_MAX))
    shown = found if show_all else [session for session in found if _is_of_interest(session)]
    if as_json:
        emit(shown)
    elif shown:
        now_us = int(at) if at is not None else time.time_ns() // 1000
        print_table([_HEADINGS, *(_row(session, now_us) for session in shown)])
    elif found:
        say("scrubjay: no session can be gone on with; 'scrubjay sessions --all' shows the rest")
    else:
        say("scrubjay: there are no sessions yet; every pod has one, and so has every agent that remembers something")
    if len(found) == _LISTED_MAX and not as_json:
        say(f"scrubjay: only the {_LISTED_MAX} that were last used were looked at")


def _is_of_interest(session: Json) -> bool:
    """Whether somebody has it or may want it: not what was begun and left with nothing in it."""
    if session["state"] == "finished" or session["why_not"] == "expired":
        return False
    return session["state"] == "open" or session["last_seq"] != 0 or session["pod"] is not None


def _row(session: Json, now_us: int) -> tuple[str, ...]:
    place = session["branch"] or session["worktree"]
    doing = session["last_prompt"] or session["last_response"]
    return (
        short_id(session),
        _cell(session["name"], _NAME_COLS),
        _cell(session["agent"], _NAME_COLS),
        short(describe_state(session), _STATE_COLS),
        str(session["last_seq"]),
        age(session["used_us"], now_us),
        _cell(place, _BRANCH_COLS),
        _cell(doing, _DOING_COLS),
    )


def _cell(text: object, most: int) -> str:
    return short(str(text), most) if text is not None else "-"


@command.command("show")
@session_argument
@json_option
@pass_context
def show(context: Context, session: str, *, as_json: bool) -> None:
    """Print all about a session: who holds it, its pods, worktree, conversation, summary and last memories."""
    from scrubjay.cli.session_account import SessionAccount

    account = SessionAccount(context, session)
    if as_json:
        emit(account.describe())
    else:
        account.print()


@command.command("finish")
@session_argument
@click.option("--reason", metavar="R", help="Why.")
@json_option
@pass_context
def finish(context: Context, session: str, reason: str | None, *, as_json: bool) -> None:
    """Say that a session has come to its end: it is gone on with after that only by reopening it."""
    if reason is not None:
        check_text(reason, REASON_MAX, "reason")
    client = context.client
    with speaking_to_people(client, session):
        done = cast(Json, client.post(session_path(session, "finish"), {"reason": reason}))
    if as_json:
        emit(done)
    else:
        say(f"scrubjay: session {short_id(done)} is finished; 'scrubjay resume {short_id(done)} --reopen' goes on")


@command.command("release")
@session_argument
@json_option
@pass_context
def release(context: Context, session: str, *, as_json: bool) -> None:
    """Let nobody hold a session. Whoever had it must resume it before they add to it again."""
    client = context.client
    with speaking_to_people(client, session):
        done = cast(Json, client.post(session_path(session, "release")))
    if as_json:
        emit(done)
    else:
        say(f"scrubjay: session {short_id(done)} is {done['state']}")


@command.command("handoff")
@session_argument
@click.option("--to", required=True, metavar="POD|AGENT", shell_complete=complete_pods, help="Who is to go on with it.")
@click.option("--note", required=True, metavar="TEXT", help="What they must know; - reads it from standard input.")
@json_option
@pass_context
def handoff(context: Context, session: str, to: str, note: str, *, as_json: bool) -> None:
    """Offer a session to a pod or an agent, and print the id of the handoff. It is theirs when they accept."""
    body: Json = {"to": to, "note": text_of(note, most=NOTE_MAX, what="note")}
    client = context.client
    with speaking_to_people(client, session):
        offered = cast(Json, client.post(session_path(session, "handoff"), body, key=uuid.uuid4().hex))
    if as_json:
        emit(offered)
        return
    id_, whom = str(offered["id"]), plain(str(offered["recipient"]))
    say(f"scrubjay: {whom} takes it with accept_handoff, or you for it: scrubjay handoff accept {id_[:8]}")
    click.echo(id_)


@command.command("summarise")
@session_argument
@json_option
@pass_context
def summarise(context: Context, session: str, *, as_json: bool) -> None:
    """Have what is new in a session summed up now, even while somebody holds it."""
    asked = cast(Json, context.client.post(session_path(session, "summary")))
    if as_json:
        emit(asked)
    elif asked["asked"]:
        say(f"scrubjay: it is being summed up; 'scrubjay sessions show {short_id(asked)}' has it when it is done")
    else:
        say(f"scrubjay: nothing is new in session {short_id(asked)}")
