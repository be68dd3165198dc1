"""``scrubjay export``: a recording, or a part of it, in another format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from scrubjay.cli.context import Context, pass_context, pod_argument, progress, say
from scrubjay.cli.exporting import FORMATS, RECORD_FORMATS, Format, RecordFormat, format_of, write_clip, write_records
from scrubjay.cli.reels import open_reel, pods_of
from scrubjay.errors import BadInput
from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.reel import Reel
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record


@click.command("export")
@pod_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="PATH", help="Write here instead of to stdout."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="By default by PATH's ending, else asciicast-v2.")
@click.option("--from", "raw_from", metavar="TIME", help="Begin here: 12.5s, 1h2m, 50%, -10m, 02:14:07 or a date.")
@click.option("--to", "raw_to", metavar="TIME", help="End here.")
@pass_context
def command(
    context: Context, pod: str, output: Path | None, format_: Format | None, raw_from: str | None, raw_to: str | None
) -> None:
    """Write a pod's recording, or a part of it, for another tool or another person.

    \b
    asciicast-v2, asciicast-v3   for asciinema
    raw                          the exact bytes it showed, keys included
    jsonl                        a JSON object for every record
    txt                          the text a person saw, without redraws
    html                         one page that plays in any browser
    svg                          a moving drawing; of one instant a still one
    segmented                    a directory for asciinema-player 3.17 and later
    """
    chosen = format_ or format_of(output)
    if output is None and chosen == "raw" and sys.stdout.isatty():
        raise BadInput("raw bytes could act on your terminal", hint="give -o FILE, or pipe them to a program")
    context, (pod,) = context.with_recordings_of(pod)
    damage: list[Damage] = []
    if chosen in RECORD_FORMATS and raw_from is None and raw_to is None:
        notes = _export_tape(context, pod, chosen, output, damage)
    else:
        notes = _export_clip(context, pod, chosen, output, (raw_from, raw_to), damage)
    notes += [
        f"{hurt.end - hurt.offset} bytes at offset {hurt.offset} are unreadable; see: scrubjay verify"
        for hurt in damage
    ]
    for note in notes:
        say(f"scrubjay: {note}")


def _export_tape(
    context: Context, raw: str, format_: RecordFormat, output: Path | None, damage: list[Damage]
) -> list[str]:
    """All of one tape, for which nothing need be shown."""
    pod = context.home.find(raw)
    tape = pod.tape()
    with progress(f"exporting {pod.name}", tape.end) as step:
        return write_records(_readable(tape, step, damage.append), format_, output)


def _readable(tape: Tape, step: Callable[[int], None], on_damage: Callable[[Damage], None]) -> Iterator[Record]:
    told = 0
    for item in tape.scan():
        if isinstance(item, Damage):
            if item.end < tape.end:  # what ends an unfinished tape is not damage to what was exported
                on_damage(item)
            continue
        yield item
        if item.end - told >= 1 << 20:
            step(item.end - told)
            told = item.end


def _export_clip(
    context: Context,
    raw: str,
    format_: Format,
    output: Path | None,
    instants: tuple[str | None, str | None],
    damage: list[Damage],
) -> list[str]:
    pods = pods_of(context.home, raw)
    with open_reel(context.home, raw) as reel:
        start, stop = _find(reel, *instants)
        if start > stop:
            raise BadInput("--from is after --to", hint="exchange them")
        # The bar counts microseconds, of which a recording has about as many as bytes.
        with progress(f"exporting {pods[-1].name}", stop - start) as step:
            tapes = [pod.tape() for pod in pods if pod.id in reel.tapes]
            return write_clip(Clip(reel, tapes, pods[-1].name, start, stop, step, damage.append), format_, output)


def _find(reel: Reel, raw_from: str | None, raw_to: str | None) -> tuple[int, int]:
    """Where a clip begins and ends; by default it is the newest recording."""
    if raw_from is None and raw_to is None:
        return reel.newest, reel.duration
    return (
        _time(reel, raw_from) if raw_from is not None else 0,
        _time(reel, raw_to) if raw_to is not None else reel.duration,
    )


def _time(reel: Reel, raw: str) -> int:
    moment = reel.locate(raw)
    if moment.clamped is not None:
        say(f"scrubjay: {moment.clamped}")
    return moment.time if moment.offset is None else reel.seek_offset(moment.offset).time
