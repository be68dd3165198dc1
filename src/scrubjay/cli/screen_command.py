"""``scrubjay screen``: what a pod shows, now or at any instant."""

from __future__ import annotations

import sys
from typing import Literal, get_args

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pod_argument, say
from scrubjay.cli.reels import open_reel
from scrubjay.errors import BadInput
from scrubjay.replay.frame import Frame
from scrubjay.replay.reel import Reel
from scrubjay.screen.ansi import encode_ansi
from scrubjay.screen.html import encode_html
from scrubjay.screen.palette import css_colour
from scrubjay.screen.picture import DEFAULT, Attribute, Line, Picture, Span, is_rgb
from scrubjay.screen.pieces import clean

Format = Literal["text", "ansi", "html", "json"]
_FORMATS: tuple[str, ...] = get_args(Format)
_UNDERLINES = ("none", "single", "double", "curly", "dotted", "dashed")
_TITLE_MAX = 256  # characters of a title that anybody is shown


@click.command("screen")
@pod_argument
@click.option("--at", "raw_at", metavar="TIME", help="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="By default ansi on a terminal, else text.")
@click.option(
    "--scrollback", type=click.IntRange(min=0), default=0, metavar="ROWS", help="Of what scrolled off before."
)
@json_option
@pass_context
def command(
    context: Context, pod: str, raw_at: str | None, format_: Format | None, scrollback: int, *, as_json: bool
) -> int:
    """Print the screen of a pod as it is, was at the end, or was at an instant."""
    if as_json and format_ not in (None, "json"):
        raise BadInput(f"--json and --format {format_}", hint="choose one of them")
    chosen = "json" if as_json else format_ or ("ansi" if sys.stdout.isatty() else "text")
    with open_reel(context.home, pod) as reel:
        frame = _find(reel, raw_at, scrollback)
    if chosen == "json":
        emit(_describe(frame))
    elif frame.unavailable is None:
        click.echo(_encode(frame.picture, chosen), nl=False, color=True)
    if frame.unavailable is not None:
        say(f"scrubjay: screen unavailable: {frame.unavailable}")
        return 1
    if frame.doubtful is not None:
        say(f"scrubjay: this may differ from what was shown: {frame.doubtful}")
    return 0


def _find(reel: Reel, raw_at: str | None, history: int) -> Frame:
    if raw_at is None:
        return reel.seek(reel.duration, history=history)
    frame, clamped = reel.show(raw_at, history=history)
    if clamped is not None:
        say(f"scrubjay: {clamped}")
    return frame


def _encode(picture: Picture, format_: Format) -> str:
    match format_:
        case "ansi":
            return encode_ansi(picture)
        case "html":
            return encode_html(picture, title=picture.title[:_TITLE_MAX])
        case _:
            text = encode_ansi(picture, colours=False).rstrip("\n")
            return text + "\n" if text else ""


def _describe(frame: Frame) -> dict[str, object]:
    picture = frame.picture
    return {
        "tape": frame.tape,
        "at": frame.at,
        "offset": frame.offset,
        "time": frame.time,
        "wall": frame.wall_us,
        "unavailable": frame.unavailable,
        "doubtful": frame.doubtful,
        "cols": picture.cols,
        "rows": picture.rows,
        "cursor": picture.cursor._asdict(),
        "title": clean(picture.title)[:_TITLE_MAX],
        "cwd": clean(picture.cwd),
        "alternate": picture.alternate,
        "modes": sorted(picture.modes),
        "history": [_describe_line(line) for line in picture.history],
        "lines": [_describe_line(line) for line in picture.lines],
    }


def _describe_line(line: Line) -> dict[str, object]:
    said: dict[str, object] = {"text": clean(line.text), "spans": [_describe_span(span) for span in line.spans]}
    return said | {"wrapped": True} if line.wrapped else said


def _describe_span(span: Span) -> dict[str, object]:
    """What a span says; of its style only what is not as usual."""
    style = span.style
    said: dict[str, object] = {"text": clean(span.text), "cells": span.cells}
    for name, colour in (("fg", style.fg), ("bg", style.bg), ("underline_colour", style.underline_colour)):
        if colour != DEFAULT:
            said[name] = css_colour(colour) if is_rgb(colour) else colour
    if attributes := Attribute(style.attributes):
        said["attributes"] = [str(attribute.name).lower() for attribute in attributes]
    if style.underline:
        said["underline"] = _UNDERLINES[style.underline]
    if span.link is not None:
        said["link"] = clean(span.link)
    return said
