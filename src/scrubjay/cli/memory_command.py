"""``scrubjay memory``: what is remembered of sessions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import cast

import click

from scrubjay.cli.client import Client
from scrubjay.cli.context import Context, complete_pods, complete_sessions, emit, json_option, pass_context, say
from scrubjay.cli.past import instant_of
from scrubjay.cli.remembered import Replays, print_memory
from scrubjay.cli.said import text_of
from scrubjay.cli.sessions import session_argument, session_path, short_id, speaking_to_people
from scrubjay.errors import BadInput
from scrubjay.fleet.memories import TEXT_MAX
from scrubjay.query import parse_query
from scrubjay.tape.record import Json

_SEARCH = "/api/v1/memories"
_PAGE_MAX = 1000  # what a server gives in one answer
_SEQ_MAX = (1 << 53) - 1
_KEY_MAX = 200
_TIMES = "2h or 3d ago, 02:14, 2026-11-15T02:14"


@click.group("memory")
def command() -> None:
    """Memories: the numbered turns of sessions. Read them, find some, add one."""


@command.command("list")
@session_argument
@click.option("--after", type=click.IntRange(0, _SEQ_MAX), default=0, metavar="SEQ", help="Only those after this one.")
@click.option("--limit", type=click.IntRange(1), default=100, metavar="N", help="At most so many (100).")
@json_option
@pass_context
def list_(context: Context, session: str, after: int, limit: int, *, as_json: bool) -> None:
    """Print the memories of a session in order, each with the command that shows the moment on its recording."""
    client = context.client
    answer = cast(Json, client.get(session_path(session, "memories"), cursor=str(after), limit=1))
    id_, last = str(answer["session_id"]), cast(int, answer["last_seq"])
    memories = list(_pages(client, session_path(id_, "memories"), {"cursor": str(after)}, limit))
    if as_json:
        emit({"session_id": id_, "last_seq": last, "memories": memories})
        return
    replays = Replays(context)
    for memory in memories:
        print_memory(memory, replays)
    if not memories:
        say(f"scrubjay: nothing is remembered of session {id_[:8]}" + (f" after {after}" if last else " yet"))
    elif cast(int, memories[-1]["seq"]) < last:
        say(f"scrubjay: it goes on up to {last}; --after {memories[-1]['seq']} shows what follows")


# Without -h: what follows the minus of a word to be left out may be any letter.
@command.command("search", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("--session", metavar="S", shell_complete=complete_sessions, help="Only in this session.")
@click.option("--agent", metavar="A", help="Only of this agent.")
@click.option("--pod", metavar="POD", shell_complete=complete_pods, help="Only of this pod.")
@click.option("--since", "raw_since", metavar="TIME", help=f"Not before: {_TIMES}.")
@click.option("--until", "raw_until", metavar="TIME", help=f"Not after: {_TIMES}.")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most so many (20).")
@json_option
@pass_context
def search(
    context: Context,
    words: tuple[str, ...],
    session: str | None,
    agent: str | None,
    pod: str | None,
    raw_since: str | None,
    raw_until: str | None,
    limit: int,
    *,
    as_json: bool,
) -> int:
    """Find memories by what they say, the newest first.

    All words must be in the memory. Quotes make a phrase ('"not found"'), a star the beginning of a word (conn*), a
    minus leaves out memories with a word (-debug). The exit code is 1 if nothing was found.
    """
    for word in words:
        if word.startswith("--"):
            raise click.NoSuchOption(word, ctx=click.get_current_context())
    query = " ".join(words)
    if parse_query(query).kind is not None:
        raise BadInput("memories are neither typed nor shown", hint="leave typed: and shown: out")
    asked: Json = {"query": query, "session": session, "agent": agent, "pod": pod}
    asked |= {"since": instant_of(raw_since), "until": instant_of(raw_until)}
    found = list(_pages(context.client, _SEARCH, asked, limit + 1))  # one more tells whether there are more
    if as_json:
        emit(found[:limit])
        return 0 if found else 1
    replays = Replays(context)
    for memory in found[:limit]:
        print_memory(memory, replays, with_session=True)
    if not found:
        say("scrubjay: nothing was found")
    elif len(found) > limit:
        say(f"scrubjay: these are the newest {limit}; --limit N shows more")
    return 0 if found else 1


def _pages(client: Client, path: str, query: Json, limit: int) -> Iterator[Json]:
    """Memories from as many answers as it takes, at most so many."""
    left, query = limit, dict(query)
    while left > 0:
        answer = cast(Json, client.get(path, **query, limit=min(left, _PAGE_MAX)))
        memories = cast("list[Json]", answer["memories"])
        yield from memories
        left -= len(memories)
        query["cursor"] = answer["cursor"]
        if query["cursor"] is None:
            return


@command.command("add")
@session_argument
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--prompt", metavar="T", help="What was asked; the same as TEXT.")
@click.option("--thought", metavar="T", help="What was considered and decided.")
@click.option("--response", metavar="T", help="What was done and answered.")
@click.option("--key", metavar="K", help="With the same key it is remembered once, however often it is added.")
@json_option
@pass_context
def add(
    context: Context,
    session: str,
    text: str | None,
    prompt: str | None,
    thought: str | None,
    response: str | None,
    key: str | None,
    *,
    as_json: bool,
) -> None:
    """Add a memory to a session that nobody holds, and print its number. TEXT is - for standard input.

    Whoever goes on with the session gets to read it.
    """
    if text is not None and prompt is not None:
        raise BadInput("the prompt was given twice", hint="give it as TEXT, or with --prompt")
    given = {"prompt": text if text is not None else prompt, "thought": thought, "response": response}
    if all(value is None for value in given.values()):
        raise BadInput("the memory says nothing", hint="give TEXT, --prompt, --thought or --response")
    if list(given.values()).count("-") > 1:
        raise BadInput("standard input is read once", hint="give - for one of them")
    if key is not None and not 0 < len(key) <= _KEY_MAX:
        raise BadInput(f"a key has 1 to {_KEY_MAX} characters", hint="give another, or none")
    body: Json = {what: text_of(value, most=TEXT_MAX, what=what) for what, value in given.items() if value is not None}
    client = context.client
    with speaking_to_people(client, session):
        # By its id, for a key goes with the name that the session is called by.
        id_ = session if key is None else str(cast(Json, client.get(session_path(session)))["session_id"])
        added = cast(Json, client.post(session_path(id_, "memories"), body, key=key or uuid.uuid4().hex))
    if as_json:
        emit(added)
        return
    if added["repeated"]:
        say(f"scrubjay: it was there already, in session {short_id(added)}")
    click.echo(added["seq"])
