"""What was recorded: tapes, screens at any instant, timelines."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from scrubjay.errors import BadInput
from scrubjay.replay.frame import Frame
from scrubjay.replay.reel import Reel
from scrubjay.replay.still import describe_still, encode_still
from scrubjay.screen.vt import encode_vt
from scrubjay.server.rest import models
from scrubjay.server.rest.context import InTower, ThePod, pod_id
from scrubjay.tape.raw_bytes import read_bytes

TAPE_PORTION_BYTES = 4 << 20

router = APIRouter(prefix="/api/v1/pods/{pod}", tags=["recordings"])
ScreenFormat = Literal["json", "text", "ansi", "html", "vt"]
RawMoment = Annotated[
    str | None, Query(description="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET; the end without.")
]


@router.get("/screen", summary="The screen at an instant", response_class=Response)
async def screen(
    tower: InTower,
    known: ThePod,
    at: RawMoment = None,
    format: ScreenFormat = "json",  # noqa: A002
    scrollback: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """Text and colours as they were; ``vt`` are the bytes that rebuild it in a terminal of the same size."""

    def find(reel: Reel) -> Frame:
        if at is None:
            return reel.seek(reel.duration, history=scrollback)
        return reel.show(at, history=scrollback)[0]

    frame = (await tower.cinema.show(pod_id(known), find)).masked()
    return await asyncio.to_thread(_encode, frame, format, scrollback)


def _encode(frame: Frame, format_: ScreenFormat, scrollback: int) -> Response:
    headers = {
        "Scrubjay-At": str(frame.at),
        "Scrubjay-Offset": str(frame.offset),
        "Scrubjay-Size": f"{frame.cols}x{frame.rows}",
    }
    if frame.unavailable is not None and format_ != "json":
        raise BadInput(f"there is no screen here: {frame.unavailable}", hint="try another instant")
    match format_:
        case "json":
            return JSONResponse(describe_still(frame), headers=headers)
        case "html":
            headers["Content-Disposition"] = "attachment; filename=screen.html"  # a recording is nobody's page here
            return HTMLResponse(encode_still(frame.picture, "html"), headers=headers)
        case "vt":
            drawn = encode_vt(frame.state, history=scrollback) if frame.state is not None else frame.text.encode()
            return Response(drawn, media_type="application/octet-stream", headers=headers)
        case "text" | "ansi":
            return PlainTextResponse(encode_still(frame.picture, format_), headers=headers)


@router.get("/timeline", summary="A whole recording at a glance")
async def timeline(tower: InTower, known: ThePod, parts: Annotated[int, Query(ge=1, le=4096)] = 256) -> models.Timeline:
    """How much was shown when, marks, and where nothing happened."""

    def look(reel: Reel) -> models.Timeline:
        line = reel.timeline(parts)
        return models.Timeline(
            duration=line.duration,
            wall_us=reel.wall_us(0),
            live=reel.live,
            density=list(line.density),
            marks=[models.Mark(at=mark.time, label=mark.label, author=mark.author) for mark in line.marks],
            idle=[(idle.start, idle.stop) for idle in line.idle],
        )

    return await tower.cinema.show(pod_id(known), look)


@router.get("/tape", summary="Bytes of the tape", response_class=Response)
async def tape(
    tower: InTower,
    known: ThePod,
    offset: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
    limit: Annotated[int, Query(ge=1, le=TAPE_PORTION_BYTES)] = TAPE_PORTION_BYTES,
) -> Response:
    """Records as docs/tape-format.md describes them, cut anywhere; ``Scrubjay-End`` says how far the tape goes."""

    def read() -> tuple[bytes, int]:
        opened = tower.open_tape(pod_id(known))
        return read_bytes(opened, offset, limit), opened.end

    data, end = await asyncio.to_thread(read)
    headers = {"Scrubjay-Offset": str(offset), "Scrubjay-End": str(end)}
    headers["Scrubjay-Complete"] = "true" if known.report.complete else "false"
    return Response(data, media_type="application/octet-stream", headers=headers)
