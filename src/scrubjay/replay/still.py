"""One frame of a recording as text, ANSI, HTML or JSON. Pure."""

from __future__ import annotations

from typing import Literal, get_args

from scrubjay.replay.frame import Frame
from scrubjay.screen.ansi import encode_ansi
from scrubjay.screen.html import encode_html
from scrubjay.screen.palette import css_colour
from scrubjay.screen.picture import DEFAULT, Attribute, Line, Picture, Span, is_rgb
from scrubjay.screen.pieces import clean
from scrubjay.tape.record import Json

StillFormat = Literal["text", "ansi", "html", "json"]
STILL_FORMATS: tuple[str, ...] = get_args(StillFormat)
_UNDERLINES = ("none", "single", "double", "curly", "dotted", "dashed")
_TITLE_MAX = 256  # characters of a title that anybody is shown


def encode_still(picture: Picture, format_: StillFormat) -> str:
    """What is to be seen, in one of the formats but JSON."""
    match format_:
        case "ansi":
            return encode_ansi(picture)
        case "html":
            return encode_html(picture, title=picture.title[:_TITLE_MAX])
        case _:
            text = encode_ansi(picture, colours=False).rstrip("\n")
            return text + "\n" if text else ""


def describe_still(frame: Frame) -> Json:
    """Everything that is to be seen, for a program."""
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


def _describe_line(line: Line) -> Json:
    said: Json = {"text": clean(line.text), "spans": [_describe_span(span) for span in line.spans]}
    return said | {"wrapped": True} if line.wrapped else said


def _describe_span(span: Span) -> Json:
    """What a span says; of its style only what is not as usual."""
    style = span.style
    said: Json = {"text": clean(span.text), "cells": span.cells}
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
