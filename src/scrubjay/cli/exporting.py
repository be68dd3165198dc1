"""Recordings in other formats, each written so that it is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, assert_never, get_args

from scrubjay.cli.context import human_bytes
from scrubjay.errors import BadInput
from scrubjay.replay.exports.cast import cast_records
from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.exports.html import encode_player
from scrubjay.replay.exports.masking import mask_records
from scrubjay.replay.exports.segmented import encode_segmented
from scrubjay.replay.exports.svg import encode_drawing
from scrubjay.replay.exports.txt import encode_text
from scrubjay.tape.asciicast import CastLines, encode_cast_v2, encode_cast_v3, encode_jsonl
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record

RecordFormat = Literal["asciicast-v2", "asciicast-v3", "raw", "jsonl"]  #: made of records alone, without a screen
Format = Literal[RecordFormat, "txt", "html", "svg", "segmented"]
RECORD_FORMATS: tuple[RecordFormat, ...] = get_args(RecordFormat)
FORMATS: tuple[str, ...] = get_args(Format)
_BY_ENDING: dict[str, Format] = {".html": "html", ".jsonl": "jsonl", ".raw": "raw", ".svg": "svg", ".txt": "txt"}


def format_of(path: Path | None) -> Format:
    """The format that a file's name asks for."""
    return _BY_ENDING.get(path.suffix if path is not None else "", "asciicast-v2")


def write_clip(clip: Clip, format_: Format, output: Path | None) -> list[str]:
    """Write a clip to a file, a directory or stdout; what to tell whoever asked for it."""
    notes = _write_folder(clip, output) if format_ == "segmented" else _write(_encode_clip(clip, format_), output)
    return notes + [f"this may differ from what was shown: {why}" for why in sorted(clip.doubts)]


def write_records(records: Iterable[Record], format_: RecordFormat, output: Path | None) -> list[str]:
    """The same with the records of a whole tape."""
    return _write(_encode_records(records, format_), output)


def _write(parts: Iterable[bytes], output: Path | None) -> list[str]:
    with _destination(output) as file:
        file.writelines(parts)
    notes = [_wrote(output)] if output is not None else []
    if isinstance(parts, CastLines) and parts.replaced:
        notes.insert(0, f"{parts.replaced} places were not UTF-8 and became U+FFFD; --format raw keeps the bytes")
    return notes


def _write_folder(clip: Clip, output: Path | None) -> list[str]:
    if output is None:
        raise BadInput("segmented is a directory of files", hint="name it with -o DIR")
    with _new_folder(output) as folder:
        for name, data in encode_segmented(clip):
            (folder / name).write_bytes(data)
    return [_wrote(output)]


def _wrote(output: Path) -> str:
    files = output.iterdir() if output.is_dir() else [output]
    return f"wrote {human_bytes(sum(file.stat().st_size for file in files))} to {output}"


def _encode_clip(clip: Clip, format_: Format) -> Iterable[bytes]:
    match format_:
        case "asciicast-v2" | "asciicast-v3":
            return _encode_records(cast_records(clip), format_)
        case "raw" | "jsonl":
            return _encode_records(clip.records(), format_)
        case "txt":
            return encode_text(clip)
        case "html":
            return encode_player(clip)
        case "svg":
            return encode_drawing(clip)
        case "segmented":
            raise AssertionError("a directory is not one stream of bytes")
        case _:
            assert_never(format_)


def _encode_records(records: Iterable[Record], format_: RecordFormat) -> Iterable[bytes]:
    match format_:
        case "asciicast-v2":
            return encode_cast_v2(mask_records(records))
        case "asciicast-v3":
            return encode_cast_v3(mask_records(records))
        case "jsonl":
            return encode_jsonl(mask_records(records))
        case "raw":
            return (record.payload for record in records if record.kind == Kind.OUTPUT)
        case _:
            assert_never(format_)


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
    temporary = _beside(path)
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _new_folder(path: Path) -> Generator[Path]:
    """A directory that appears only when it is complete."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise BadInput(f"{path} is there already", hint="give the name of a new directory with -o")
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(path: Path) -> Path:
    if not path.parent.is_dir():
        raise BadInput(f"cannot write {path}: there is no directory {path.parent}", hint="make it first")
    return path.with_name(f".{path.name}.{os.getpid()}.part")
