"""Handoffs: what is offered, and who takes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from scrubjay.server.rest import coordination_models as models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import InTower, RawInstant
from scrubjay.server.rest.once import IdempotencyKey

router = APIRouter(prefix="/api/v1/handoffs", tags=["handoffs"])
RawHandoff = Annotated[str, Path(description="A handoff's id, a unique beginning of it, or the key of an artifact.")]


@router.get("", summary="What is offered, now or at an instant")
async def all_handoffs(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    at: RawInstant = None,
    *,
    all: Annotated[bool, Query(description="Also what was taken, declined or withdrawn.")] = False,  # noqa: A002
) -> list[models.Handoff]:
    """Oldest first."""
    found = await coordination.handoffs.list(actor, at_us=past_us(tower, at), everything=all)
    return [models.Handoff.model_validate(handoff) for handoff in found]


@router.post("", status_code=201, summary="Offer something")
async def offer(
    coordination: InCoordination,
    actor: TheActor,
    wanted: models.OfferHandoff,
    idempotency_key: IdempotencyKey = None,
) -> models.OfferedHandoff:
    """Whoever waits for that artifact has it thereby, and goes on."""
    offered = await coordination.handoffs.offer(
        actor,
        note=wanted.note,
        to=wanted.to,
        artifact=wanted.artifact,
        files=wanted.files,
        commit=wanted.commit,
        key=idempotency_key,
    )
    return models.OfferedHandoff.model_validate(offered)


@router.post("/{handoff}/accept", summary="Take what is offered")
async def accept(
    coordination: InCoordination, actor: TheActor, handoff: RawHandoff, idempotency_key: IdempotencyKey = None
) -> models.Handoff:
    """A person takes what is for one pod on its behalf."""
    return models.Handoff.model_validate(await coordination.handoffs.accept(actor, handoff, key=idempotency_key))


@router.post("/{handoff}/decline", summary="Do not take what is offered")
async def decline(
    coordination: InCoordination, actor: TheActor, handoff: RawHandoff, idempotency_key: IdempotencyKey = None
) -> models.Handoff:
    """Or, of one's own, offer it no longer."""
    return models.Handoff.model_validate(await coordination.handoffs.decline(actor, handoff, key=idempotency_key))
