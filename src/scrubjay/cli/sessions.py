"""Sessions on the command line: which one is meant, what is said of it, and what a person can do when it is held."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar, cast
from urllib.parse import quote

import click

from scrubjay.cli.client import Client, ServerRefused
from scrubjay.cli.context import Context, complete_sessions
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain
from scrubjay.errors import NoSuchSession, ScrubjayError
from scrubjay.fleet.process import OVER
from scrubjay.tape.record import Json

_Function = TypeVar("_Function", bound=Callable[..., object])

PATH = "/api/v1/sessions"


def session_argument(function: _Function) -> _Function:
    """A session, by its id or a unique beginning of it, or by one of its pods."""
    return click.argument("session", metavar="SESSION|POD", shell_complete=complete_sessions)(function)


def session_path(session: str, *more: str) -> str:
    """The path of a session, whatever it is called by; NoSuchSession if it is by nothing."""
    if not session:
        raise NoSuchSession(session)
    return "/".join([PATH, quote(session, safe=""), *more])


def short_id(session: Json) -> str:
    """What a person types to name a session."""
    return str(session["session_id"])[:8]


def program_of(context: Context) -> str:
    """How this command line is called so that it works on the same things."""
    import shlex

    if context.server is not None:
        return f"scrubjay --server {context.server}"
    data = click.get_current_context().find_root().params.get("data")
    return "scrubjay" if data is None else f"scrubjay --data {shlex.quote(str(data))}"


def describe_state(session: Json) -> str:
    """The state of a session in a few words, with who holds it."""
    state = str(session["state"])
    if state == "open":
        return f"open: {plain(str(session['held_by']))}" if session["held_by"] is not None else "open"
    return f"{state}, expired" if session["why_not"] == "expired" else state


def next_step(session: Json, program: str) -> str:
    """How a session is gone on with."""
    name, id_ = short_id(session), session["session_id"]
    state, expired = session["state"], session["why_not"] == "expired"
    if session["pod"] is None:
        how = {"open": ", takeover=true", "finished": ", reopen=true"}.get(str(state), ", reopen=true" * expired)
        return f"it had no pod of its own: an agent goes on with it by resume_session(session_id={id_!r}{how})"
    resume, runs = f"{program} resume {name}", session["process"] not in OVER
    if runs or state == "open":
        pod = plain(str(session["pod"]))
        joins = f"'{program} attach {pod}' joins it; " if runs else ""
        holder = plain(str(session["held_by"])) if state == "open" else pod
        return f"{joins}'{resume} --takeover' takes it from {holder} and goes on in a new pod"
    reopen = " --reopen" if state == "finished" or expired else ""
    return f"'{resume}{reopen}' goes on with it in a new pod; with --check it only says what is in the way"


@contextmanager
def speaking_to_people(client: Client, session: str) -> Generator[None]:
    """Let what a server refuses come with what a person can do about it: its own hints are for agents."""
    try:
        yield
    except ServerRefused as error:
        hint = _hint(client, session, error.code)
        if hint is None:
            raise
        raise ServerRefused(error.status, error.code, str(error), hint) from error


def _hint(client: Client, session: str, code: str) -> str | None:
    match code:
        case "lease_held":
            return _hint_if_held(client, session)
        case "session_finished" | "session_expired":
            return f"'scrubjay resume {session} --reopen' goes on with it"
        case _:
            return None


def _hint_if_held(client: Client, raw: str) -> str | None:
    try:
        session = cast(Json, client.get(session_path(raw)))
    except ScrubjayError:
        return None  # what was refused is said in any case
    if session["state"] != "open":
        return "it is free by now: try again"
    holder, free_in_s = plain(str(session["held_by"])), session["free_in_s"]
    if not isinstance(free_in_s, int):
        return f"it is free when pod {holder} ends; 'scrubjay tell {holder} TEXT' says something to its agent"
    at = clock_of(time.time_ns() // 1000 + free_in_s * 1_000_000)
    release = f"'scrubjay sessions release {short_id(session)}'"
    return f"it is free at {at} unless {holder} is heard of until then; {release} frees it now"
