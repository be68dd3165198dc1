"""Tools that show the fleet: who is there, what they do, what was on their screens; and a label on one's own tape."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.errors import BadInput, NoSuchPod, NotATape
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.parties import session_party
from scrubjay.fleet.process import describe_state
from scrubjay.fleet.untrusted import quote
from scrubjay.ids import PodId
from scrubjay.query import parse_query
from scrubjay.replay.frame import Frame
from scrubjay.replay.reel import Reel
from scrubjay.replay.still import encode_still
from scrubjay.server.mcp.arguments import At, IdempotencyKey, Pod
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.server.rest.fleet import search
from scrubjay.server.rest.once import once
from scrubjay.server.tower import KnownPod, author_of
from scrubjay.store.messages import inbox_of
from scrubjay.store.pods import get_pod
from scrubjay.store.waits import waits_of
from scrubjay.tape.record import Json
from scrubjay.wire import messages
from scrubjay.wire.messages import PodReport

LABEL_MAX = 1000


@tool(read_only=True)
async def whoami(desk: Desk) -> Json:
    """Who you are in this fleet, what is in your inbox, and what you wait for."""
    asker, actor = desk.asker, desk.actor
    pod = {"id": actor.pod, "name": actor.name} if actor.pod is not None else None
    told: Json = {"name": actor.name, "role": asker.role, "pod": pod}
    if actor.is_person:
        return told
    unread, waits = await desk.tower.database.read(
        lambda connection: (len(inbox_of(connection, actor.party, limit=1000)), waits_of(connection, actor.party))
    )
    return told | {"unread_messages": unread, "open_waits": [wait.id for wait in waits]}


@tool(read_only=True)
async def list_pods(
    desk: Desk, *, include_ended: Annotated[bool, Field(description="Also pods that have ended.")] = False
) -> Json:
    """The pods you know: yourself, and those you share a channel or a binding with. With what each does, and your
    scopes on it. Join a channel (list_channels, join_channel) to know more."""
    reception, actor = desk.coordination.reception, desk.actor
    known = reception.standing.acquaintances(actor.party)
    seen = [
        pod
        for pod in desk.tower.pods.values()
        if (actor.is_person or session_party(pod.report.session) in known) and (include_ended or not pod.over)
    ]
    return {"pods": [_describe(pod.report) | {"scopes": sorted(reception.scopes(actor, pod))} for pod in seen]}


@tool(read_only=True)
async def get_status(desk: Desk, pod: Pod, at: At = None) -> Json:
    """What a pod you know is doing, or was at an instant: executing, waiting for a person, or idle, and since when."""
    known = desk.coordination.reception.find(desk.actor, pod)
    at_us, id_ = desk.instant(at), PodId(known.report.id)
    found = await desk.tower.database.read(lambda connection: get_pod(connection, id_, at_us=at_us))
    if found is None:
        raise NoSuchPod(pod)
    status = found[1]
    return {
        "pod": found[0].name,
        "process": status.process,
        "reason": status.reason,
        "exit_status": status.exit_status,
        "activity": status.activity,
        "waiting_for": status.waiting_for,
        "confidence": status.confidence,
        "since_us": status.evidence.get("since_us", status.since_us),
    }


@tool(read_only=True)
async def view_screen(
    desk: Desk,
    pod: Pod,
    at: Annotated[
        str | None, Field(description="An instant of its recording: 12.5s, -10m, 50%, 02:14:07, 2026-11-15T02:14.")
    ] = None,
    scrollback: Annotated[int, Field(ge=0, le=2000, description="Rows above the screen to show as well.")] = 0,
) -> Json:
    """The text on a pod's screen, now or at any instant. Needs the scope terminal:read on it."""
    reception, actor = desk.coordination.reception, desk.actor
    known = reception.find(actor, pod)
    reception.require(actor, known, "terminal:read")

    def find(reel: Reel) -> tuple[Frame, str, int | None]:
        frame = reel.seek(reel.duration, history=scrollback) if at is None else reel.show(at, history=scrollback)[0]
        shown = "" if frame.unavailable is not None else encode_still(frame.masked().picture, "text")
        return frame, shown, reel.wall_us(frame.at)

    try:
        frame, text, wall_us = await desk.tower.cinema.show(PodId(known.report.id), find)
    except NotATape as error:
        raise BadInput(f"{known.report.name} has shown nothing yet", hint="ask again in a moment") from error
    if frame.unavailable is not None:
        raise BadInput(f"there is no screen here: {frame.unavailable}", hint="try another instant")
    shown = quote(text, source=f"terminal of pod {known.report.name}", wall_us=wall_us)
    return {
        "pod": known.report.name,
        "offset": frame.offset,
        "cols": frame.cols,
        "rows": frame.rows,
        **shown.describe(),
    }


@tool(read_only=True)
async def search_history(
    desk: Desk,
    query: Annotated[str, Field(min_length=1, max_length=1000, description='Words; "a phrase", begin*, -without.')],
    pod: Annotated[str | None, Field(description="One pod; otherwise all you may read.")] = None,
    since: At = None,
    until: At = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> Json:
    """Find what was ever shown or typed in the terminals you may read (scope terminal:read), the newest first."""
    reception, actor = desk.coordination.reception, desk.actor
    named = [*([pod] if pod is not None else []), *parse_query(query).pods]
    chosen = [reception.find(actor, raw) for raw in named] if named else _readable(desk)
    for known in chosen:
        reception.require(actor, known, "terminal:read")
    if not chosen:
        return {"hits": []}
    hits = await search(desk.tower, query, [known.report.id for known in chosen], since, until, limit)
    return {
        "hits": [
            {"pod": hit.name, "at": hit.at, "offset": hit.offset, "kind": hit.kind}
            | quote(hit.text, source=f"terminal of pod {hit.name}", wall_us=hit.wall_us).describe()
            for hit in hits
        ]
    }


@tool()
async def mark(
    desk: Desk,
    label: Annotated[str, Field(description="What to call this instant.")],
    pod: Annotated[str | None, Field(description="Another pod, with the scope terminal:write on it.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Put a label on your recording, so that this instant can be found again."""
    reception, actor = desk.coordination.reception, desk.actor
    actor.require_changing()
    if pod is None and actor.pod is None:
        raise BadInput("you have no recording of your own", hint="name a pod")
    known = reception.find(actor, pod or str(actor.pod))
    if known.report.id != actor.pod:
        reception.require(actor, known, "terminal:write")
    desk.tower.require_running(known)
    check_text(label, LABEL_MAX, "label")
    asked = messages.Mark(pod=known.report.id, label=label, author=author_of(desk.asker))
    key = None if idempotency_key is None else f"mark {known.report.id} {idempotency_key}"
    answer = await once(desk.tower, desk.asker, key, lambda: desk.tower.ask(known, asked))
    return {"pod": known.report.name, "offset": answer.get("offset")}


@tool(destructive=True)
async def send_input(
    desk: Desk,
    pod: Pod,
    text: Annotated[str, Field(max_length=20_000, description="What to type.")] = "",
    *,
    enter: Annotated[bool, Field(description="Press Enter after it, by itself.")] = True,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Type into another pod's terminal. Needs the scope terminal:write on it, and an idempotency_key: the same key
    again types nothing again and returns the first answer."""
    actor = desk.actor
    actor.require_changing()
    known = desk.tower.pods[await desk.coordination.permits.find(desk.asker, "type", pod)]
    if idempotency_key is None:
        raise BadInput(
            "without an idempotency_key nothing is typed: if the answer got lost, it would be typed twice",
            hint="give any text that is new for each thing you type, and the same when you try again",
        )
    data = text.encode("utf-8", "replace")
    return await desk.coordination.typist.type_once(actor, known, data, enter=enter, key=idempotency_key)


def _readable(desk: Desk) -> list[KnownPod]:
    reception, actor = desk.coordination.reception, desk.actor
    return [known for known in desk.tower.pods.values() if "terminal:read" in reception.scopes(actor, known)]


def _describe(report: PodReport) -> Json:
    return {"name": report.name, "id": report.id, "agent": report.agent, "state": _state(report)}


def _state(report: PodReport) -> str:
    doing = report.status
    told = (None, None, None) if doing is None else (doing.activity, doing.waiting_for, doing.problem)
    return describe_state(report.process, report.reason, report.exit_status, *told)


TOOLS: tuple[Tool, ...] = (whoami, list_pods, get_status, view_screen, search_history, send_input, mark)
