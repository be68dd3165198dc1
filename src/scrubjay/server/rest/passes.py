"""Passes: what the agent of a pod shows at the server's tools, made before the pod is started."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from scrubjay.ids import parse_pod_id
from scrubjay.server.rest.context import InGate
from scrubjay.server.rest.models import Model

router = APIRouter(prefix="/api/v1/passes", tags=["passes"])


class Pass(Model):
    """The way of a pod's agent to the server's tools."""

    pod: str = Field(description="The id that the pod must be started with.")
    token: str = Field(description="What its agent shows. It is good for that pod alone, and is shown this once.")
    url: str = Field(description="Where the tools are, for agents on the server's own machine.")


@router.post("", status_code=201, summary="Make a pass for a pod that is about to be started")
async def create(gate: InGate) -> Pass:
    """It ends with the pod, and after an hour if the pod does not come."""
    made = await gate.make_pass()
    return Pass(pod=made.pod, token=made.token, url=gate.mcp_url)


@router.delete("/{pod}", status_code=204, summary="Take back the pass of a pod that was not started")
async def give_back(gate: InGate, pod: str) -> Response:
    """The token of a pod that is there stays good."""
    await gate.take_back_pass(parse_pod_id(pod))
    return Response(status_code=204)
