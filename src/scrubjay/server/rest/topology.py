"""The topology: who is there, and what is between them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from scrubjay.server.coordination.topology import FLOW_S
from scrubjay.server.rest import topology_models as models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import InTower, RawInstant
from scrubjay.wire.viewer import encode_json

FLOW_MAX_S = 7 * 86_400.0

router = APIRouter(prefix="/api/v1", tags=["fleet"])


@router.get(
    "/topology",
    summary="The fleet as a graph, now or at an instant",
    response_class=Response,
    responses={200: {"model": models.Topology, "description": "Nodes, edges, and what follows from them."}},
)
async def topology(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    at: RawInstant = None,
    *,
    all: Annotated[bool, Query(description="Also pods that have ended and have no edge.")] = False,  # noqa: A002
    flow_s: Annotated[float, Query(ge=0, le=FLOW_MAX_S, description="How long ago messages count.")] = FLOW_S,
) -> Response:
    """Who goes on with the changes after its `number` takes `all`: an ended pod may get an edge again."""
    found = await coordination.topology.at(actor, past_us(tower, at), everything=all, flow_s=flow_s)
    # A thousand pods would take FastAPI's own way a tenth of a second.
    return Response(encode_json(found), media_type="application/json")
