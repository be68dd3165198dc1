"""Memories for people: what was said, and the command that shows the moment it happened."""

from __future__ import annotations

from typing import cast

import click

from scrubjay.cli.context import Context
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain
from scrubjay.cli.said import inert_lines, short
from scrubjay.cli.sessions import program_of
from scrubjay.tape.record import Json

_INDENT, _LABEL_COLS = "    ", 10
_TEXTS = ("prompt", "thought", "response")


class Replays:
    """The commands that show moments of recordings; of a pod that is deleted there is none."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names: dict[str, str] | None = None

    def command(self, instant: Json) -> str | None:
        """The command that shows an instant of a tape."""
        pod, at, offset = str(instant["pod"]), instant["at"], instant["offset"]
        name = self._pods().get(pod)
        if name is None:
            return None
        if isinstance(offset, int):
            return f"{program_of(self._context)} replay {name} --at @{offset}"
        # By id: a name is all recordings that ever had it, and their time is another.
        when = f" --at {at // 1_000_000}.{at % 1_000_000:06}s" if isinstance(at, int) else ""
        return f"{program_of(self._context)} replay {pod}{when}"

    def _pods(self) -> dict[str, str]:
        """What each pod is called: by its name, where that means the same recording."""
        if self._names is None:
            pods = cast("list[Json]", self._context.client.get("/api/v1/pods"))
            newest = {str(pod["name"]): str(pod["id"]) for pod in pods}  # the oldest come first
            self._names = {str(pod["id"]): _called(pod, newest) for pod in pods}
        return self._names


def _called(pod: Json, newest: dict[str, str]) -> str:
    name, id_ = str(pod["name"]), str(pod["id"])
    return name if newest[name] == id_ else id_


def print_memory(memory: Json, replays: Replays, *, most: int | None = None, with_session: bool = False) -> None:
    """A memory: its number, when and by whom, then what; with ``most`` each text is one line of so many characters."""
    number = f"{str(memory['session_id'])[:8]}#{memory['seq']}" if with_session else str(memory["seq"])
    click.echo(f"{number}  {clock_of(cast(int, memory['wall_us']))}  {_author(memory)}")
    for what in _TEXTS:
        text = memory[what]
        if isinstance(text, str):
            _print_labelled(what, inert_lines(text) if most is None else [short(text, most)])
    tools = cast("list[str] | None", memory["tools"])
    if tools:
        _print_labelled("tools", [plain(", ".join(tools))])
    tape = memory["tape"]
    command = replays.command(cast(Json, tape)) if tape is not None else None
    if command is not None:
        _print_labelled("see it", [command])


def _author(memory: Json) -> str:
    who = plain(str(memory["agent"])) if memory["agent"] is not None else "somebody"
    source = {"hook": "told by its hooks", "person": "a person"}.get(str(memory["source"]))
    notes = [source] if source is not None else []
    notes += [plain(str(memory["model"]))] if memory["model"] is not None else []
    notes += [f"{memory['tokens']} tokens"] if memory["tokens"] is not None else []
    return f"{who} ({', '.join(notes)})" if notes else who


def _print_labelled(label: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        begin = label if number == 0 else ""
        click.echo(f"{_INDENT}{begin:<{_LABEL_COLS}}{line}".rstrip())
