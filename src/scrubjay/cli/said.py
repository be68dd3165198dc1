"""What people and agents say to each other: taken from a command line, and shown without anything that acts on it."""

from __future__ import annotations

import sys
from typing import cast

import click

from scrubjay.cli.context import human_span
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain
from scrubjay.fleet.messages import TEXT_MAX, check_text
from scrubjay.tape.record import Json

_INDENT = "    "


def text_of(raw: str, *, most: int = TEXT_MAX, what: str = "message") -> str:
    """The text that was given, or, for ``-``, what comes on standard input; BadInput if it says nothing or too much."""
    if raw == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")
    else:
        text = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return check_text(text, most, what)


def print_message(message: Json) -> None:
    """A message: who said it when and to whom, then what, a line for each of its lines."""
    notes = [f"answers {message['reply_to']}"] if message["reply_to"] is not None else []
    notes += ["asks"] if message["asks"] else []
    notes += [_progress(message)] if "state" in message else []
    whom = ", ".join(cast("list[str]", message["mentions"]))
    click.echo(
        f"{message['id'] if 'state' in message else message['seq']}  {clock_of(cast(int, message['wall_us']))}  "
        + plain(str(message["author"]))
        + (f" to {plain(whom)}" if whom else "")
        + (f" ({', '.join(notes)})" if notes else "")
    )
    for line in inert_lines(str(message["text"])):
        click.echo(_INDENT + line if line else "")


def inert_lines(text: str) -> list[str]:
    """The lines of a text, as far as they can be shown without acting on a terminal."""
    return [
        "".join(letter if letter.isprintable() else "?" for letter in line.expandtabs(4)) for line in text.splitlines()
    ]


def _progress(message: Json) -> str:
    if message["state"] != "delivered":
        return str(message["state"])
    return "typed into its terminal" if message["how"] == "typed" else "read"


def short(text: str, most: int) -> str:
    """A text in one line of a table."""
    line = plain(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def age(wall_us: object, now_us: int) -> str:
    """How long ago something was, for a table."""
    return human_span((now_us - wall_us) / 1e6) if isinstance(wall_us, int) else "-"
