"""Bindings: who may do what to whose terminal."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from scrubjay.server.rest import coordination_models as models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import InTower, RawInstant
from scrubjay.server.rest.once import IdempotencyKey

router = APIRouter(prefix="/api/v1/bindings", tags=["bindings"])
RawBinding = Annotated[str, Path(description="A binding's id, or a unique beginning of it.")]
RawPod = Annotated[str | None, Query(description="A pod's name, id, or a unique beginning of either.")]


@router.get("", summary="All bindings, now or at an instant")
async def all_bindings(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    at: RawInstant = None,
    pod: RawPod = None,
    initiator: RawPod = None,
    target: RawPod = None,
    *,
    all: Annotated[bool, Query(description="Those that are over too.")] = False,  # noqa: A002
) -> list[models.Binding]:
    """Oldest first; only those of ``pod``, whichever side it is, if given, of ``initiator``, or on ``target``."""
    found = await coordination.bindings.list(
        actor, pod=pod, initiator=initiator, target=target, at_us=past_us(tower, at), ended=all
    )
    return [models.Binding.model_validate(binding) for binding in found]


@router.post("", status_code=201, summary="Ask for scopes on a pod's terminal")
async def request(
    coordination: InCoordination,
    actor: TheActor,
    wanted: models.RequestBinding,
    idempotency_key: IdempotencyKey = None,
) -> models.Binding:
    """Between two pods there is one binding for each direction: more scopes are pending on that."""
    kept = await coordination.bindings.request(
        actor,
        initiator=wanted.initiator,
        target=wanted.target,
        scopes=wanted.scopes,
        reason=wanted.reason,
        accept=wanted.accept,
        key=idempotency_key,
    )
    return models.Binding.model_validate(kept)


@router.post("/{binding}/accept", summary="Grant what is pending")
async def accept(
    coordination: InCoordination,
    actor: TheActor,
    binding: RawBinding,
    how: models.AcceptBinding | None = None,
    idempotency_key: IdempotencyKey = None,
) -> models.Binding:
    """All of it, or some: what is not granted is refused."""
    scopes = how.scopes if how is not None else None
    kept = await coordination.bindings.answer(actor, binding, accept=True, scopes=scopes, key=idempotency_key)
    return models.Binding.model_validate(kept)


@router.post("/{binding}/reject", summary="Refuse what is pending")
async def reject(
    coordination: InCoordination,
    actor: TheActor,
    binding: RawBinding,
    why: models.BindingReason | None = None,
    idempotency_key: IdempotencyKey = None,
) -> models.Binding:
    """What was granted before stays."""
    reason = why.reason if why is not None else None
    kept = await coordination.bindings.answer(actor, binding, accept=False, reason=reason, key=idempotency_key)
    return models.Binding.model_validate(kept)


@router.post("/{binding}/unbind", summary="End a binding")
async def unbind(
    coordination: InCoordination,
    actor: TheActor,
    binding: RawBinding,
    why: models.BindingReason | None = None,
    idempotency_key: IdempotencyKey = None,
) -> models.Binding:
    """With all that was granted and all that was pending."""
    reason = why.reason if why is not None else None
    return models.Binding.model_validate(
        await coordination.bindings.unbind(actor, binding, reason=reason, key=idempotency_key)
    )
