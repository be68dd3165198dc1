"""``scrubjay search``: find what was ever shown or typed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, say
from scrubjay.cli.indexing import bring_up_to_date
from scrubjay.cli.reels import pods_of
from scrubjay.errors import IndexDiscarded, NotATape
from scrubjay.ids import PodId
from scrubjay.pods.pod import Pod
from scrubjay.query import Kind, Query, mark, parse_query
from scrubjay.replay.instants import wall_of
from scrubjay.replay.search import Hit, SearchIndex
from scrubjay.screen.pieces import clean
from scrubjay.tape.record import Json

_TIMES = "2h or 3d ago, 02:14, 2026-11-15T02:14"
_STAMP = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a person wants to know."""

    query: Query
    since_us: int | None
    until_us: int | None
    limit: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A hit as it is told."""

    hit: Hit
    pod: Pod
    text: str  #: without anything that could act on a terminal
    marks: list[tuple[int, int]]
    open: str  #: the command that shows it


# Without -h: what follows the minus of a word to be left out may be any letter.
@click.command("search", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("--pod", "raw_pods", metavar="POD", multiple=True, help="Only in this pod; can be given again.")
@click.option("--since", "raw_since", metavar="TIME", help=f"Not before: {_TIMES}.")
@click.option("--until", "raw_until", metavar="TIME", help=f"Not after: {_TIMES}.")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="At most so many (20).")
@click.option("--kind", type=click.Choice(["shown", "typed"]), help="Only what was shown, or typed.")
@json_option
@pass_context
def command(
    context: Context,
    words: tuple[str, ...],
    raw_pods: tuple[str, ...],
    raw_since: str | None,
    raw_until: str | None,
    limit: int,
    kind: Kind | None,
    *,
    as_json: bool,
) -> int:
    """Find rows that were ever shown or typed, the newest first, each with the command that opens its screen.

    All words must be in the row. Quotes make a phrase ('"not found"'), a star the beginning of a word (conn*), a minus
    leaves out rows with a word (-debug). The exit code is 1 if nothing was found.
    """
    query = _parse(words, kind)
    if context.server is not None:
        from scrubjay.cli.remote import search_elsewhere

        asked_there: Json = {"q": " ".join(words), "pod": raw_pods, "since": raw_since, "until": raw_until}
        return search_elsewhere(context, asked_there | {"limit": limit, "kind": kind}, as_json=as_json)
    now_us = time.time_ns() // 1000
    since_us, until_us = (None if raw is None else wall_of(raw, now_us) for raw in (raw_since, raw_until))
    pods = _choose_pods(context, (*raw_pods, *query.pods))
    asked = _Asked(query, since_us, until_us, limit + 1)  # one more tells whether there are more
    hits = _search(context, pods, asked) if pods else []
    found = _tell(context, pods, query, hits[:limit])
    if as_json:
        emit([_describe(one) for one in found])
        return 0 if found else 1
    for one in found:
        _print(one)
    if not found:
        say("scrubjay: nothing was found" if pods else "scrubjay: nothing was found: there are no pods yet")
    elif len(hits) > limit:
        say(f"scrubjay: these are the newest {limit}; --limit N shows more")
    return 0 if found else 1


def _parse(words: Sequence[str], kind: Kind | None) -> Query:
    for word in words:
        if word.startswith("--"):
            raise click.NoSuchOption(word, ctx=click.get_current_context())
    query = parse_query(" ".join(words))
    return query if kind is None else query._replace(kind=kind)


def _choose_pods(context: Context, raw_pods: Sequence[str]) -> list[Pod]:
    if not raw_pods:
        return context.home.pods()
    return list({pod.id: pod for raw in raw_pods for pod in pods_of(context.home, raw)}.values())


def _search(context: Context, pods: list[Pod], asked: _Asked) -> list[Hit]:
    """Search in what has been recorded up to now."""
    with SearchIndex(context.home.search_path) as index:
        try:
            return _refresh_and_search(context, index, pods, asked)
        except IndexDiscarded:  # it was damaged; it can be made again on the spot
            return _refresh_and_search(context, index, pods, asked)


def _refresh_and_search(context: Context, index: SearchIndex, pods: list[Pod], asked: _Asked) -> list[Hit]:
    kept = {pod.id for pod in context.home.pods()}
    for tape in index.tapes():
        if tape not in kept:
            index.forget(tape)
    behind = [pod for pod in pods if _is_behind(index, pod)]
    for indexed in bring_up_to_date(index, behind) if behind else []:
        if indexed.busy:
            say(f"scrubjay: another process is indexing {indexed.pod.name}; what is newest in it may be missing")
        elif indexed.fault is not None:
            say(f"scrubjay: cannot search {indexed.pod.name}: {indexed.fault}")
    tapes = [pod.id for pod in pods]
    return index.search(asked.query, tapes=tapes, since_us=asked.since_us, until_us=asked.until_us, limit=asked.limit)


def _is_behind(index: SearchIndex, pod: Pod) -> bool:
    try:
        return pod.alive or index.progress(pod.id).offset < pod.tape().end
    except NotATape:
        return True  # what is wrong with it will be said


def _tell(context: Context, pods: list[Pod], query: Query, hits: list[Hit]) -> list[_Found]:
    by_id = {pod.id: pod for pod in pods}
    newest = {pod.name: pod.id for pod in context.home.pods()}
    found: list[_Found] = []
    for hit in hits:
        pod = by_id[PodId(hit.tape)]
        text = clean(hit.text).strip()
        name = pod.name if newest.get(pod.name) == pod.id else pod.id
        found.append(_Found(hit, pod, text, mark(text, query), f"{_program()} replay {name} --at @{hit.offset}"))
    return found


def _program() -> str:
    data = click.get_current_context().find_root().params.get("data")
    return "scrubjay" if data is None else f"scrubjay --data {shlex.quote(str(data))}"


def _describe(found: _Found) -> dict[str, object]:
    hit = found.hit
    return {
        "pod": found.pod.name,
        "id": found.pod.id,
        "at": hit.at,
        "wall": hit.wall_us,
        "offset": hit.offset,
        "row": hit.y,
        "kind": hit.kind,
        "text": found.text,
        "marks": found.marks,
        "open": found.open,
    }


def _print(found: _Found) -> None:
    wall = found.hit.wall_us
    stamp = "?".ljust(19) if wall is None else datetime.fromtimestamp(wall // 1_000_000).astimezone().strftime(_STAMP)
    who = found.pod.name + " (typed)" * (found.hit.kind == "typed")
    text, marks = found.text, found.marks
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - len(stamp) - len(who) - 4
        text, marks = _cut(text, marks, max(room, 20))
    click.echo(f"{stamp}  {_style(who, fg='cyan')}  {_highlight(text, marks)}")
    click.echo(f"{' ' * len(stamp)}  {_style(found.open, dim=True)}")


def _cut(text: str, marks: list[tuple[int, int]], room: int) -> tuple[str, list[tuple[int, int]]]:
    """As much of a text as there is room for, around what was found first."""
    if len(text) <= room:
        return text, marks
    first = marks[0][0] if marks else 0
    start = max(0, min(first - room // 3, len(text) - room))
    shown = list(text[start : start + room])
    if start:
        shown[0] = "…"
    if start + room < len(text):
        shown[-1] = "…"
    return "".join(shown), [(max(a - start, 0), min(b - start, room)) for a, b in marks if a - start < room]


def _highlight(text: str, marks: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in marks:
        parts += [text[end:start], _style(text[start:stop], fg="yellow", bold=True)]
        end = stop
    return "".join([*parts, text[end:]])


def _style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Coloured, where that is seen and wanted."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, fg=fg, bold=bold or None, dim=dim or None)
