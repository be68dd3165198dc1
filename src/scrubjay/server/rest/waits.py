"""Waits: who waits for whom, why, and who does so in a circle."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Path, Query
from sqlalchemy import Connection

from scrubjay.errors import NoSuchPod
from scrubjay.ids import PodId
from scrubjay.server.rest import coordination_models as models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import InTower, RawInstant, ThePod, pod_id
from scrubjay.server.rest.pods import describe_status
from scrubjay.store.pods import get_pod
from scrubjay.store.status import Status
from scrubjay.tape.record import Json

router = APIRouter(prefix="/api/v1", tags=["waits"])
RawWait = Annotated[str, Path(description="A wait's id, or a unique beginning of an open one's.")]


@router.get("/waits", summary="Who waits, now or at an instant")
async def all_waits(
    tower: InTower, coordination: InCoordination, actor: TheActor, at: RawInstant = None
) -> models.Waits:
    """Open ones, oldest first, and the circles among them."""
    return models.Waits.model_validate(await coordination.waits.list(actor, at_us=past_us(tower, at)))


@router.delete("/waits/{wait}", summary="Cancel a wait")
async def cancel(
    coordination: InCoordination, actor: TheActor, wait: RawWait, reason: str | None = None
) -> models.Wait:
    """Whoever waits is told; of a wait that is over, how it ended."""
    return models.Wait.model_validate(await coordination.waits.cancel(actor, wait, reason=reason))


@router.get("/deadlocks", summary="All deadlocks there ever were")
async def all_deadlocks(
    coordination: InCoordination, actor: TheActor, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[models.Deadlock]:
    """The latest first, with their waits, and how each ended."""
    found = await coordination.waits.deadlocks(actor, limit=limit)
    return [models.Deadlock.model_validate(deadlock) for deadlock in found]


@router.get("/pods/{pod}/why", summary="Why a pod does not go on")
async def why(
    tower: InTower, coordination: InCoordination, actor: TheActor, known: ThePod, at: RawInstant = None
) -> models.Why:
    """Every way from it to what holds it up in the end, and what that does; now or at an instant."""
    own, at_us = pod_id(known), past_us(tower, at)
    answer = await coordination.waits.why(actor, own, at_us=at_us)
    ways = cast("list[Json]", answer["ways"])
    pods = {own, *(PodId(str(way["root_pod"])) for way in ways if way.get("root_pod") is not None)}

    def look(connection: Connection) -> dict[PodId, Status]:
        found = {each: get_pod(connection, each, at_us=at_us) for each in pods}
        return {each: there[1] for each, there in found.items() if there is not None}

    statuses = {each: describe_status(status) for each, status in (await tower.database.read(look)).items()}
    if own not in statuses:
        raise NoSuchPod(known.report.name)
    told = [{**way, "root_status": statuses.get(PodId(str(way.get("root_pod"))))} for way in ways]
    return models.Why.model_validate({**answer, "pod_id": own, "status": statuses[own], "ways": told})
