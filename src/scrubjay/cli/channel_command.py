"""``scrubjay channel``: what agents and people say to each other."""

from __future__ import annotations

import json
import time
import uuid
from typing import cast
from urllib.parse import quote

import click

from scrubjay.cli.client import Client
from scrubjay.cli.context import Context, complete_pods, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.past import at_option, instant_of
from scrubjay.cli.ps_command import plain, print_table
from scrubjay.cli.said import age, print_message, short, text_of
from scrubjay.errors import BadInput
from scrubjay.fleet.messages import PURPOSE_MAX, check_text, parse_channel_name
from scrubjay.tape.record import Json

_PATH = "/api/v1/channels"
_HEADINGS = ("NAME", "KIND", "MEMBERS", "MESSAGES", "LAST", "PURPOSE")
_MEMBERS_COLS, _PURPOSE_COLS = 40, 60
_LIMIT_MAX = 200  # what a server gives in one answer


@click.group("channel")
def command() -> None:
    """Channels: make and list them, read them and say something there."""


@command.command("create")
@click.argument("name", metavar="NAME")
@click.option("--purpose", metavar="P", help="What it is for.")
@click.option("--private", is_flag=True, help="Only for those who are asked in.")
@click.option("--member", "members", multiple=True, metavar="POD", shell_complete=complete_pods, help="Ask a pod in.")
@json_option
@pass_context
def create(
    context: Context, name: str, purpose: str | None, members: tuple[str, ...], *, private: bool, as_json: bool
) -> None:
    """Make a channel. Pods that are in it know one another."""
    if purpose is not None:
        check_text(purpose, PURPOSE_MAX, "purpose")
    body: Json = {
        "name": parse_channel_name(name),
        "purpose": purpose,
        "private": private,
        "members": list(members),
    }
    made = cast(Json, context.client.post(_PATH, body, key=uuid.uuid4().hex))
    if as_json:
        emit(made)
    else:
        say(f"scrubjay: channel {made['name']} is there, with {_names(made) or 'nobody in it yet'}")


@command.command("list")
@at_option
@json_option
@pass_context
def list_(context: Context, raw_at: str | None, *, as_json: bool) -> None:
    """List the channels that are not archived."""
    at = instant_of(raw_at)
    found = cast("list[Json]", context.client.get(_PATH, at=at))
    if as_json:
        emit(found)
        return
    if not found:
        say("scrubjay: there are no channels; 'scrubjay channel create NAME' makes one")
        return
    now_us = int(at) if at is not None else time.time_ns() // 1000
    print_table([_HEADINGS, *(_row(channel, now_us) for channel in found)])


def _row(channel: Json, now_us: int) -> tuple[str, ...]:
    last_us, purpose = channel["last_us"], channel["purpose"]
    return (
        str(channel["name"]),
        str(channel["kind"]),
        short(_names(channel), _MEMBERS_COLS) or "-",
        str(channel["messages"]),
        age(last_us, now_us),
        short(str(purpose), _PURPOSE_COLS) if purpose is not None else "-",
    )


def _names(channel: Json) -> str:
    return plain(", ".join(cast("list[str]", channel["members"] or [])))


@command.command("post")
@click.argument("name", metavar="NAME")
@click.argument("text", metavar="TEXT")
@click.option(
    "--mention", "mentions", multiple=True, metavar="POD", shell_complete=complete_pods, help="Put it into its inbox."
)
@click.option("--reply-to", type=click.IntRange(1, (1 << 31) - 1), metavar="N", help="The message it answers.")
@click.option("--ask", is_flag=True, help="Say that an answer is expected.")
@json_option
@pass_context
def post(
    context: Context,
    name: str,
    text: str,
    mentions: tuple[str, ...],
    reply_to: int | None,
    *,
    ask: bool,
    as_json: bool,
) -> None:
    """Say TEXT in a channel (- reads it from standard input), and print what the message is called.

    It comes into the inbox of whom it mentions, here or by @name in the text; @everyone is for all members.
    """
    body: Json = {"text": text_of(text), "mentions": list(mentions), "reply_to": reply_to, "expects_reply": ask}
    said = cast(Json, context.client.post(_path(name, "messages"), body, key=uuid.uuid4().hex))
    if as_json:
        emit(said)
    else:
        click.echo(said["id"])


@command.command("read")
@click.argument("name", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is said, until Ctrl-C.")
@click.option("--after", type=click.IntRange(0, (1 << 31) - 1), metavar="N", help="Only what came after message N.")
@click.option("--limit", type=click.IntRange(1, _LIMIT_MAX), metavar="N", default=50, help="How many; by default 50.")
@at_option
@json_option
@pass_context
def read(
    context: Context, name: str, after: int | None, limit: int, raw_at: str | None, *, follow: bool, as_json: bool
) -> None:
    """Print what was said in a channel, the newest last. @POD is the inbox of a pod.

    With --follow and --json every message is a line of JSON.
    """
    if follow and raw_at is not None:
        raise BadInput("the past is not followed", hint="leave --at or --follow out")
    at, client = instant_of(raw_at), context.client
    if follow:
        _follow(client, name, after, limit, as_json=as_json)
        return
    answer = cast(Json, client.get(_path(name, "messages"), after=after, limit=limit, at=at))
    if as_json:
        emit(answer)
        return
    messages = cast("list[Json]", answer["messages"])
    for message in messages:
        print_message(message)
    if not messages:
        say("scrubjay: nothing was said there" + (f" after message {after}" if after else ""))


def _follow(client: Client, name: str, after: int | None, limit: int, *, as_json: bool) -> None:
    from scrubjay.cli.following import follow_channel

    for message in follow_channel(client, _path(name, "messages"), after=after, limit=limit):
        if as_json:
            click.echo(json.dumps(message, ensure_ascii=False))
        else:
            print_message(message)
    say(f"scrubjay: channel {name} is archived")


@command.command("join")
@click.argument("name", metavar="NAME")
@pod_argument
@json_option
@pass_context
def join(context: Context, name: str, pod: str, *, as_json: bool) -> None:
    """Let a pod be in a channel."""
    kept = cast(Json, context.client.ask("PUT", _path(name, "members", pod)))
    if as_json:
        emit(kept)
    else:
        say(f"scrubjay: in channel {kept['name']} are {_names(kept)}")


@command.command("leave")
@click.argument("name", metavar="NAME")
@pod_argument
@json_option
@pass_context
def leave(context: Context, name: str, pod: str, *, as_json: bool) -> None:
    """Let a pod be in a channel no longer."""
    kept = cast(Json, context.client.delete(_path(name, "members", pod)))
    if as_json:
        emit(kept)
    else:
        say(f"scrubjay: {pod} is not in channel {kept['name']}")


@command.command("archive")
@click.argument("name", metavar="NAME")
@json_option
@pass_context
def archive(context: Context, name: str, *, as_json: bool) -> None:
    """Let nobody say anything in a channel any more; what was said stays, and is read with --at."""
    kept = cast(Json, context.client.delete(_path(name)))
    if as_json:
        emit(kept)
    else:
        say(f"scrubjay: channel {kept['name']} is archived")


def _path(name: str, *more: str) -> str:
    return "/".join([_PATH, *(quote(part, safe="") for part in (name.removeprefix("#"), *more))])
