"""The fleet as a whole: changes, machines, search."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from scrubjay.ids import PodId
from scrubjay.query import mark, parse_query
from scrubjay.screen.pieces import clean
from scrubjay.server.rest import models
from scrubjay.server.rest.context import InTower, RawInstant, instant_us, pod_id
from scrubjay.store.events import read_events
from scrubjay.store.runners import list_runners

router = APIRouter(prefix="/api/v1", tags=["fleet"])


@router.get("/events", summary="What has changed, by number")
async def events(
    tower: InTower,
    after: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    pod: str | None = None,
    until: RawInstant = None,
) -> models.Events:
    """Numbers are contiguous; with ``pod`` only those of one pod, so that some are left out."""
    body = partial(
        read_events,
        after=after,
        limit=limit,
        pod=pod_id(tower.find(pod)) if pod is not None else None,
        until_us=instant_us(tower, until),
    )
    found = await tower.database.read(body)
    return models.Events(
        events=[
            models.Event(number=event.number, wall_us=event.wall_us, kind=event.kind, pod=event.pod, data=event.data)
            for event in found
        ],
        last=tower.changes.number,
    )


@router.get("/runners", summary="The machines of the fleet")
async def runners(tower: InTower, at: RawInstant = None) -> list[models.Runner]:
    """Those that were ever connected, by name."""
    found = await tower.database.read(partial(list_runners, at_us=instant_us(tower, at)))
    return [
        models.Runner(
            id=runner.id,
            name=runner.name,
            host=runner.host,
            version=runner.version,
            connected=runner.connected,
            reason=runner.reason,
            since_us=runner.since_us,
        )
        for runner in found
    ]


@router.get("/search", summary="Find what was ever shown or typed")
async def search(
    tower: InTower,
    q: Annotated[str, Query(min_length=1, max_length=1000, description="All words must be in a row.")],
    pod: Annotated[list[str] | None, Query()] = None,
    since: RawInstant = None,
    until: RawInstant = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    kind: Literal["shown", "typed"] | None = None,
) -> list[models.Hit]:
    """The newest first. Quotes make a phrase, a star the beginning of a word, a minus leaves out."""
    query = parse_query(q)
    query = query if kind is None else query._replace(kind=kind)
    named = [*(pod or []), *query.pods]
    pods = list({pod_id(tower.find(raw)) for raw in named}) if named else list(tower.pods)
    hits = await tower.library.search(
        query,
        await asyncio.to_thread(tower.shelves, pods),
        since_us=instant_us(tower, since),
        until_us=instant_us(tower, until),
        limit=limit,
    )
    found: list[models.Hit] = []
    for hit in hits:
        text = clean(hit.text).strip()
        known = tower.pods.get(PodId(hit.tape))
        found.append(
            models.Hit(
                pod=hit.tape,
                name=known.report.name if known is not None else hit.tape,
                at=hit.at,
                offset=hit.offset,
                wall_us=hit.wall_us,
                row=hit.y,
                kind=hit.kind,
                text=text,
                marks=mark(text, query),
            )
        )
    return found
