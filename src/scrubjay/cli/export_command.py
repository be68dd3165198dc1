"""``scrubjay export``: a tape in another tool's format."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import click

from scrubjay.cli.context import Context, human_bytes, pass_context, pod_argument, progress, say
from scrubjay.errors import BadInput
from scrubjay.tape.asciicast import CastLines, encode_cast_v2, encode_cast_v3, encode_jsonl
from scrubjay.tape.format import Kind
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.record import Record

Format = Literal["asciicast-v2", "asciicast-v3", "raw", "jsonl"]
_FORMATS: tuple[str, ...] = get_args(Format)
_BY_ENDING: dict[str, Format] = {".jsonl": "jsonl", ".raw": "raw"}


@click.command("export")
@pod_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write here instead of to stdout."
)
@click.option(
    "--format", "format_", type=click.Choice(_FORMATS), help="By default by FILE's ending, else asciicast-v2."
)
@pass_context
def command(context: Context, pod: str, output: Path | None, format_: Format | None) -> None:
    """Write a pod's tape as asciicast, as the exact bytes it showed (raw), or as one JSON object per record."""
    found = context.home.find(pod)
    chosen = format_ or _BY_ENDING.get(output.suffix if output is not None else "", "asciicast-v2")
    if output is None and chosen == "raw" and sys.stdout.isatty():
        raise BadInput("raw bytes could act on your terminal", hint="give -o FILE, or pipe them to a program")
    tape = found.tape()
    damage: list[Damage] = []
    with progress(f"exporting {found.name}", tape.end) as step, _destination(output) as file:
        lines = _encode(_readable(tape, step, damage.append), chosen)
        file.writelines(lines)
    if isinstance(lines, CastLines) and lines.replaced:
        say(f"scrubjay: {lines.replaced} places were not UTF-8 and became U+FFFD; --format raw keeps the bytes")
    # What ends an unfinished tape is not damage to what was exported.
    for hurt in damage:
        if hurt.end < tape.end:
            say(
                f"scrubjay: {hurt.end - hurt.offset} bytes at offset {hurt.offset} are unreadable; see: scrubjay verify"
            )
    if output is not None:
        say(f"scrubjay: wrote {human_bytes(output.stat().st_size)} to {output}")


def _encode(records: Iterator[Record], format_: Format) -> Iterable[bytes]:
    match format_:
        case "asciicast-v2":
            return encode_cast_v2(records)
        case "asciicast-v3":
            return encode_cast_v3(records)
        case "jsonl":
            return encode_jsonl(records)
        case "raw":
            return (record.payload for record in records if record.kind == Kind.OUTPUT)


def _readable(tape: Tape, step: Callable[[int], None], on_damage: Callable[[Damage], None]) -> Iterator[Record]:
    told = 0
    for item in tape.scan():
        if isinstance(item, Damage):
            on_damage(item)
            continue
        yield item
        if item.end - told >= 1 << 20:
            step(item.end - told)
            told = item.end


@contextmanager
def _destination(path: Path | None) -> Generator[BinaryIO]:
    """Stdout, or a file that appears only when it is complete."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.is_dir():
        raise BadInput(f"{path} is a directory", hint="give a file name with -o")
    if path.exists() and not path.is_file():  # a device or pipe is written to, not replaced
        with path.open("wb") as file:
            yield file
        return
    if not path.parent.is_dir():
        raise BadInput(f"cannot write {path}: there is no directory {path.parent}", hint="make it first")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
