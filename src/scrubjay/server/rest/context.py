"""What every route of the API has at hand."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Path, Query, Request

from scrubjay.fleet.access import Principal
from scrubjay.ids import PodId
from scrubjay.replay.instants import wall_of
from scrubjay.server.gate import Gate
from scrubjay.server.guard import pod_of, principal_of
from scrubjay.server.tower import KnownPod, Tower


def _tower(request: Request) -> Tower:
    return cast(Tower, request.app.state.tower)


def _gate(request: Request) -> Gate:
    return cast(Gate, request.app.state.gate)


def _principal(request: Request) -> Principal:
    return principal_of(request.scope)


InTower = Annotated[Tower, Depends(_tower)]
InGate = Annotated[Gate, Depends(_gate)]
Asker = Annotated[Principal, Depends(_principal)]


def _known(
    request: Request,
    tower: InTower,
    _pod: Annotated[str, Path(alias="pod", description="A pod's name, id, or a unique beginning of either.")],
) -> KnownPod:
    return tower.find(pod_of(request.scope))


ThePod = Annotated[KnownPod, Depends(_known)]
RawInstant = Annotated[
    str | None,
    Query(description="An instant of the fleet: 2026-11-15T02:14, 02:14:07, 10m for ten minutes ago, or microseconds."),
]


def instant_us(tower: Tower, raw: str | None) -> int | None:
    """The wall clock somebody means; None for now."""
    return None if raw is None else wall_of(raw, tower.clock.wall_us())


def pod_id(known: KnownPod) -> PodId:
    """The id of a pod that was found."""
    return PodId(known.report.id)
